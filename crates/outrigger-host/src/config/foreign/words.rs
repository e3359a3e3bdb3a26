//! How other hosts write variables, in our way of writing them. A host that knows no variables means
//! what it writes, so a `${` of its becomes our `$${`.

use super::Host;
use crate::config::literal;
use crate::config::node::{Node, Value};
use crate::config::reference::{LITERAL, Reference};

use super::settings::Text;

/// A value that VS Code asks for.
pub(super) struct Input {
    id: String,
    description: Option<String>,
    default: Option<String>,
    password: bool,
}

/// The inputs that a file declares.
pub(super) fn inputs(root: &Node) -> Vec<Input> {
    let Some(Value::List(items)) = super::inside(root, &["inputs"]).map(|node| &node.value) else {
        return Vec::new();
    };
    let read = |item: &Node| {
        let text = |key: &str| match &super::inside(item, &[key])?.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        Some(Input {
            id: text("id")?,
            description: text("description"),
            default: text("default").filter(|text| !text.is_empty()),
            password: super::inside(item, &["password"])
                .is_some_and(|node| node.value == Value::Bool(true)),
        })
    };
    items.iter().filter_map(read).collect()
}

/// Where a text stands, as far as that decides what may stand in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// Where no secret may be fetched: a command, an argument, a folder.
    Plain,
    /// A value of this name, which may be one.
    Value(&'a str),
}

/// A text in our words, and what has to be said about it.
pub(super) fn ours(
    host: Host,
    inputs: &[Input],
    text: &str,
    place: Place<'_>,
) -> (String, Vec<String>) {
    let mut notes = Vec::new();
    let out = match host {
        Host::ClaudeDesktop | Host::Codex | Host::Zed => text.replace("${", "$${"),
        Host::Claude => text.to_owned(),
        Host::Gemini => dollars(text),
        Host::Opencode => braces(&text.replace("${", "$${"), place, &mut notes),
        Host::VsCode | Host::Cursor => editor(text, inputs, &mut notes),
    };
    let looks_like_ours =
        Reference::split(&out).is_some_and(|(scheme, rest)| Reference::is_whole(scheme, rest));
    let out = match place {
        // Theirs would be taken for one of ours.
        Place::Value(_) if looks_like_ours || out.starts_with(LITERAL) => format!("{LITERAL}{out}"),
        _ => out,
    };
    (out, notes)
}

/// The same for a value that may be a secret.
pub(super) fn value(host: Host, inputs: &[Input], name: &str, text: &str) -> (Text, Vec<String>) {
    let (value, notes) = ours(host, inputs, text, Place::Value(name));
    let plain = !value.contains("${") && !value.starts_with(LITERAL);
    let secret = literal::secret_part(name, &value).filter(|part| plain && !part.is_empty());
    let secret = secret.map(ToOwned::to_owned);
    (Text { value, secret }, notes)
}

/// `$NAME` becomes `${NAME}`; the rest is as ours.
fn dollars(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let after = &after[1..];
        let end = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(after.len());
        let name = &after[..end];
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            out.extend(["${", name, "}"]);
            rest = &after[end..];
        } else {
            out.push('$');
            rest = after;
        }
    }
    out + rest
}

/// opencode's `{env:NAME}` and `{file:PATH}`.
fn braces(text: &str, place: Place<'_>, notes: &mut Vec<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let inner = after[1..].split_once('}').map(|(inner, _)| inner);
        let ours = inner.and_then(|inner| match inner.split_once(':')? {
            ("env", name) if !name.is_empty() => Some((inner, format!("${{{name}}}"))),
            ("file", path) if path.starts_with(['/', '~']) && place != Place::Plain => {
                Some((inner, format!("${{file:{path}}}")))
            }
            ("file", path) => {
                notes.push(format!("`{{file:{path}}}` stays as it is: here only `env` and `headers` take a file, by its whole path"));
                None
            }
            _ => None,
        });
        if let Some((inner, ours)) = ours {
            out.push_str(&ours);
            rest = &after[inner.len() + 2..];
        } else {
            out.push('{');
            rest = &after[1..];
        }
    }
    out + rest
}

/// `${input:ID}` becomes a variable that a person has to set; what else these editors know is named the
/// same here, or cannot be had.
fn editor(text: &str, inputs: &[Input], notes: &mut Vec<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inner, behind)) = after.split_once('}') else {
            out.push_str("$${");
            rest = after;
            continue;
        };
        rest = behind;
        match inner.split_once(':') {
            Some(("input", id)) => out.push_str(&asked(id, inputs, notes)),
            Some((kind @ ("config" | "command" | "workspaceFolder"), _)) => {
                notes.push(format!(
                    "`${{{inner}}}` cannot be had here (`{kind}:` is the editor's); write its value"
                ));
                out.extend(["$${", inner, "}"]);
            }
            _ => out.extend(["${", inner, "}"]),
        }
    }
    out + rest
}

fn asked(id: &str, inputs: &[Input], notes: &mut Vec<String>) -> String {
    let name: String = id
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    let name = if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name
    } else {
        format!("INPUT_{name}")
    };
    let input = inputs.iter().find(|input| input.id == id);
    let about = input
        .and_then(|input| input.description.as_ref())
        .map_or_else(String::new, |description| format!(" ({description})"));
    if let Some(default) = input.and_then(|input| input.default.as_ref()) {
        notes.push(format!("the editor asks for `{id}`{about}; here the variable `{name}` is read, else its default holds"));
        return format!("${{{name}:-{}}}", default.replace("${", "$${"));
    }
    let how = if input.is_some_and(|input| input.password) {
        format!("set the variable `{name}`, or write a reference such as `file:PATH` in its place")
    } else {
        format!("set the variable `{name}`")
    };
    notes.push(format!("the editor asks for `{id}`{about}; {how}"));
    format!("${{{name}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(host: Host, text: &str) -> (String, usize) {
        let (text, notes) = ours(host, &[], text, Place::Value("X"));
        (text, notes.len())
    }

    #[test]
    fn each_host_means_something_else_by_a_variable() {
        for (host, theirs, ours, notes) in [
            (Host::Claude, "Bearer ${T:-x}", "Bearer ${T:-x}", 0),
            (Host::ClaudeDesktop, "${T}", "$${T}", 0),
            (Host::Codex, "a${T}b", "a$${T}b", 0),
            (Host::Gemini, "$T-${U} $5 $", "${T}-${U} $5 $", 0),
            (Host::Opencode, "Bearer {env:T}", "Bearer ${T}", 0),
            (
                Host::Opencode,
                "{file:~/t} {x} ${T}",
                "${file:~/t} {x} $${T}",
                0,
            ),
            (Host::Opencode, "{file:t}", "{file:t}", 1),
            (
                Host::VsCode,
                "${env:T}/${workspaceFolder}",
                "${env:T}/${workspaceFolder}",
                0,
            ),
            (Host::VsCode, "${input:my-key}", "${MY_KEY}", 1),
            (Host::VsCode, "${input:1}", "${INPUT_1}", 1),
            (Host::Cursor, "${config:x}", "$${config:x}", 1),
            (Host::Cursor, "${open", "$${open", 0),
            (Host::Zed, "file:/etc/x", "literal:file:/etc/x", 0),
            (Host::Claude, "env:HOME", "literal:env:HOME", 0),
        ] {
            assert_eq!(
                said(host, theirs),
                (ours.to_owned(), notes),
                "{} {theirs}",
                host.name()
            );
        }
    }
}

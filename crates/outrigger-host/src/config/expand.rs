//! Variables in configured text: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${workspace}`,
//! `${principal}` and the names other editors have for it. `$${` stands for `${`; a `$` before anything else is text.
//! A variable that is not set is an error: nothing ever becomes empty by accident. A reference to a
//! secret (`${file:PATH}` and its like) leaves a gap that is filled when a server is about to start.

use std::path::Path;

use super::reference::{LITERAL, Reference};
use super::surroundings::Surroundings;

/// Defaults may hold variables whose defaults hold variables, this deep.
const MAX_DEPTH: usize = 8;

/// Text with its variables replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    /// The environment variables that went into it, with their values.
    pub(crate) used: Vec<(String, String)>,
    /// Secrets that go into it at these offsets, in their order, once they are there.
    pub(crate) missing: Vec<(usize, Reference)>,
}

/// Why text cannot be expanded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    #[error("uses `${{{name}}}`, and no variable `{name}` is set")]
    Unset { name: String },
    #[error("uses `${{{name}}}`, and no home folder is known")]
    NoHome { name: String },
    #[error(
        "uses `${{principal}}`, which is for clients of `outrigger serve` that show who they are"
    )]
    NoPrincipal,
    #[error("begins with `~`, and no home folder is known")]
    NoHomeForTilde,
    #[error("asks for the input `{id}`; inputs are a dialogue of VS Code that does not exist here")]
    Input { id: String },
    #[error("has a `${{` without a `}}`")]
    Unclosed,
    #[error("has `${{{reference}}}`, which is no variable")]
    Malformed { reference: String },
    #[error("nests defaults more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("has a reference `{scheme}:`, which {fault}")]
    Reference { scheme: String, fault: &'static str },
}

impl ExpandError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Unset { name } => {
                format!("set `{name}` in the environment, or write `${{{name}:-…}}` with a default")
            }
            Self::NoHome { .. } | Self::NoHomeForTilde => "write the whole path".into(),
            Self::NoPrincipal => {
                "`[gateway.principals.NAME.servers.SERVER]` gives a server something for one of them alone".into()
            }
            Self::Input { id } => {
                let name: String =
                    id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
                format!("put the value into an environment variable and write `${{{name}}}` in its place")
            }
            Self::Reference { .. } => {
                format!("write `{LITERAL}` before a text that is meant as it stands")
            }
            Self::Unclosed | Self::Malformed { .. } | Self::TooDeep => {
                "known are `${NAME}`, `${NAME:-default}` and `${workspace}`; write `$${` for a `${` that is meant as text"
                    .into()
            }
        }
    }
}

/// Replaces the variables of `text`.
pub(crate) fn expand(text: &str, surroundings: &Surroundings) -> Result<Expanded, ExpandError> {
    let mut out = Expanded::default();
    expand_into(text, surroundings, &mut out, 0)?;
    Ok(out)
}

/// The same for a value that may hold a secret: as a whole it may also be a reference
/// (`file:PATH`), or a text that is only to look like one (`literal:file:PATH`).
pub(crate) fn expand_value(
    text: &str,
    surroundings: &Surroundings,
) -> Result<Expanded, ExpandError> {
    if let Some(literal) = text.strip_prefix(LITERAL) {
        return expand(literal, surroundings);
    }
    let Some((scheme, rest)) = Reference::split(text) else {
        return expand(text, surroundings);
    };
    let inner = match scheme {
        "file" => expand(rest, surroundings)?,
        _ => Expanded {
            text: rest.to_owned(),
            ..Expanded::default()
        },
    };
    if !inner.missing.is_empty() || !Reference::is_whole(scheme, &inner.text) {
        return expand(text, surroundings);
    }
    let reference = read(scheme, &inner.text, surroundings)?;
    Ok(Expanded {
        missing: vec![(0, reference)],
        ..Expanded::default()
    })
}

fn read(scheme: &str, rest: &str, around: &Surroundings) -> Result<Reference, ExpandError> {
    Reference::read(scheme, rest, around.home.as_deref()).map_err(|fault| ExpandError::Reference {
        scheme: scheme.to_owned(),
        fault,
    })
}

/// A leading `~` alone or before a slash is the home folder.
pub(crate) fn tilde(text: String, home: Option<&Path>) -> Result<String, ExpandError> {
    let rest = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => return Ok(text),
    };
    let home = home.ok_or(ExpandError::NoHomeForTilde)?.to_string_lossy();
    Ok(format!("{}{rest}", home.trim_end_matches('/')))
}

fn expand_into(
    text: &str,
    around: &Surroundings,
    out: &mut Expanded,
    depth: usize,
) -> Result<(), ExpandError> {
    if depth > MAX_DEPTH {
        return Err(ExpandError::TooDeep);
    }
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        let after = &after[2..];
        if let Some(escaped) = before.strip_suffix('$') {
            out.text.push_str(escaped);
            out.text.push_str("${");
            rest = after;
            continue;
        }
        out.text.push_str(before);
        let end = closing_of_list(after)
            .or_else(|| closing(after))
            .ok_or(ExpandError::Unclosed)?;
        reference(&after[..end], around, out, depth)?;
        rest = &after[end + 1..];
    }
    out.text.push_str(rest);
    Ok(())
}

/// The offset of the brace that closes a reference, past references inside of it.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '{' if previous == '$' => open += 1,
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            _ => {}
        }
        previous = c;
    }
    None
}

/// The same after the list of `cmd:`, whose texts may hold braces.
fn closing_of_list(text: &str) -> Option<usize> {
    let list = text.strip_prefix("cmd:")?;
    let mut read = serde_json::Deserializer::from_str(list).into_iter::<Vec<String>>();
    read.next()?.ok()?;
    let end = text.len() - list.len() + read.byte_offset();
    text[end..].starts_with('}').then_some(end)
}

fn reference(
    inner: &str,
    around: &Surroundings,
    out: &mut Expanded,
    depth: usize,
) -> Result<(), ExpandError> {
    if let Some(id) = inner.strip_prefix("input:") {
        return Err(ExpandError::Input { id: id.to_owned() });
    }
    if let Some((scheme, rest)) = Reference::split(inner).filter(|(scheme, _)| *scheme != "env") {
        return gap(scheme, rest, around, out, depth);
    }
    if let Some(known) = known(inner, around)? {
        out.text.push_str(&known);
        return Ok(());
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    if !is_variable(name) {
        return Err(ExpandError::Malformed {
            reference: inner.to_owned(),
        });
    }
    match (around.env.get(name), default) {
        // As in a shell, `:-` also stands in for an empty value.
        (Some(value), Some(default)) if value.is_empty() => {
            expand_into(default, around, out, depth + 1)
        }
        (Some(value), _) => {
            out.text.push_str(value);
            out.used.push((name.to_owned(), value.clone()));
            Ok(())
        }
        (None, Some(default)) => expand_into(default, around, out, depth + 1),
        (None, None) => Err(ExpandError::Unset {
            name: name.to_owned(),
        }),
    }
}

/// What is known without the environment.
fn known(name: &str, around: &Surroundings) -> Result<Option<String>, ExpandError> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Ok(Some(match name {
        "workspace" | "workspaceFolder" | "workspaceRoot" => text(&around.workspace),
        "workspaceFolderBasename" => {
            let name = around.workspace.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        }
        "principal" => around.principal.clone().ok_or(ExpandError::NoPrincipal)?,
        "userHome" => match &around.home {
            Some(home) => text(home),
            None => {
                return Err(ExpandError::NoHome {
                    name: name.to_owned(),
                });
            }
        },
        "pathSeparator" | "/" => std::path::MAIN_SEPARATOR.to_string(),
        _ => return Ok(None),
    }))
}

/// A reference to a secret; in the path of a file there may be variables.
fn gap(
    scheme: &str,
    rest: &str,
    around: &Surroundings,
    out: &mut Expanded,
    depth: usize,
) -> Result<(), ExpandError> {
    let mut inner = Expanded::default();
    if scheme == "file" {
        expand_into(rest, around, &mut inner, depth + 1)?;
    } else {
        rest.clone_into(&mut inner.text);
    }
    let reference = read(scheme, &inner.text, around)?;
    out.missing.push((out.text.len(), reference));
    Ok(())
}

/// Names as POSIX has them, and the parentheses of Windows' `ProgramFiles(x86)`.
fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || "_()".contains(c))
}

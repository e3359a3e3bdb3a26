//! Reading one entry of a listing of prompts, resources or templates. Null members count as absent,
//! unknown ones are left alone. What is used must be sound, and none of it may hide a character; an
//! entry that cannot be used is set aside with its reason, and its server lives.

use std::fmt::Write as _;

use outrigger_connect::ServerName;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::catalog::hidden_in;
use crate::hidden;
use crate::text::shorten;

/// Bytes of a name or an address; longer ones are none.
const NAME_BYTES: usize = 512;
const URI_BYTES: usize = 8 << 10;
/// Bytes of a description that a list shows.
const ABOUT_BYTES: usize = 200;

/// Words of a server for a person to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The server's name for it.
    pub name: String,
    /// Display name, where the server gives one.
    pub title: Option<String>,
    /// The server's description; empty when there is none.
    pub description: String,
    /// What it can be told.
    pub arguments: Vec<PromptArgument>,
    /// The entry as it came, with what is not known here: a JSON object.
    pub raw: String,
}

/// One argument of a prompt. Its values are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is for; empty when the server does not say.
    pub description: String,
    /// It must be given.
    pub required: bool,
}

/// Something to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its address. Only its server knows what it means; nothing here opens it.
    pub uri: String,
    /// Its name; the address when the server gives none.
    pub name: String,
    /// Display name, where the server gives one.
    pub title: Option<String>,
    /// The server's description; empty when there is none.
    pub description: String,
    /// For example `text/plain`, as the server says.
    pub media_type: Option<String>,
    /// Bytes, as the server says.
    pub size: Option<u64>,
    /// The entry as it came, with what is not known here: a JSON object.
    pub raw: String,
}

/// Addresses of resources, with variables (RFC 6570).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// For example `note:///{name}`.
    pub uri: String,
    /// Its name; the template when the server gives none.
    pub name: String,
    /// Display name, where the server gives one.
    pub title: Option<String>,
    /// The server's description; empty when there is none.
    pub description: String,
    /// For example `text/plain`, as the server says.
    pub media_type: Option<String>,
    /// The entry as it came, with what is not known here: a JSON object.
    pub raw: String,
}

/// An entry that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The server's own name or address for it, or `#3` for the third of the list.
    pub name: String,
    /// What is wrong.
    pub reason: String,
}

/// The entry's own name, as far as it is known, and what is wrong.
pub(super) type Fault = (Option<String>, String);

/// An entry of a listing.
pub(super) trait Entry: Sized {
    fn read(fields: &Fields) -> Result<Self, Fault>;
    /// What no two entries share.
    fn key(&self) -> &str;
}

/// The members of an entry.
pub(super) struct Fields {
    members: Map<String, Value>,
    raw: String,
}

/// All entries that can be used, and the others.
pub(super) fn read_all<T: Entry>(
    server: &ServerName,
    entries: &[Box<RawValue>],
    set_aside: &mut Vec<SetAside>,
) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (index, raw) in entries.iter().enumerate() {
        let read = Fields::of(raw).and_then(|fields| {
            let entry = T::read(&fields)?;
            if !seen.insert(entry.key().to_owned()) {
                let again = "the server lists it before".to_owned();
                return Err((Some(entry.key().to_owned()), again));
            }
            Ok(entry)
        });
        match read {
            Ok(entry) => all.push(entry),
            Err((name, reason)) => {
                let name = name.unwrap_or_else(|| format!("#{}", index + 1));
                let name = hidden::visible(&name, |_| false).into_owned();
                tracing::debug!(%server, name, reason, "set aside");
                set_aside.push(SetAside { name, reason });
            }
        }
    }
    all
}

impl Fields {
    fn of(raw: &RawValue) -> Result<Self, Fault> {
        match serde_json::from_str(raw.get()) {
            Ok(Value::Object(members)) => Ok(Self {
                members,
                raw: raw.get().to_owned(),
            }),
            Ok(_) => Err((None, "it is not an object".to_owned())),
            Err(error) => Err((None, format!("it cannot be read: {error}"))),
        }
    }

    fn present(&self, key: &str) -> Option<&Value> {
        self.members.get(key).filter(|value| !value.is_null())
    }

    /// A text that decides nothing: of another type it is none.
    fn words(&self, key: &str) -> Option<String> {
        let text = self.present(key)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn name(&self, key: &str, bytes: usize) -> Result<String, String> {
        match self.present(key) {
            None => Err(format!("it has no `{key}`")),
            Some(Value::String(name)) if name.trim().is_empty() => {
                Err(format!("its `{key}` is empty"))
            }
            Some(Value::String(name)) if name.len() > bytes => {
                Err(format!("its `{key}` is longer than {bytes} bytes"))
            }
            Some(Value::String(name)) if name.chars().any(char::is_control) => {
                Err(format!("its `{key}` has a control character"))
            }
            Some(Value::String(name)) => Ok(name.clone()),
            Some(_) => Err(format!("its `{key}` is not a string")),
        }
    }

    fn hides(&self) -> Result<(), String> {
        hidden_in(&self.members).map_or(Ok(()), Err)
    }
}

impl Entry for Prompt {
    fn read(fields: &Fields) -> Result<Self, Fault> {
        let name = fields
            .name("name", NAME_BYTES)
            .map_err(|reason| (None, reason))?;
        let fault = |reason: String| (Some(name.clone()), reason);
        fields.hides().map_err(fault)?;
        let arguments = match fields.present("arguments") {
            None => Vec::new(),
            Some(Value::Array(items)) => items
                .iter()
                .map(argument)
                .collect::<Result<_, _>>()
                .map_err(fault)?,
            Some(_) => return Err(fault("its `arguments` are not a list".to_owned())),
        };
        Ok(Self {
            title: fields.words("title"),
            description: fields.words("description").unwrap_or_default(),
            arguments,
            name,
            raw: fields.raw.clone(),
        })
    }

    fn key(&self) -> &str {
        &self.name
    }
}

fn argument(item: &Value) -> Result<PromptArgument, String> {
    let Value::Object(fields) = item else {
        return Err("one of its `arguments` is not an object".to_owned());
    };
    let fields = Fields {
        members: fields.clone(),
        raw: String::new(),
    };
    let name = fields
        .name("name", NAME_BYTES)
        .map_err(|reason| format!("one of its `arguments` cannot be used: {reason}"))?;
    Ok(PromptArgument {
        description: fields
            .words("description")
            .or_else(|| fields.words("title"))
            .unwrap_or_default(),
        required: fields.present("required").and_then(Value::as_bool) == Some(true),
        name,
    })
}

impl Entry for Resource {
    fn read(fields: &Fields) -> Result<Self, Fault> {
        let own = || fields.words("uri").or_else(|| fields.words("name"));
        let fault = |reason: String| (own(), reason);
        let uri = fields.name("uri", URI_BYTES).map_err(fault)?;
        fields.hides().map_err(fault)?;
        address(&uri).map_err(fault)?;
        Ok(Self {
            name: fields.words("name").unwrap_or_else(|| uri.clone()),
            title: fields.words("title"),
            description: fields.words("description").unwrap_or_default(),
            media_type: fields.words("mimeType"),
            size: fields.present("size").and_then(Value::as_u64),
            uri,
            raw: fields.raw.clone(),
        })
    }

    fn key(&self) -> &str {
        &self.uri
    }
}

impl Entry for Template {
    fn read(fields: &Fields) -> Result<Self, Fault> {
        let own = || fields.words("uriTemplate").or_else(|| fields.words("name"));
        let fault = |reason: String| (own(), reason);
        let uri = fields.name("uriTemplate", URI_BYTES).map_err(fault)?;
        fields.hides().map_err(fault)?;
        Ok(Self {
            name: fields.words("name").unwrap_or_else(|| uri.clone()),
            title: fields.words("title"),
            description: fields.words("description").unwrap_or_default(),
            media_type: fields.words("mimeType"),
            uri,
            raw: fields.raw.clone(),
        })
    }

    fn key(&self) -> &str {
        &self.uri
    }
}

/// An address has a scheme (RFC 3986, section 3.1), and nothing in it that ends a line.
pub(super) fn address(uri: &str) -> Result<(), String> {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    if uri.len() > URI_BYTES {
        return Err(format!("it is longer than {URI_BYTES} bytes"));
    }
    if uri.chars().any(char::is_control) {
        return Err("it has a control character".to_owned());
    }
    if !scheme.is_some_and(is_scheme) {
        return Err("it has no scheme, as `note:` in `note:///a`".to_owned());
    }
    Ok(())
}

impl Resource {
    /// One line about it.
    pub fn line(&self) -> String {
        let size = self.size.map(|size| format!("{size} bytes"));
        let facts: Vec<_> = [self.media_type.clone(), size]
            .into_iter()
            .flatten()
            .collect();
        line(&self.uri, &self.name, &facts, &self.description)
    }
}

impl Template {
    /// One line about it.
    pub fn line(&self) -> String {
        let facts: Vec<_> = self.media_type.iter().cloned().collect();
        line(&self.uri, &self.name, &facts, &self.description)
    }
}

fn line(uri: &str, name: &str, facts: &[String], description: &str) -> String {
    let mut text = uri.to_owned();
    if !facts.is_empty() {
        // Writing to a String does not fail.
        let _ = write!(text, " ({})", facts.join(", "));
    }
    let about = [name, description];
    let about = about
        .into_iter()
        .filter(|words| !words.is_empty() && *words != uri);
    let about = about.collect::<Vec<_>>().join(": ");
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    if about.is_empty() {
        return text;
    }
    format!("{text} {}", shorten(&about, ABOUT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(entries: &[&str]) -> Vec<Box<RawValue>> {
        let raw = |entry: &&str| RawValue::from_string((*entry).to_owned()).unwrap();
        entries.iter().map(raw).collect()
    }

    fn aside<T: Entry>(entries: &[&str]) -> (Vec<T>, String) {
        let mut set_aside = Vec::new();
        let server = ServerName::new("lab").unwrap();
        let all = read_all(&server, &raw(entries), &mut set_aside);
        let told: Vec<_> = set_aside
            .iter()
            .map(|entry| format!("{}: {}", entry.name, entry.reason))
            .collect();
        (all, told.join("\n"))
    }

    #[test]
    fn a_bad_prompt_costs_itself() {
        let (all, told) = aside::<Prompt>(&[
            r#"{"name":"good","arguments":[{"name":"who","required":true},{"name":"how","description":null}]}"#,
            r#"{"name":"good"}"#,
            r#"{"name":"hid\u200bden"}"#,
            r#"{"name":"about","description":"Reads.\u202e"}"#,
            r#"{"name":"list","arguments":{"who":1}}"#,
            r#"{"name":"nameless","arguments":[{"description":"x"}]}"#,
            r#"{"name":7}"#,
            "[]",
            r#"{"name":"plain","title":7}"#,
        ]);
        let names: Vec<_> = all.iter().map(|prompt| prompt.name.as_str()).collect();
        assert_eq!(names, ["good", "plain"]);
        assert!(all[0].arguments[0].required && !all[0].arguments[1].required);
        insta::assert_snapshot!(told, @r"
        good: the server lists it before
        hid\u{200b}den: its `name` hides the character U+200B (zero-width)
        about: its `description` hides the character U+202E (bidi control)
        list: its `arguments` are not a list
        nameless: one of its `arguments` cannot be used: it has no `name`
        #7: its `name` is not a string
        #8: it is not an object
        ");
    }

    #[test]
    fn a_bad_resource_costs_itself() {
        let (all, told) = aside::<Resource>(&[
            r#"{"uri":"note:///a","name":"A","mimeType":"text/plain","size":3}"#,
            r#"{"uri":"/etc/passwd","name":"path"}"#,
            r#"{"uri":"../../x","name":"path"}"#,
            r#"{"name":"nowhere"}"#,
            r#"{"uri":"note:///a"}"#,
            r#"{"uri":"note:///b\nnote:///c"}"#,
            r#"{"uri":"urn:x:1"}"#,
        ]);
        let lines: Vec<_> = all.iter().map(Resource::line).collect();
        assert_eq!(lines, ["note:///a (text/plain, 3 bytes) A", "urn:x:1"]);
        insta::assert_snapshot!(told, @r"
        /etc/passwd: it has no scheme, as `note:` in `note:///a`
        ../../x: it has no scheme, as `note:` in `note:///a`
        nowhere: it has no `uri`
        note:///a: the server lists it before
        note:///b\nnote:///c: its `uri` has a control character
        ");
    }
}

//! A tool's definition as it goes out: as its server sent it, under our name, without what would make
//! a client refuse the whole listing.

use std::borrow::Cow;
use std::fmt;

use outrigger_connect::wire::quote;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The members besides `name`, as JSON, in the server's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// For all clients.
    members: String,
    /// `outputSchema`, where only modern clients take it.
    modern: Option<String>,
    /// Its server runs it as a task, if that is wanted.
    #[serde(default)]
    tasks: bool,
    /// Where in `members` the first member of `_meta` stands, or would.
    meta: Option<usize>,
}

/// The member of `_meta` that says whose a tool is and what its server calls it, where its name does not.
const OWN_NAME: &str = "outrigger/tool";

/// How a definition goes out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) name: &'a str,
    /// Server and own name, where `name` does not say them.
    pub(crate) own: Option<(&'a str, &'a str)>,
    pub(crate) modern: bool,
}

impl Definition {
    /// `None`: it is no object.
    pub(crate) fn read(raw: &RawValue) -> Option<Self> {
        let Members(members) = serde_json::from_str(raw.get()).ok()?;
        let mut out = Self {
            members: String::new(),
            modern: None,
            tasks: false,
            meta: None,
        };
        for (name, value) in members {
            let json = crate::message::one_line(value.get());
            let json = match &*name {
                "name" => continue,
                "execution" => {
                    out.tasks = takes_tasks(&json);
                    continue;
                }
                "title" | "description" if !json.starts_with('"') => continue,
                "annotations" | "_meta" if !json.starts_with('{') => continue,
                "icons" if !json.starts_with('[') => continue,
                "inputSchema" => with_type(&json),
                "outputSchema" if type_of(&json).as_deref() != Some("object") => {
                    out.modern = json.starts_with('{').then(|| json.into_owned());
                    continue;
                }
                _ if json == "null" => continue,
                _ => json,
            };
            out.members.push(',');
            out.members.push_str(&quote(&name));
            out.members.push(':');
            if name == "_meta" {
                out.meta = Some(out.members.len() + 1);
            }
            out.members.push_str(&json);
        }
        Some(out)
    }

    /// Writes the whole object.
    pub(crate) fn write(&self, how: Written<'_>, out: &mut String) {
        out.push_str("{\"name\":");
        out.push_str(&quote(how.name));
        match (how.own, self.meta) {
            (None, _) => out.push_str(&self.members),
            (Some(own), Some(at)) => {
                let (before, rest) = self.members.split_at(at);
                out.push_str(before);
                push_own(own, out);
                if !rest.trim_start().starts_with('}') {
                    out.push(',');
                }
                out.push_str(rest);
            }
            (Some(own), None) => {
                out.push_str(&self.members);
                out.push_str(",\"_meta\":{");
                push_own(own, out);
                out.push('}');
            }
        }
        if let Some(schema) = self.modern.as_deref().filter(|_| how.modern) {
            out.push_str(",\"outputSchema\":");
            out.push_str(schema);
        }
        if self.tasks && !how.modern {
            // Whatever its server wants: here every call may be one, and need not be.
            out.push_str(",\"execution\":{\"taskSupport\":\"optional\"}");
        }
        out.push('}');
    }
}

/// MCP 2025-11-25, "Tasks", "Tool-Level Negotiation".
fn takes_tasks(execution: &str) -> bool {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "taskSupport", default)]
        tasks: Option<String>,
    }
    let shape = serde_json::from_str::<Shape>(execution).ok();
    let tasks = shape.and_then(|shape| shape.tasks);
    matches!(tasks.as_deref(), Some("optional" | "required"))
}

fn push_own((server, name): (&str, &str), out: &mut String) {
    for piece in [
        &quote(OWN_NAME),
        ":{\"server\":",
        &quote(server),
        ",\"name\":",
        &quote(name),
        "}",
    ] {
        out.push_str(piece);
    }
}

fn type_of(schema: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "type", default)]
        kind: Option<String>,
    }
    serde_json::from_str::<Shape>(schema).ok()?.kind
}

/// Clients refuse an input schema that does not say that it is an object's.
fn with_type(schema: &str) -> Cow<'_, str> {
    if schema.starts_with('{') && type_of(schema).is_none() {
        let with = crate::message::with_member(schema, "\"type\":\"object\"");
        return Cow::Owned(with);
    }
    Cow::Borrowed(schema)
}

/// The members of an object, in order; of equal names the last one.
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members: Vec<(Cow<'de, str>, &RawValue)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<Name<'de>, &RawValue>()? {
            members.retain(|(known, _)| *known != name.0);
            members.push((name.0, value));
        }
        Ok(Members(members))
    }
}

/// A name, without a copy where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str) -> (String, String) {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let definition = Definition::read(&raw).unwrap();
        let (mut legacy, mut modern) = (String::new(), String::new());
        let how = |modern| Written {
            name: "x",
            own: None,
            modern,
        };
        definition.write(how(false), &mut legacy);
        definition.write(how(true), &mut modern);
        (legacy, modern)
    }

    #[test]
    fn a_tool_that_is_called_something_else_says_so() {
        let told = r#""outrigger/tool":{"server":"lab","name":"größe/1"}"#;
        for (json, expected) in [
            (
                r#"{"name":"größe/1"}"#,
                format!(r#"{{"name":"x","_meta":{{{told}}}}}"#),
            ),
            (
                r#"{"_meta":{},"a":1}"#,
                format!(r#"{{"name":"x","_meta":{{{told}}},"a":1}}"#),
            ),
            (
                r#"{"b":{},"_meta": { "k":1},"a":1}"#,
                format!(r#"{{"name":"x","b":{{}},"_meta":{{{told}, "k":1}},"a":1}}"#),
            ),
        ] {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let mut out = String::new();
            let how = Written {
                name: "x",
                own: Some(("lab", "größe/1")),
                modern: false,
            };
            Definition::read(&raw).unwrap().write(how, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn a_definition_goes_out_as_it_came() {
        let json = r#"{"name":"a","title":"T","inputSchema":{"type":"object","n":123456789012345678901.50},"x-unknown":[1, 2],"_meta":{"k":"é"}}"#;
        let (legacy, modern) = written(json);
        assert_eq!(legacy, json.replace("\"a\"", "\"x\""));
        assert_eq!(legacy, modern);
    }

    #[test]
    fn what_would_lose_the_listing_is_left_out() {
        let (legacy, modern) = written(
            r#"{"title":null,"name":"a","description":7,"annotations":[],"icons":null,"execution":{"taskSupport":"required"},
            "inputSchema":{"properties":{}},"outputSchema":{"anyOf":[{"type":"object"}]},"_meta":null}"#,
        );
        assert_eq!(
            legacy,
            r#"{"name":"x","inputSchema":{"type":"object","properties":{}},"execution":{"taskSupport":"optional"}}"#
        );
        assert_eq!(
            modern,
            r#"{"name":"x","inputSchema":{"type":"object","properties":{}},"outputSchema":{"anyOf":[{"type":"object"}]}}"#
        );
        assert_eq!(
            written(r#"{"inputSchema":{ }}"#).0,
            r#"{"name":"x","inputSchema":{"type":"object" }}"#
        );
    }
}

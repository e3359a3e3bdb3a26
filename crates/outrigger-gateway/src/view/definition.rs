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
}

impl Definition {
    /// `None`: it is no object.
    pub(crate) fn read(raw: &RawValue) -> Option<Self> {
        let Members(members) = serde_json::from_str(raw.get()).ok()?;
        let mut out = Self {
            members: String::new(),
            modern: None,
            tasks: false,
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
            out.members.push_str(&json);
        }
        Some(out)
    }

    /// Writes the whole object.
    pub(crate) fn write(&self, name: &str, modern: bool, out: &mut String) {
        out.push_str("{\"name\":");
        out.push_str(&quote(name));
        out.push_str(&self.members);
        if let Some(schema) = self.modern.as_deref().filter(|_| modern) {
            out.push_str(",\"outputSchema\":");
            out.push_str(schema);
        }
        if self.tasks && !modern {
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
        definition.write("x", false, &mut legacy);
        definition.write("x", true, &mut modern);
        (legacy, modern)
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

//! Headers that repeat what the body says, so that what stands in between can route by them.
//!
//! Promises: names and values that HTTP cannot carry are encoded; a tool whose annotations cannot be
//! honoured is named with the reason. Source: MCP 2026-07-28, "Standard MCP Request Headers"
//! (SEP-2243). Leaves out: the legacy era, which has none of this.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";
const PREFIX: &str = "Mcp-Param-";

/// The arguments of one tool that are to be mirrored: the way to each, and its header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mirror(Vec<(Vec<String>, String)>);

pub(super) fn method_header(method: &str) -> HeaderMap {
    one("mcp-method", method)
}

pub(super) fn name_header(name: &str) -> HeaderMap {
    one("mcp-name", &encode(name))
}

fn one(name: &'static str, value: &str) -> HeaderMap {
    let value = HeaderValue::from_str(value).ok();
    value
        .map(|value| (HeaderName::from_static(name), value))
        .into_iter()
        .collect()
}

/// A value as it can travel: bare where it survives, else `=?base64?…?=`.
fn encode(value: &str) -> String {
    let outer_space = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if outer_space || !plain || looks_encoded {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(value))
    } else {
        value.to_owned()
    }
}

impl Mirror {
    /// Reads the annotations of an input schema. `Err`: the tool must not be used, and why.
    pub(crate) fn of_schema(schema: &Value) -> Result<Self, String> {
        let Some(schema) = schema.as_object() else {
            return Ok(Self::default());
        };
        if schema.contains_key(ANNOTATION) {
            return Err(format!(
                "`{ANNOTATION}` stands on the schema itself, not on a property"
            ));
        }
        if off_the_path(schema, true) {
            return Err(format!(
                "`{ANNOTATION}` stands where no property of the arguments is"
            ));
        }
        let mut found = Vec::new();
        collect(schema, &mut Vec::new(), &mut found)?;
        for (at, (_, header)) in found.iter().enumerate() {
            if found[..at]
                .iter()
                .any(|(_, other)| other.eq_ignore_ascii_case(header))
            {
                return Err(format!(
                    "two properties ask for the header `{PREFIX}{header}`"
                ));
            }
        }
        Ok(Self(found))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers for these arguments. Absent, null and composite values have none.
    pub(crate) fn headers(&self, arguments: &Value) -> Vec<(String, String)> {
        let value_at =
            |path: &[String]| path.iter().try_fold(arguments, |value, key| value.get(key));
        let header = |(path, name): &(Vec<String>, String)| {
            let text = match value_at(path)? {
                Value::String(text) => text.clone(),
                Value::Bool(yes) => yes.to_string(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            Some((format!("{PREFIX}{name}"), encode(&text)))
        };
        self.0.iter().filter_map(header).collect()
    }
}

fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, String)>,
) -> Result<(), String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    for (name, property) in properties {
        let Some(property) = property.as_object() else {
            continue;
        };
        path.push(name.clone());
        if let Some(header) = property.get(ANNOTATION) {
            let place = path.join(".");
            let token = header
                .as_str()
                .filter(|text| !text.is_empty() && text.bytes().all(is_token));
            let Some(header) = token else {
                return Err(format!(
                    "the `{ANNOTATION}` of `{place}` is not an HTTP header name"
                ));
            };
            if !matches!(
                property.get("type").and_then(Value::as_str),
                Some("string" | "integer" | "boolean")
            ) {
                return Err(format!(
                    "`{place}` has an `{ANNOTATION}` and is no string, integer or boolean"
                ));
            }
            found.push((path.clone(), header.to_owned()));
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// A character of an HTTP token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether an annotation stands anywhere but on a property reached through `properties` alone.
fn off_the_path(schema: &Map<String, Value>, on_path: bool) -> bool {
    schema.iter().any(|(key, value)| match key.as_str() {
        ANNOTATION => !on_path,
        "properties" => in_each(value, on_path),
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
            in_each(value, false)
        }
        // Data and names, not schemas.
        "default" | "const" | "enum" | "examples" | "dependentRequired" => false,
        _ => in_schema(value, false),
    })
}

fn in_each(schemas: &Value, on_path: bool) -> bool {
    schemas
        .as_object()
        .is_some_and(|schemas| schemas.values().any(|schema| in_schema(schema, on_path)))
}

fn in_schema(value: &Value, on_path: bool) -> bool {
    match value {
        Value::Object(schema) => off_the_path(schema, on_path),
        Value::Array(items) => items.iter().any(|item| in_schema(item, false)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_mirrored_as_annotated() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        }});
        let mirror = Mirror::of_schema(&schema).unwrap();
        let headers = mirror.headers(&json!({"region": "größe", "deep": {"n": 7}}));
        assert_eq!(
            headers,
            [
                (
                    "Mcp-Param-Region".to_owned(),
                    "=?base64?Z3LDtsOfZQ==?=".to_owned()
                ),
                ("Mcp-Param-N".to_owned(), "7".to_owned()),
            ]
        );
        assert_eq!(mirror.headers(&json!({"region": null})), []);
    }

    #[test]
    fn annotations_that_cannot_be_honoured_are_named() {
        for (schema, words) in [
            (json!({"x-mcp-header": "A"}), "itself"),
            (
                json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
                "no string",
            ),
            (
                json!({"properties": {"a": {"type": "string", "x-mcp-header": "A b"}}}),
                "not an HTTP header name",
            ),
            (
                json!({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
                "no property",
            ),
            (
                json!({"properties": {
                    "a": {"type": "string", "x-mcp-header": "X"}, "b": {"type": "string", "x-mcp-header": "x"}}}),
                "two properties",
            ),
        ] {
            let error = Mirror::of_schema(&schema).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(
            Mirror::of_schema(&json!({"properties": {"x": {"default": {"x-mcp-header": 1}}}}))
                .is_ok()
        );
    }
}

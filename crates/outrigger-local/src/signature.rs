//! A tool in one line, like the signature of a function with its comment.
//!
//! Small models choose and fill in tools better from `days_between(end: date, start?: date)` than
//! from a JSON Schema, and read a third of the tokens. Nothing is decided here: the grammar is made
//! from the schema itself.

use serde_json::{Map, Value};

/// Deeper objects are written as `object`.
const DEPTH: usize = 2;
/// More alternatives of an enumeration than these are cut.
const ALTERNATIVES: usize = 12;

/// `name(argument: type, optional?: type)`, required arguments first.
pub(crate) fn signature(name: &str, schema: &Value) -> String {
    format!("{name}({})", arguments(schema, schema, DEPTH))
}

fn arguments(root: &Value, schema: &Value, depth: usize) -> String {
    let none = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|other| other == name);
    let (first, then): (Vec<_>, Vec<_>) =
        properties.iter().partition(|(name, _)| is_required(name));
    let argument = |(name, schema): &(&String, &Value)| {
        let optional = if is_required(name) { "" } else { "?" };
        format!("{name}{optional}: {}", kind(root, schema, depth))
    };
    first
        .iter()
        .chain(&then)
        .map(argument)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The type of a value, in the words of a programming language.
fn kind(root: &Value, schema: &Value, depth: usize) -> String {
    if depth == 0 {
        return "object".to_owned();
    }
    let resolved = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|path| root.pointer(path.strip_prefix('#')?));
    if let Some(target) = resolved {
        return kind(root, target, depth - 1);
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let mut shown: Vec<String> = values
            .iter()
            .take(ALTERNATIVES)
            .map(Value::to_string)
            .collect();
        if values.len() > ALTERNATIVES {
            shown.push("…".to_owned());
        }
        return shown.join("|");
    }
    let choices = ["anyOf", "oneOf"]
        .iter()
        .find_map(|key| schema.get(*key)?.as_array());
    if let Some(choices) = choices {
        return either(choices.iter().map(|choice| kind(root, choice, depth)));
    }
    match schema.get("type") {
        Some(Value::String(name)) => named(root, schema, name, depth),
        Some(Value::Array(names)) => either(
            names
                .iter()
                .filter_map(Value::as_str)
                .map(|name| named(root, schema, name, depth)),
        ),
        _ => "any".to_owned(),
    }
}

/// Alternatives without `null`: that an argument may be left out is said by its `?`.
fn either(kinds: impl Iterator<Item = String>) -> String {
    let mut kinds: Vec<String> = kinds.filter(|kind| kind != "null").collect();
    kinds.dedup();
    kinds.join("|")
}

fn named(root: &Value, schema: &Value, name: &str, depth: usize) -> String {
    match name {
        "array" => {
            let items = schema
                .get("items")
                .map_or_else(|| "any".to_owned(), |items| kind(root, items, depth));
            format!("{items}[]")
        }
        "object" => {
            let inner = arguments(root, schema, depth - 1);
            if inner.is_empty() {
                name.to_owned()
            } else {
                format!("{{{inner}}}")
            }
        }
        "string" => schema
            .get("format")
            .and_then(Value::as_str)
            .unwrap_or(name)
            .to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_like_a_function() {
        let schema = json!({
            "type": "object",
            "properties": {
                "start": {"type": ["string", "null"], "format": "date"},
                "end": {"type": "string", "format": "date"},
                "unit": {"enum": ["days", "weeks"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "at": {"$ref": "#/$defs/place"},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "required": ["end", "at"],
            "$defs": {"place": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        });
        assert_eq!(
            signature("days_between", &schema),
            "days_between(end: date, at: {name: string}, start?: date, unit?: \"days\"|\"weeks\", tags?: string[], limit?: integer)"
        );
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({
            "type": "object",
            "properties": {"node": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        });
        assert_eq!(signature("walk", &schema), "walk(node?: {next?: object})");
    }

    #[test]
    fn a_tool_without_arguments() {
        assert_eq!(signature("ping", &json!({"type": "object"})), "ping()");
    }
}

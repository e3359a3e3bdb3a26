//! A tool in one line: its required arguments like the signature of a function, what it does, and
//! what may be added.
//!
//! Measured with half a billion parameters: such a line takes half the tokens of a JSON Schema, and
//! with the optional arguments set apart they are filled in only when somebody asked for them.
//! Nothing is decided here: the grammar is made from the schema itself.

use serde_json::{Map, Value};

/// Deeper objects are written as `object`.
const DEPTH: usize = 3;
/// More alternatives of an enumeration than these are cut.
const ALTERNATIVES: usize = 12;
/// Characters of a tool's and of an argument's description.
const TOOL_WORDS: usize = 300;
const ARGUMENT_WORDS: usize = 100;

/// `name(argument: what it is) - What it does. Optional: argument: what it is`.
pub(crate) fn signature(name: &str, description: &str, schema: &Value) -> String {
    let (required, optional) = arguments(schema, schema, DEPTH);
    let description = words(description, TOOL_WORDS);
    let does = if description.is_empty() {
        String::new()
    } else {
        format!(" - {description}")
    };
    let optional = if optional.is_empty() {
        String::new()
    } else {
        format!(" Optional: {}.", optional.join(", "))
    };
    format!("{name}({}){does}{optional}", required.join(", "))
}

/// Required and optional arguments, each as `name: what it is`.
fn arguments(root: &Value, schema: &Value, depth: usize) -> (Vec<String>, Vec<String>) {
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
    let (first, then): (Vec<_>, Vec<_>) = properties
        .iter()
        .partition(|(name, _)| required.iter().any(|other| other == name.as_str()));
    let told = |arguments: Vec<(&String, &Value)>| -> Vec<String> {
        arguments
            .into_iter()
            .map(|(name, schema)| format!("{name}: {}", argument(root, schema, depth)))
            .collect()
    };
    (told(first), told(then))
}

/// What an argument is: its description says it for texts, the type comes first for others.
fn argument(root: &Value, schema: &Value, depth: usize) -> String {
    let kind = kind(root, schema, depth);
    let description = schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let description = words(description, ARGUMENT_WORDS);
    let description = description.trim_end_matches('.');
    match (kind.as_str(), description) {
        (_, "") => kind,
        ("string", description) => description.to_owned(),
        (kind, description) => format!("{kind}, {description}"),
    }
}

/// The beginning of a text on one line, up to the end of a sentence if there is one.
fn words(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((end, _)) = line.char_indices().nth(most) else {
        return line;
    };
    let cut = &line[..end];
    match cut.rfind(". ") {
        Some(sentence) if sentence > most / 3 => cut[..=sentence].to_owned(),
        _ => format!("{}…", cut.trim_end()),
    }
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

/// Alternatives without `null`: what is optional can simply be left out.
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
            let (required, optional) = arguments(root, schema, depth - 1);
            let optional = optional
                .into_iter()
                .map(|argument| argument.replacen(':', "?:", 1));
            let inner: Vec<String> = required.into_iter().chain(optional).collect();
            if inner.is_empty() {
                name.to_owned()
            } else {
                format!("{{{}}}", inner.join(", "))
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
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_like_a_function() {
        let schema = json!({
            "type": "object",
            "properties": {
                "start": {"type": ["string", "null"], "description": "YYYY-MM-DD; default: today."},
                "end": {"type": "string", "format": "date"},
                "unit": {"enum": ["days", "weeks"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "at": {"$ref": "#/$defs/place"},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "At most these."},
            },
            "required": ["end", "at"],
            "$defs": {"place": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "code": {"type": "string"}},
                "required": ["name"],
            }},
        });
        let line = signature("days_between", "Counts\n  days.", &schema);
        assert_snapshot!(
            line,
            @r#"days_between(end: date, at: {name: string, code?: string}) - Counts days. Optional: start: YYYY-MM-DD; default: today, unit: "days"|"weeks", tags: string[], limit: integer, At most these."#
        );
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({
            "type": "object",
            "properties": {"node": {"$ref": "#/$defs/node"}},
            "required": ["node"],
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        });
        assert_snapshot!(signature("walk", "", &schema), @"walk(node: {next?: object})");
    }

    #[test]
    fn long_descriptions_are_cut_at_a_sentence() {
        let long = format!("{} {}", "It does this. ".repeat(20), "and that ".repeat(90));
        let line = signature("ping", &long, &json!({"type": "object"}));
        assert!(
            line.starts_with("ping() - It does this.") && line.ends_with("this."),
            "{line}"
        );
        assert!(line.chars().count() < 320, "{line}");
    }
}

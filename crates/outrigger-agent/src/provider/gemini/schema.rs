//! Cuts a JSON Schema down to what Gemini's `parameters` takes (an `OpenAPI` 3.0 subset).
//!
//! Honest and small: what the subset cannot say is dropped, so the model may see a looser schema than
//! the host checks against; it never sees a stricter one. References inside the document are
//! followed to a fixed depth.

use serde_json::{Map, Value, json};

/// Keys that mean the same on both sides and need no work.
const PLAIN_KEYS: [&str; 13] = [
    "title",
    "description",
    "nullable",
    "maxItems",
    "minItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "propertyOrdering",
];

/// Other formats are refused.
const FORMATS: [&str; 6] = ["enum", "date-time", "float", "double", "int32", "int64"];

/// How many references are followed into each other.
const DEEPEST: usize = 8;

/// The schema as Gemini takes it, or nothing for an object without properties.
pub(super) fn clean(schema: &Value) -> Option<Value> {
    let cleaned = node(schema, schema, 0);
    cleaned.get("properties").is_some().then_some(cleaned)
}

fn node(schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(object) = schema.as_object() else {
        // `true` allows anything; text is the least wrong way to say so.
        return json!({ "type": "string" });
    };
    if let Some(target) = object.get("$ref").and_then(Value::as_str) {
        let found = target
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer));
        let mut resolved = match found.filter(|_| depth < DEEPEST) {
            Some(found) => node(found, root, depth + 1),
            None => json!({ "type": "object" }),
        };
        if let Some(description) = object.get("description") {
            resolved["description"] = description.clone();
        }
        return resolved;
    }
    if let Some([only]) = object
        .get("allOf")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        let mut merged = object.clone();
        merged.remove("allOf");
        merged.extend(only.as_object().cloned().unwrap_or_default());
        return node(&Value::Object(merged), root, depth);
    }
    let mut out = Map::new();
    types(object, &mut out);
    for key in PLAIN_KEYS {
        if let Some(value) = object.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(format) = object
        .get("format")
        .filter(|format| FORMATS.iter().any(|known| *format == known))
    {
        out.insert("format".to_owned(), format.clone());
    }
    choices(object, &mut out);
    alternatives(object, &mut out, root, depth);
    if let Some(items) = object.get("items").filter(|items| !items.is_array()) {
        out.insert("items".to_owned(), node(items, root, depth));
    } else if out.get("type").is_some_and(|kind| kind == "array") {
        out.insert("items".to_owned(), json!({ "type": "string" }));
    }
    properties(object, &mut out, root, depth);
    if !out.contains_key("type") && !out.contains_key("anyOf") {
        let kind = if out.contains_key("properties") {
            "object"
        } else {
            "string"
        };
        out.insert("type".to_owned(), json!(kind));
    }
    Value::Object(out)
}

/// One type, with `null` said as `nullable`. Several become alternatives.
fn types(object: &Map<String, Value>, out: &mut Map<String, Value>) {
    match object.get("type") {
        Some(Value::String(kind)) if kind != "null" => {
            out.insert("type".to_owned(), json!(kind));
        }
        Some(Value::Array(kinds)) => {
            let real: Vec<&Value> = kinds.iter().filter(|kind| *kind != "null").collect();
            if real.len() < kinds.len() {
                out.insert("nullable".to_owned(), json!(true));
            }
            if let [only] = real[..] {
                out.insert("type".to_owned(), only.clone());
            } else if !real.is_empty() {
                let each = |kind: &&Value| json!({ "type": kind });
                out.insert("anyOf".to_owned(), real.iter().map(each).collect());
            }
        }
        _ => {}
    }
}

/// `enum` and `const`: only texts can be listed, other values are named in the description.
fn choices(object: &Map<String, Value>, out: &mut Map<String, Value>) {
    let values = match (object.get("enum"), object.get("const")) {
        (Some(Value::Array(values)), _) => values.clone(),
        (_, Some(value)) => vec![value.clone()],
        _ => return,
    };
    let real: Vec<Value> = values
        .into_iter()
        .filter(|value| !value.is_null())
        .collect();
    if real.iter().all(Value::is_string) {
        out.insert("type".to_owned(), json!("string"));
        out.insert("enum".to_owned(), Value::Array(real));
        return;
    }
    let listed = real
        .iter()
        .map(Value::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let before = out
        .get("description")
        .and_then(Value::as_str)
        .map(|text| format!("{text} "))
        .unwrap_or_default();
    out.insert(
        "description".to_owned(),
        json!(format!("{before}One of: {listed}")),
    );
    if !out.contains_key("type") {
        let kind = match real.first() {
            Some(Value::Bool(_)) => "boolean",
            Some(Value::Number(number)) if number.is_f64() => "number",
            Some(Value::Number(_)) => "integer",
            _ => "string",
        };
        out.insert("type".to_owned(), json!(kind));
    }
}

fn alternatives(
    object: &Map<String, Value>,
    out: &mut Map<String, Value>,
    root: &Value,
    depth: usize,
) {
    let list = object
        .get("anyOf")
        .or_else(|| object.get("oneOf"))
        .and_then(Value::as_array);
    let Some(list) = list else { return };
    let is_null = |schema: &&Value| schema.get("type").is_some_and(|kind| kind == "null");
    if list.iter().any(|schema| is_null(&schema)) {
        out.insert("nullable".to_owned(), json!(true));
    }
    let mut real: Vec<Value> = list
        .iter()
        .filter(|schema| !is_null(schema))
        .map(|schema| node(schema, root, depth + 1))
        .collect();
    if real.len() == 1 {
        for (key, value) in real
            .pop()
            .as_ref()
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            out.entry(key.clone()).or_insert_with(|| value.clone());
        }
    } else if !real.is_empty() && !out.contains_key("properties") {
        out.insert("anyOf".to_owned(), Value::Array(real));
    }
}

fn properties(
    object: &Map<String, Value>,
    out: &mut Map<String, Value>,
    root: &Value,
    depth: usize,
) {
    let Some(properties) = object
        .get("properties")
        .and_then(Value::as_object)
        .filter(|all| !all.is_empty())
    else {
        return;
    };
    let cleaned: Map<String, Value> = properties
        .iter()
        .map(|(name, schema)| (name.clone(), node(schema, root, depth)))
        .collect();
    let required = object
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let required: Vec<Value> = required
        .filter(|name| name.as_str().is_some_and(|name| cleaned.contains_key(name)))
        .cloned()
        .collect();
    if !required.is_empty() {
        out.insert("required".to_owned(), Value::Array(required));
    }
    out.insert("properties".to_owned(), Value::Object(cleaned));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gemini_refuses_is_gone_and_the_rest_stays() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": false,
            "required": ["zone", "ghost"],
            "properties": {
                "zone": { "type": ["string", "null"], "format": "iana", "default": null, "examples": ["x"] },
                "level": { "enum": [1, 2], "description": "How much." },
                "unit": { "const": "day" },
                "when": { "$ref": "#/$defs/When", "description": "then" },
                "tags": { "type": "array" },
                "either": { "oneOf": [{ "type": "string" }, { "type": "integer", "exclusiveMinimum": 0 }] },
                "maybe": { "anyOf": [{ "type": "number" }, { "type": "null" }] },
                "any": true,
            },
            "$defs": { "When": { "type": "object", "properties": { "next": { "$ref": "#/$defs/When" } } } },
        });
        let cleaned = clean(&schema).unwrap();
        assert!(!cleaned.to_string().contains('$'));
        let mut shallow = cleaned.clone();
        assert_eq!(shallow["properties"]["when"]["description"], "then");
        shallow["properties"]["when"] = json!("see above");
        assert_eq!(
            shallow,
            json!({
                "type": "object",
                "required": ["zone"],
                "properties": {
                    "zone": { "nullable": true, "type": "string" },
                    "level": { "description": "How much. One of: 1, 2", "type": "integer" },
                    "unit": { "type": "string", "enum": ["day"] },
                    "when": "see above",
                    "tags": { "type": "array", "items": { "type": "string" } },
                    "either": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
                    "maybe": { "nullable": true, "type": "number" },
                    "any": { "type": "string" },
                },
            })
        );
    }

    #[test]
    fn an_object_without_properties_is_no_parameters_at_all() {
        assert_eq!(clean(&json!({ "type": "object", "properties": {} })), None);
        assert_eq!(clean(&json!({ "type": "object" })), None);
    }
}

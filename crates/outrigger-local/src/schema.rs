//! Narrows a tool's input schema to what a small model can fill in without getting lost.
//!
//! Whatever the narrowed schema accepts, the tool's own schema accepts too. Free strings and lists
//! get an upper bound, arguments nobody declared are left out, and required ones are written first,
//! so that a model which stops early has said what matters.

use serde_json::{Map, Value, json};

/// Characters of a string whose schema sets no bound of its own.
const FREE_STRING: u64 = 2000;
/// Entries of a list whose schema sets no bound of its own.
const FREE_LIST: u64 = 64;

/// The narrowed schema of a tool's arguments.
pub(crate) fn narrowed(schema: &Value) -> Value {
    let mut schema = if schema.is_object() {
        schema.clone()
    } else {
        json!({"type": "object"})
    };
    bound(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
        root.remove("$id");
        root.insert("type".to_owned(), json!("object"));
        close(root);
    }
    schema
}

/// The names and nothing else: any value for each declared argument.
pub(crate) fn names_only(schema: &Value) -> Value {
    let names = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(Map::keys)
        .into_iter()
        .flatten();
    let properties: Map<String, Value> = names.map(|name| (name.clone(), json!({}))).collect();
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    let mut loose = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    if let Some(root) = loose.as_object_mut() {
        close(root);
    }
    loose
}

/// Forbids undeclared properties where the schema leaves them open, and puts required ones first.
/// Schemas that are made of others are left alone: their parts see each other's properties.
fn close(root: &mut Map<String, Value>) {
    let composed = [
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
        "patternProperties",
        "if",
        "dependentSchemas",
    ];
    if composed.iter().any(|key| root.contains_key(*key)) {
        return;
    }
    let required: Vec<String> = root
        .get("required")
        .and_then(Value::as_array)
        .map(|names| {
            names
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    let all_declared = match root.get_mut("properties").and_then(Value::as_object_mut) {
        Some(properties) => {
            let mut ordered = Map::new();
            for name in &required {
                if let Some(value) = properties.remove(name) {
                    ordered.insert(name.clone(), value);
                }
            }
            ordered.append(properties);
            *properties = ordered;
            required.iter().all(|name| properties.contains_key(name))
        }
        None => required.is_empty(),
    };
    if all_declared
        && root
            .get("additionalProperties")
            .is_none_or(|allowed| *allowed == json!(true))
    {
        root.insert("additionalProperties".to_owned(), json!(false));
    }
}

/// Sets the upper bounds, in every schema within.
fn bound(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let is = |kind: &str| match object.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => false,
    };
    let has = |key: &str| object.contains_key(key);
    let free_string = is("string")
        && !["maxLength", "enum", "const", "pattern", "format"]
            .iter()
            .any(|key| has(key));
    let free_list = is("array") && !["maxItems", "enum", "const"].iter().any(|key| has(key));
    if free_string
        && object
            .get("minLength")
            .and_then(Value::as_u64)
            .is_none_or(|least| least <= FREE_STRING)
    {
        object.insert("maxLength".to_owned(), json!(FREE_STRING));
    }
    if free_list
        && object
            .get("minItems")
            .and_then(Value::as_u64)
            .is_none_or(|least| least <= FREE_LIST)
    {
        object.insert("maxItems".to_owned(), json!(FREE_LIST));
    }
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions",
                Value::Object(schemas),
            ) => {
                schemas.values_mut().for_each(bound);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(bound);
            }
            ("items" | "additionalProperties", schema) => bound(schema),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_arguments_come_first_and_nothing_undeclared() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"start": {"type": "string", "format": "date"}, "end": {"type": "string"}},
            "required": ["end"],
        });
        let narrowed = narrowed(&schema);
        let order: Vec<_> = narrowed["properties"].as_object().unwrap().keys().collect();
        assert_eq!(order, ["end", "start"]);
        assert_eq!(
            narrowed,
            json!({
                "type": "object",
                "properties": {
                    "end": {"type": "string", "maxLength": 2000},
                    "start": {"type": "string", "format": "date"},
                },
                "required": ["end"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn bounds_reach_nested_schemas_and_leave_given_ones() {
        let schema = json!({
            "type": "object",
            "properties": {
                "tags": {"type": "array", "items": {"type": ["string", "null"]}},
                "kind": {"enum": ["a", "b"]},
                "maxLength": {"type": "string", "maxLength": 3},
                "at": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/place"}]},
            },
            "$defs": {"place": {"type": "object", "properties": {"name": {"type": "string"}}}},
        });
        let narrowed = narrowed(&schema);
        let at = |path: &str| narrowed.pointer(path).cloned();
        assert_eq!(at("/properties/tags/maxItems"), Some(json!(64)));
        assert_eq!(at("/properties/tags/items/maxLength"), Some(json!(2000)));
        assert_eq!(at("/properties/kind"), Some(json!({"enum": ["a", "b"]})));
        assert_eq!(at("/properties/maxLength/maxLength"), Some(json!(3)));
        assert_eq!(at("/properties/at/anyOf/0/maxLength"), Some(json!(2000)));
        assert_eq!(
            at("/$defs/place/properties/name/maxLength"),
            Some(json!(2000))
        );
        assert_eq!(at("/$defs/place/additionalProperties"), None);
    }

    #[test]
    fn what_is_required_but_not_declared_stays_possible() {
        let schema = json!({"type": "object", "properties": {}, "required": ["free"]});
        assert_eq!(narrowed(&schema).get("additionalProperties"), None);
    }
}

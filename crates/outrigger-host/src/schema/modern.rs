//! Schemas in the words of an older dialect, or with nulls and patterns that only their author's
//! library reads, said in 2020-12. What it accepts is the same or more: a pattern that cannot be
//! read here is left to the server, which checks it anyway. Leaves alone what it does not know.

use serde_json::{Map, Value};

/// Keywords whose value is a map of schemas; its keys are names, not keywords.
const MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "$defs",
    "definitions",
];
/// Keywords whose value is data.
const DATA: [&str; 5] = ["const", "default", "enum", "examples", "example"];

/// `schema` in 2020-12, or `None` when nothing needs another word. `readable` judges patterns.
pub(super) fn modern(schema: &Value, readable: &dyn Fn(&str) -> bool) -> Option<Value> {
    let mut said = schema.clone();
    rewrite(&mut said, readable);
    if let Value::Object(root) = &mut said
        && said_of(root, "$id").is_some_and(|id| id.contains(char::is_whitespace))
    {
        // Not an address; nothing can refer to it.
        root.shift_remove("$id");
    }
    if said == *schema {
        return None;
    }
    if let Value::Object(root) = &mut said {
        root.shift_remove("$schema");
    }
    Some(said)
}

fn said_of<'a>(schema: &'a Map<String, Value>, keyword: &str) -> Option<&'a str> {
    schema.get(keyword).and_then(Value::as_str)
}

fn rewrite(schema: &mut Value, readable: &dyn Fn(&str) -> bool) {
    let Value::Object(keywords) = schema else {
        return;
    };
    keywords.retain(|keyword, value| !value.is_null() || DATA.contains(&keyword.as_str()));
    if said_of(keywords, "pattern").is_some_and(|pattern| !readable(pattern)) {
        keywords.shift_remove("pattern");
    }
    exclusive(keywords, "exclusiveMinimum", "minimum");
    exclusive(keywords, "exclusiveMaximum", "maximum");
    tuple(keywords);
    for (keyword, value) in keywords.iter_mut() {
        if !DATA.contains(&keyword.as_str()) {
            below(keyword, value, readable);
        }
    }
}

/// The schemas that are the value of a keyword, if it has any.
fn below(keyword: &str, value: &mut Value, readable: &dyn Fn(&str) -> bool) {
    match value {
        Value::Object(schemas) if MAPS.contains(&keyword) => {
            for schema in schemas.values_mut() {
                rewrite(schema, readable);
            }
        }
        Value::Array(schemas) => {
            for schema in schemas {
                rewrite(schema, readable);
            }
        }
        other => rewrite(other, readable),
    }
}

/// Draft 4: `exclusiveMinimum: true` says how `minimum` is meant.
fn exclusive(keywords: &mut Map<String, Value>, exclusive: &str, bound: &str) {
    let Some(Value::Bool(excluded)) = keywords.get(exclusive) else {
        return;
    };
    if *excluded && let Some(value) = keywords.shift_remove(bound) {
        keywords.insert(exclusive.to_owned(), value);
    } else {
        keywords.shift_remove(exclusive);
    }
}

/// Draft 7 and older: `items` as a list is a tuple, and `additionalItems` are those behind it.
fn tuple(keywords: &mut Map<String, Value>) {
    if !matches!(keywords.get("items"), Some(Value::Array(_))) {
        return;
    }
    let Some(first) = keywords.shift_remove("items") else {
        return;
    };
    keywords.insert("prefixItems".to_owned(), first);
    if let Some(rest) = keywords.shift_remove("additionalItems") {
        keywords.insert("items".to_owned(), rest);
    }
}

//! Schemas of made-up tools, with everything in them that real ones have, and more.

use serde_json::{Map, Value, json};

use outrigger_testkit::instances::Dice;

const NAMES: [&str; 10] = [
    "a",
    "b",
    "kind",
    "user id",
    "user_id",
    "{{x}}",
    "x",
    "DateSent<",
    "$eq",
    "9",
];

/// An input schema.
pub(crate) fn arguments(dice: &mut Dice) -> Value {
    let mut schema = object(dice, 3);
    let defs = json!({ "Tree": tree(dice), "Leaf": leaf(dice) });
    schema["$defs"] = defs;
    if dice.throw(6) == 0 {
        schema["anyOf"] = json!([object(dice, 1), object(dice, 1)]);
    }
    if dice.throw(8) == 0 {
        schema["allOf"] = json!([object(dice, 1)]);
    }
    schema
}

fn tree(dice: &mut Dice) -> Value {
    json!({
        "type": "object",
        "properties": {
            NAMES[dice.throw(NAMES.len())]: leaf(dice),
            "children": { "type": "array", "items": { "$ref": "#/$defs/Tree" } },
        },
        "required": if dice.throw(2) == 0 { json!(["children"]) } else { json!([]) },
        "additionalProperties": false,
    })
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut properties = Map::new();
    for _ in 0..=dice.throw(4) {
        let name = NAMES[dice.throw(NAMES.len())];
        properties.insert(name.to_owned(), any(dice, depth));
    }
    let required: Vec<&String> = properties.keys().filter(|_| dice.throw(2) == 0).collect();
    let mut out = json!({ "type": "object", "properties": properties, "required": required });
    if dice.throw(2) == 0 {
        out["additionalProperties"] = json!(false);
    }
    if dice.throw(12) == 0 {
        out["patternProperties"] = json!({ "^x-": leaf(dice) });
    }
    out
}

fn any(dice: &mut Dice, depth: usize) -> Value {
    if depth == 0 {
        return leaf(dice);
    }
    match dice.throw(16) {
        0 | 1 => object(dice, depth - 1),
        2 => json!({ "type": "array", "items": any(dice, depth - 1) }),
        3 => json!({ "type": "object", "additionalProperties": any(dice, depth - 1) }),
        4 => json!({ "anyOf": [any(dice, depth - 1), any(dice, depth - 1)] }),
        5 => json!({ "anyOf": [any(dice, depth - 1), { "type": "null" }], "default": null }),
        6 => json!({ "oneOf": [tagged(dice, "one", depth), tagged(dice, "two", depth)] }),
        7 => json!({ "$ref": "#/$defs/Tree", "description": "A tree" }),
        8 => json!({ "$ref": "#/$defs/Leaf" }),
        9 => {
            json!({ "type": "array", "prefixItems": [leaf(dice), any(dice, depth - 1)], "items": false })
        }
        10 => json!({ "allOf": [object(dice, depth - 1), object(dice, depth - 1)] }),
        11 => json!({ "type": ["object", "null"], "properties": { "a": any(dice, depth - 1) } }),
        12 => json!({ "type": "array" }),
        _ => leaf(dice),
    }
}

fn tagged(dice: &mut Dice, tag: &str, depth: usize) -> Value {
    let mut out = object(dice, depth - 1);
    out["properties"]["kind"] = json!({ "const": tag });
    out["required"] = json!(["kind"]);
    out
}

fn leaf(dice: &mut Dice) -> Value {
    match dice.throw(18) {
        0 => json!({ "type": "string" }),
        1 => json!({ "type": "string", "minLength": 1, "maxLength": 5 }),
        2 => json!({ "type": "integer", "minimum": 1, "maximum": 50 }),
        3 => json!({ "type": "integer", "exclusiveMinimum": 0 }),
        4 => json!({ "type": "number", "exclusiveMaximum": 10 }),
        5 => json!({ "type": "boolean", "default": true }),
        6 => json!({ "enum": ["red", "green"] }),
        7 => json!({ "enum": [1, 2, null] }),
        8 => json!({ "type": ["string", "null"] }),
        9 => json!({ "type": ["string", "number", "boolean"] }),
        10 => json!({ "const": "fixed" }),
        11 => json!({ "type": "object" }),
        12 => json!({}),
        13 => json!(true),
        14 => json!({ "type": "string", "format": "uri", "nullable": true }),
        15 => json!({ "type": "string", "pattern": "^[a-z]+$" }),
        16 => json!({ "type": "object", "additionalProperties": false }),
        _ => json!({ "type": "string", "enum": ["", "a"] }),
    }
}

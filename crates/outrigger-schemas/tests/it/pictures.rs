//! What each family is sent of schemas that it would refuse, and the list of changes beside it.

use std::fmt::Write as _;

use insta::assert_snapshot;
use outrigger_schemas::{Family, compile};
use serde_json::{Value, json};

/// The compiled schema and its changes, as text.
fn picture(family: Family, schema: &Value) -> String {
    match compile(family, schema) {
        Ok(compiled) => {
            let mut text = compiled
                .schema
                .map_or_else(|| "no schema".to_owned(), |schema| schema.to_string());
            for change in compiled.changes {
                write!(text, "\n{change}").unwrap();
            }
            text
        }
        Err(reason) => format!("set aside: {reason}"),
    }
}

#[test]
fn alternatives_at_the_top() {
    let schema = json!({
        "anyOf": [
            { "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"], "additionalProperties": false },
            { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"], "additionalProperties": false },
        ],
    });
    assert_snapshot!(picture(Family::Anthropic, &schema), @r#"
    {"type":"object","additionalProperties":false,"properties":{"id":{"type":"integer"},"name":{"type":"string"}},"description":"Give `id`, or `name`."}
    /: `type` is `object` (every family asks for it at the top; same)
    /: the alternatives of `anyOf` are one object with the properties of all (no family takes alternatives at the top; looser)
    "#);
    assert_snapshot!(picture(Family::OpenAiStrict, &schema), @r#"
    {"type":"object","description":"Give `id`, or `name`.","properties":{"id":{"type":["integer","null"]},"name":{"type":["string","null"]}},"required":["id","name"],"additionalProperties":false}
    /: `type` is `object` (every family asks for it at the top; same)
    /: the alternatives of `anyOf` are one object with the properties of all (no family takes alternatives at the top; looser)
    /: null stands for leaving out: `id`, `name` (the family wants every property; same)
    "#);
}

#[test]
fn names_that_are_refused() {
    let schema = json!({
        "type": "object",
        "properties": {
            "DateSent<": { "type": "string", "description": "Before this day" },
            "filter": { "type": "array", "items": { "type": "object", "properties": { "$eq": { "type": "string" } }, "required": ["$eq"] } },
        },
        "required": ["DateSent<"],
    });
    assert_snapshot!(picture(Family::Anthropic, &schema), @r#"
    {"type":"object","properties":{"DateSent_lt":{"type":"string","description":"Before this day. (`DateSent<`)"},"filter":{"type":"array","items":{"type":"object","properties":{"eq":{"type":"string","description":"(`$eq`)"}},"required":["eq"]}}},"required":["DateSent_lt"]}
    /properties/DateSent<: `DateSent<` is called `DateSent_lt`, and renamed again in calls (the family's pattern for names refuses it; same)
    /properties/filter/items/properties/$eq: `$eq` is called `eq`, and renamed again in calls (the family's pattern for names refuses it; same)
    "#);
    assert_snapshot!(picture(Family::OpenAi, &schema), @r#"{"type":"object","properties":{"DateSent<":{"type":"string","description":"Before this day"},"filter":{"type":"array","items":{"type":"object","properties":{"$eq":{"type":"string"}},"required":["$eq"]}}},"required":["DateSent<"]}"#);
    let compiled = compile(Family::Anthropic, &schema).unwrap();
    let written =
        r#"{"DateSent_lt":"2026-11-30","filter":[{"eq":"x","n":12345678901234567890123}]}"#;
    let original =
        r#"{"DateSent<":"2026-11-30","filter":[{"$eq":"x","n":12345678901234567890123}]}"#;
    assert_eq!(compiled.to_original(written), original);
    assert_eq!(compiled.to_provider(original), written);
    // Not what the schema asks for: the host is to judge it as it is.
    for odd in ["", "{", "[1]", r#"{"DateSent_lt":1,"DateSent<":2}"#] {
        assert_eq!(compiled.to_original(odd), odd);
    }
}

#[test]
fn maps_any_values_and_what_may_be_left_out() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "zone": { "type": "string", "format": "iana", "minLength": 1, "default": "UTC" },
            "note": { "type": ["string", "null"] },
            "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            "extra": { "type": "object" },
            "value": {},
            "level": { "enum": [1, 2] },
        },
        "required": ["zone", "value"],
        "additionalProperties": false,
    });
    assert_snapshot!(picture(Family::OpenAiStrict, &schema), @r#"
    {"type":"object","properties":{"zone":{"type":"string","description":"Default: \"UTC\". Format: iana. At least 1 characters."},"note":{"type":["string","null"]},"labels":{"type":["array","null"],"description":"A map, written as a list of keys and values; each key once.","items":{"type":"object","properties":{"key":{"type":"string"},"value":{"type":"string"}},"required":["key","value"],"additionalProperties":false}},"extra":{"type":["string","null"],"description":"An object, written as JSON text."},"value":{"type":"string","description":"Any value, written as JSON text."},"level":{"type":["integer","null"],"enum":[1,2,null]}},"required":["zone","note","labels","extra","value","level"],"additionalProperties":false}
    /properties/zone: the format `iana` is said in words (the family does not know it; same)
    /properties/zone: the length is said in words (the family does not know it; looser)
    /properties/labels: a map is written as a list of `{key, value}` (the family takes only declared properties; looser)
    /properties/extra: an object is written as JSON text (the family takes only declared properties; looser)
    /properties/value: is written as JSON text (the family wants a type, and it has none; same)
    /: null stands for leaving out: `labels`, `extra`, `level` (the family wants every property; same)
    /: null instead of leaving out: `note` (the family wants every property; narrower)
    "#);
    assert_snapshot!(picture(Family::Gemini, &schema), @r#"
    {"type":"object","required":["zone","value"],"properties":{"zone":{"type":"string","description":"Default: \"UTC\". Format: iana.","minLength":1},"note":{"type":"string","nullable":true},"labels":{"type":"array","description":"A map, written as a list of keys and values; each key once.","items":{"type":"object","properties":{"key":{"type":"string"},"value":{"type":"string"}},"required":["key","value"]}},"extra":{"type":"string","description":"An object, written as JSON text."},"value":{"type":"string","description":"Any value, written as JSON text."},"level":{"type":"integer","description":"One of: 1, 2."}}}
    /properties/zone: the format `iana` is said in words (the family does not know it; same)
    /properties/labels: a map is written as a list of `{key, value}` (the family takes only declared properties; looser)
    /properties/extra: an object is written as JSON text (the family takes only declared properties; looser)
    /properties/value: is written as JSON text (the family wants a type, and it has none; same)
    /properties/level: the list of values is said in words (the family lists strings that are not empty; looser)
    /: what holds for other properties is left out (the family does not know it; looser)
    "#);
    let strict = compile(Family::OpenAiStrict, &schema).unwrap();
    let written = json!({
        "zone": "UTC", "note": null, "labels": [{ "key": "a", "value": "b" }], "extra": "{\"x\":[1]}", "value": "7", "level": null,
    });
    let original = json!({ "zone": "UTC", "note": null, "labels": { "a": "b" }, "extra": { "x": [1] }, "value": 7 });
    assert_eq!(
        strict.to_original(&written.to_string()),
        original.to_string()
    );
    // A key that comes twice is no map; nothing is lost for it.
    let twice = r#"{"zone":"UTC","labels":[{"key":"a","value":"b"},{"key":"a","value":"c"}],"value":"plain"}"#;
    assert_eq!(strict.to_original(twice), twice);
}

#[test]
fn references_and_older_words() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {
            "tree": { "$ref": "#/definitions/Tree" },
            "pair": { "type": "array", "items": [{ "type": "string" }, { "type": "integer" }], "additionalItems": false },
            "above": { "type": "integer", "minimum": 0, "exclusiveMinimum": true },
            "far": { "$ref": "https://example.org/other.json" },
        },
        "definitions": {
            "Tree": { "type": "object", "properties": { "next": { "$ref": "#/definitions/Tree" } }, "additionalProperties": false },
        },
    });
    assert_snapshot!(picture(Family::Anthropic, &schema), @r##"
    {"type":"object","properties":{"tree":{"$ref":"#/$defs/Tree"},"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false},"above":{"type":"integer","exclusiveMinimum":0},"far":{}},"$defs":{"Tree":{"type":"object","properties":{"next":{"$ref":"#/$defs/Tree"}},"additionalProperties":false}}}
    /properties/far: the reference `https://example.org/other.json` is left out (it leads out of the schema; looser)
    "##);
    assert_snapshot!(picture(Family::OpenAiStrict, &schema), @r##"
    {"type":"object","properties":{"tree":{"anyOf":[{"$ref":"#/$defs/Tree"},{"type":"null"}]},"pair":{"type":["array","null"],"items":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"above":{"type":["integer","null"],"exclusiveMinimum":0},"far":{"type":["string","null"],"description":"Any value, written as JSON text."}},"required":["tree","pair","above","far"],"additionalProperties":false,"$defs":{"Tree":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/Tree"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}}}
    /properties/far: the reference `https://example.org/other.json` is left out (it leads out of the schema; looser)
    /$defs/Tree: null stands for leaving out: `next` (the family wants every property; same)
    /properties/pair: each item of the tuple may be any of its items (the family has no tuples; looser)
    /properties/far: is written as JSON text (the family wants a type, and it has none; same)
    /: null stands for leaving out: `tree`, `pair`, `above`, `far` (the family wants every property; same)
    /: only declared properties are taken (the family has no others; narrower)
    "##);
    assert_snapshot!(picture(Family::Gemini, &schema), @r#"
    {"type":"object","properties":{"tree":{"type":"object","properties":{"next":{"type":"object","properties":{"next":{"type":"string","description":"Any value, written as JSON text."}}}}},"pair":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"above":{"type":"integer","minimum":1},"far":{"type":"string","description":"Any value, written as JSON text."}}}
    /properties/far: the reference `https://example.org/other.json` is left out (it leads out of the schema; looser)
    /properties/tree/properties/next/properties/next: is written as JSON text (the schema refers to itself; looser)
    /properties/tree/properties/next: what holds for other properties is left out (the family does not know it; looser)
    /properties/tree: what holds for other properties is left out (the family does not know it; looser)
    /properties/pair: each item of the tuple may be any of its items (the family has no tuples; looser)
    /properties/above: `exclusiveMinimum` is `minimum` (the family does not know it; same)
    /properties/far: is written as JSON text (the family wants a type, and it has none; same)
    "#);
    assert_snapshot!(picture(Family::Generic, &schema), @r#"
    {"type":"object","properties":{"tree":{"type":"object","properties":{"next":{"type":"object","properties":{"next":{"type":"object"}},"additionalProperties":false}},"additionalProperties":false},"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false},"above":{"type":"integer","exclusiveMinimum":0},"far":{}}}
    /properties/far: the reference `https://example.org/other.json` is left out (it leads out of the schema; looser)
    /properties/tree: the reference is written out (not every server takes it; same)
    /properties/tree/properties/next: the reference is written out (not every server takes it; same)
    /properties/tree/properties/next/properties/next: the reference is written out (not every server takes it; same)
    /properties/tree/properties/next/properties/next: takes anything here (the schema refers to itself, or no value fits it; looser)
    "#);
}

#[test]
fn what_cannot_be_told() {
    assert_snapshot!(picture(Family::OpenAiStrict, &json!({ "type": "object", "additionalProperties": { "type": "string" } })), @"set aside: its arguments may have any name, and openai-strict takes only declared ones");
    assert_snapshot!(picture(Family::OpenAi, &json!({ "type": "string" })), @"set aside: its schema takes no object, and arguments are always one");
    assert_snapshot!(picture(Family::Gemini, &json!({ "type": "object", "properties": {} , "additionalProperties": false })), @"no schema");
    let many: serde_json::Map<String, Value> = (0..5001)
        .map(|number| (format!("p{number}"), json!({ "type": "string" })))
        .collect();
    assert_snapshot!(picture(Family::OpenAiStrict, &json!({ "type": "object", "properties": many, "additionalProperties": false })), @"set aside: it has 5001 properties, and 5000 may be declared");
}

#[test]
fn lists_of_a_thousand_values_are_kept_within_what_openai_takes() {
    let long: Vec<String> = (0..900).map(|number| format!("v{number}")).collect();
    let schema = json!({
        "type": "object",
        "properties": { "a": { "enum": long }, "b": { "enum": &long[..300] } },
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let compiled = compile(Family::OpenAiStrict, &schema).unwrap();
    let sent = compiled.schema.unwrap();
    assert!(sent["properties"]["a"].get("enum").is_none());
    assert_eq!(
        sent["properties"]["b"]["enum"].as_array().unwrap().len(),
        300
    );
    assert_eq!(
        sent["properties"]["a"]["description"],
        "For example \"v0\", \"v1\", \"v2\", \"v3\", \"v4\"."
    );
    assert_eq!(compiled.changes.len(), 1);
}

#[test]
fn endless_schemas_end() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "$ref": "#" }, "b": { "allOf": [{ "$ref": "#/properties/a" }, { "$ref": "#/properties/b" }] } },
        "anyOf": [{ "$ref": "#" }, { "$ref": "#/anyOf/1" }],
    });
    for family in Family::ALL {
        let compiled = compile(family, &schema).unwrap();
        assert!(compiled.schema.unwrap().to_string().len() < 20_000);
    }
}

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
    assert_snapshot!(picture(Family::Anthropic, &schema), @"");
    assert_snapshot!(picture(Family::OpenAiStrict, &schema), @"");
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
    assert_snapshot!(picture(Family::Anthropic, &schema), @"");
    assert_snapshot!(picture(Family::OpenAi, &schema), @"");
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
    assert_snapshot!(picture(Family::OpenAiStrict, &schema), @"");
    assert_snapshot!(picture(Family::Gemini, &schema), @"");
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
    assert_snapshot!(picture(Family::Anthropic, &schema), @"");
    assert_snapshot!(picture(Family::OpenAiStrict, &schema), @"");
    assert_snapshot!(picture(Family::Gemini, &schema), @"");
    assert_snapshot!(picture(Family::Generic, &schema), @"");
}

#[test]
fn what_cannot_be_told() {
    assert_snapshot!(picture(Family::OpenAiStrict, &json!({ "type": "object", "additionalProperties": { "type": "string" } })), @"");
    assert_snapshot!(picture(Family::OpenAi, &json!({ "type": "string" })), @"");
    assert_snapshot!(picture(Family::Gemini, &json!({ "type": "object", "properties": {} , "additionalProperties": false })), @"");
    let many: serde_json::Map<String, Value> = (0..5001)
        .map(|number| (format!("p{number}"), json!({ "type": "string" })))
        .collect();
    assert_snapshot!(picture(Family::OpenAiStrict, &json!({ "type": "object", "properties": many, "additionalProperties": false })), @"");
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

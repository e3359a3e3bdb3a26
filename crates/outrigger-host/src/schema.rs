//! JSON Schemas of tools, compiled once and used for every call.
//!
//! Nothing is fetched: a reference that leaves the schema is an error, and the tool is set aside.
//! A schema is read in the dialect that it names, else as 2020-12 (MCP, "JSON Schema usage"); one
//! that is unsound there is read once more as what its author surely meant. `format` is a hint
//! (2020-12 Validation, section 7.2.1): what each one takes differs from checker to checker.

mod modern;

use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Value, json};

/// The dialect of schemas that name none.
const DEFAULT: Draft = Draft::Draft202012;
/// Steps that one pattern may take back before the match counts as failed.
const BACKTRACK_LIMIT: usize = 100_000;
/// Violations told at once; a model repairs one or two at a time.
const TOLD_VIOLATIONS: usize = 5;

/// A compiled schema.
pub struct Schema {
    validator: Validator,
}

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableSchema(String);

/// Where a value does not fit, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer (RFC 6901) to the value; empty for the whole.
    pub pointer: String,
    /// What is wrong, with what would be right.
    pub message: String,
}

impl Schema {
    /// Compiles a schema.
    pub fn compile(schema: &Value) -> Result<Self, UnusableSchema> {
        let error = match build(schema, dialect(schema)) {
            Ok(validator) => return Ok(Self { validator }),
            Err(error) => error,
        };
        let readable = |pattern: &str| build(&json!({"pattern": pattern}), DEFAULT).is_ok();
        let meant = modern::modern(schema, &readable).and_then(|meant| build(&meant, DEFAULT).ok());
        meant.map(|validator| Self { validator }).ok_or(error)
    }

    /// The first few places where `value` does not fit; empty when it does.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let errors = self.validator.iter_errors(value).take(TOLD_VIOLATIONS);
        errors
            .map(|error| Violation {
                pointer: error.instance_path().as_str().to_owned(),
                message: match long(error.instance()) {
                    Some(words) => brief(&error.masked_with(words).to_string()),
                    None => brief(&error.to_string()),
                },
            })
            .collect()
    }
}

/// The schema in words that every provider takes (they check for 2020-12, and refuse the whole request
/// for one that is not), or `None` when it is in such words already.
pub(crate) fn for_models(schema: &Value) -> Option<Value> {
    modern::modern(schema, &|_| true)
}

/// The dialect that a schema names. Servers write the address with `http` or `https`, with and
/// without `#`; one that is none of the known is read as the default.
fn dialect(schema: &Value) -> Draft {
    let named = schema
        .get("$schema")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let known = [
        ("draft-04/", Draft::Draft4),
        ("draft-06/", Draft::Draft6),
        ("draft-07/", Draft::Draft7),
        ("draft/2019-09/", Draft::Draft201909),
    ];
    let found = known.iter().find(|(part, _)| named.contains(part));
    found.map_or(DEFAULT, |(_, draft)| *draft)
}

fn build(schema: &Value, draft: Draft) -> Result<Validator, UnusableSchema> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT);
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| UnusableSchema(brief(&error.to_string())))
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "`{}`: {}", self.pointer, self.message)
        }
    }
}

/// What stands for a text that is too long to be quoted at all.
fn long(value: &Value) -> Option<String> {
    const BYTES: usize = 4096;
    let text = value.as_str().filter(|text| text.len() > BYTES)?;
    Some(format!("a text of {} bytes", text.len()))
}

/// Validators quote the offending value; a long one would bury the message.
fn brief(message: &str) -> String {
    const BYTES: usize = 300;
    crate::text::shorten(message, BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn violations_say_where_and_what() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "properties": {"days": {"type": "integer", "minimum": 1}, "zone": {"enum": ["UTC", "CET"]}},
            "required": ["days"],
            "additionalProperties": false
        }))
        .unwrap();
        let told: Vec<String> = schema
            .violations(&json!({"days": "x", "zone": "PST", "dys": 1}))
            .iter()
            .map(ToString::to_string)
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        `/days`: "x" is not of type "integer"
        `/zone`: "PST" is not one of "UTC" or "CET"
        Additional properties are not allowed ('dys' was unexpected)
        "#);
        assert_eq!(schema.violations(&json!({"days": 3})), []);
    }

    #[test]
    fn each_dialect_is_read_as_it_was_meant() {
        for (schema, fits, unfit) in [
            (
                json!({"$schema": "https://json-schema.org/draft-07/schema", "items": [{"const": 1}]}),
                json!([1]),
                json!([2]),
            ),
            (
                json!({"$schema": "urn:of-somebody", "prefixItems": [{"const": 1}]}),
                json!([1]),
                json!([2]),
            ),
            (
                json!({"exclusiveMinimum": true, "minimum": 0}),
                json!(1),
                json!(0),
            ),
            (
                json!({"exclusiveMaximum": false, "maximum": 5}),
                json!(5),
                json!(6),
            ),
            (
                json!({"items": [{"type": "string"}], "additionalItems": false}),
                json!(["x"]),
                json!(["x", 1]),
            ),
            (
                json!({"$schema": null, "type": "string", "description": null, "enum": ["a", null]}),
                json!("a"),
                json!(null),
            ),
            (
                json!({"$id": "get weather", "type": "string"}),
                json!("a"),
                json!(1),
            ),
            (
                json!({"type": "string", "format": "date", "maxLength": 9}),
                json!("next week"),
                json!("2026-01-01"),
            ),
            (
                json!({"properties": {"exclusiveMinimum": true, "items": {"enum": [[null]]}, "pattern": {"pattern": "\\Ax\\Z"}}}),
                json!({"exclusiveMinimum": 1, "items": [null], "pattern": "y"}),
                json!({"items": []}),
            ),
            (
                json!({"pattern": "^(?<year>\\d{4})\\/[\\w\\-]+$"}),
                json!("2026/a-b"),
                json!("2026"),
            ),
        ] {
            let read = Schema::compile(&schema).unwrap();
            assert_eq!(read.violations(&fits), [], "{schema} {fits}");
            assert_ne!(read.violations(&unfit), [], "{schema} {unfit}");
        }
    }

    #[test]
    fn models_see_what_providers_take_and_no_other_word_is_changed() {
        let draft4 = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {
            "n": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "default": null},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "null"}], "additionalItems": false}
        }});
        insta::assert_snapshot!(for_models(&draft4).unwrap(), @r#"{"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":0,"default":null},"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"null"}],"items":false}}}"#);
        for left in [
            json!(true),
            json!({"type": "object", "default": null}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {}}}}),
        ] {
            assert_eq!(for_models(&left), None);
        }
    }

    #[test]
    fn nonsense_stays_unusable() {
        for schema in [
            json!({"type": "int"}),
            json!({"minLength": -1}),
            json!({"$ref": "#/$defs/none"}),
            json!(7),
            json!({"properties": []}),
        ] {
            assert!(Schema::compile(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn references_that_leave_the_schema_are_refused() {
        for reference in [
            "http://example.com/a.json",
            "file:///etc/passwd",
            "other.json",
        ] {
            let error = Schema::compile(
                &json!({"type": "object", "properties": {"a": {"$ref": reference}}}),
            )
            .unwrap_err();
            assert!(!error.to_string().is_empty());
        }
        Schema::compile(&json!({"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}})).unwrap();
    }

    #[test]
    fn a_pattern_that_never_ends_counts_as_failed() {
        let schema =
            Schema::compile(&json!({"type": "string", "pattern": "^(?=(a+)+$)(a|aa)+$(?<!b)"}))
                .unwrap();
        let hostile = format!("{}!", "a".repeat(60));
        assert!(!schema.violations(&json!(hostile)).is_empty());
    }
}

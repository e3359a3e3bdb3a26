//! JSON Schemas of tools, compiled once and used for every call.
//!
//! Nothing is fetched: a reference that leaves the schema is an error, and the tool is set aside.
//! Schemas without `$schema` are read as 2020-12 (MCP, "JSON Schema usage").

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

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
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| UnusableSchema(brief(&error.to_string())))?;
        Ok(Self { validator })
    }

    /// The first few places where `value` does not fit; empty when it does.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let errors = self.validator.iter_errors(value).take(TOLD_VIOLATIONS);
        errors
            .map(|error| Violation {
                pointer: error.instance_path().as_str().to_owned(),
                message: brief(&error.to_string()),
            })
            .collect()
    }
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

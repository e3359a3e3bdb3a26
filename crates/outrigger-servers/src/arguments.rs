//! Reads the arguments of a call, judged by the schema that the tool declared.
//!
//! Promises: every problem is named with its key, all at once. Tolerated, because nothing is
//! ambiguous about them: `null` for an optional argument, and `3.0` where an integer is wanted.
//! Leaves out nested schemas: the built-in tools take flat objects.

use std::fmt;

use rmcp::model::{JsonObject, Tool};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

/// Arguments that a tool cannot use.
#[derive(Debug, Error)]
pub(crate) enum ArgumentsError {
    #[error("{}", Sentence(.0))]
    Problems(Vec<Problem>),
    #[error("the arguments do not fit: {0}")]
    Shape(#[from] serde_json::Error),
}

/// One thing wrong with one argument.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    #[error("unknown argument `{key}`: {advice}")]
    Unknown { key: String, advice: String },
    #[error("`{key}` is missing: it must be {expected}{}", Hint(.hint))]
    Missing {
        key: String,
        expected: String,
        hint: Option<String>,
    },
    #[error("`{key}` must be {expected}, not {found}")]
    Mistyped {
        key: String,
        expected: String,
        found: String,
    },
    #[error("`{key}` must be {relation} {bound}, not {found}")]
    OutOfRange {
        key: String,
        relation: &'static str,
        bound: i64,
        found: Value,
    },
}

struct Sentence<'a>(&'a [Problem]);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(formatter, "{separator}{problem}")?;
        }
        Ok(())
    }
}

struct Hint<'a>(&'a Option<String>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .as_ref()
            .map_or(Ok(()), |hint| write!(formatter, " ({hint})"))
    }
}

/// The arguments of a call to `tool` as `T`.
pub(crate) fn parse<T: DeserializeOwned>(
    tool: &Tool,
    arguments: Option<JsonObject>,
) -> Result<T, ArgumentsError> {
    let mut arguments = arguments.unwrap_or_default();
    let nothing = JsonObject::new();
    let properties = object(&tool.input_schema, "properties").unwrap_or(&nothing);
    let required: Vec<&str> = tool
        .input_schema
        .get("required")
        .and_then(Value::as_array)
        .map(|keys| keys.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    arguments.retain(|key, value| !value.is_null() || required.contains(&key.as_str()));

    let mut problems: Vec<Problem> = required
        .iter()
        .filter(|key| !arguments.contains_key(**key))
        .map(|key| missing(key, properties))
        .collect();
    for (key, value) in &mut arguments {
        let problem = match properties.get(key).and_then(Value::as_object) {
            Some(schema) => judge(key, value, schema),
            None => Some(unknown(key, &tool.name, properties)),
        };
        problems.extend(problem);
    }
    if problems.is_empty() {
        Ok(serde_json::from_value(Value::Object(arguments))?)
    } else {
        Err(ArgumentsError::Problems(problems))
    }
}

fn object<'a>(schema: &'a JsonObject, key: &str) -> Option<&'a JsonObject> {
    schema.get(key).and_then(Value::as_object)
}

fn missing(key: &str, properties: &JsonObject) -> Problem {
    let schema = object(properties, key);
    Problem::Missing {
        key: key.to_owned(),
        expected: schema.map_or("given", expected).to_owned(),
        hint: schema
            .and_then(|schema| schema.get("description"))
            .and_then(Value::as_str)
            .map(str::to_owned),
    }
}

fn unknown(key: &str, tool: &str, properties: &JsonObject) -> Problem {
    let nearest = properties
        .keys()
        .map(|known| (strsim::jaro_winkler(key, known), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let advice = match nearest {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None if properties.is_empty() => format!("`{tool}` takes none"),
        None => {
            let known: Vec<String> = properties.keys().map(|key| format!("`{key}`")).collect();
            format!("`{tool}` takes {}", known.join(", "))
        }
    };
    Problem::Unknown {
        key: key.to_owned(),
        advice,
    }
}

fn judge(key: &str, value: &mut Value, schema: &JsonObject) -> Option<Problem> {
    let fits = match schema.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => {
            make_integer(value);
            value.is_i64() || value.is_u64()
        }
        _ => true,
    };
    if !fits {
        return Some(Problem::Mistyped {
            key: key.to_owned(),
            expected: expected(schema).to_owned(),
            found: found(value),
        });
    }
    let bound = |name| schema.get(name).and_then(Value::as_i64);
    let number = value
        .as_i64()
        .or_else(|| value.as_u64().map(|_| i64::MAX))?;
    let (relation, bound) = match (bound("minimum"), bound("maximum")) {
        (Some(least), _) if number < least => ("at least", least),
        (_, Some(most)) if number > most => ("at most", most),
        _ => return None,
    };
    Some(Problem::OutOfRange {
        key: key.to_owned(),
        relation,
        bound,
        found: value.clone(),
    })
}

/// Turns `3.0` into `3`; JSON Schema counts both as integers.
fn make_integer(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(number) = value.as_f64()
        && value.is_f64()
        && number.fract() == 0.0
        && number.abs() <= EXACT
    {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        let whole = number as i64;
        *value = whole.into();
    }
}

fn expected(schema: &JsonObject) -> &'static str {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => "a string",
        Some("boolean") => "true or false",
        Some("integer") => "an integer",
        _ => "given",
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => format!("the string \"{text}\""),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;
    use crate::tool::declare;

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        /// A place.
        path: String,
        #[schemars(range(min = 1, max = 9))]
        depth: Option<u32>,
        hidden: Option<bool>,
    }

    fn read(arguments: Value) -> Result<Sample, String> {
        let tool = declare::<Sample, Sample>("sample", "Sample", "For tests.");
        let arguments = match arguments {
            Value::Object(object) => Some(object),
            _ => None,
        };
        parse(&tool, arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn the_schema_is_lean() {
        let tool = declare::<Sample, Sample>("sample", "Sample", "For tests.");
        insta::assert_snapshot!(Value::Object((*tool.input_schema).clone()), @r#"{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"A place."},"depth":{"type":"integer","minimum":1,"maximum":9},"hidden":{"type":"boolean"}},"required":["path"]}"#);
    }

    #[test]
    fn null_and_whole_floats_are_tolerated() {
        let sample = read(json!({"path": "a", "depth": 3.0, "hidden": null})).unwrap();
        assert_eq!(
            sample,
            Sample {
                path: "a".to_owned(),
                depth: Some(3),
                hidden: None
            }
        );
    }

    #[test]
    fn problems_name_their_key() {
        insta::assert_snapshot!(read(Value::Null).unwrap_err(), @"`path` is missing: it must be a string (A place.)");
        insta::assert_snapshot!(read(json!({"path": null})).unwrap_err(), @"`path` must be a string, not null");
        insta::assert_snapshot!(read(json!({"paths": "a", "zzz": 1})).unwrap_err(), @"`path` is missing: it must be a string (A place.); unknown argument `paths`: did you mean `path`?; unknown argument `zzz`: `sample` takes `path`, `depth`, `hidden`");
        insta::assert_snapshot!(read(json!({"path": 5, "depth": "2", "hidden": "yes"})).unwrap_err(), @r#"`path` must be a string, not the number 5; `depth` must be an integer, not the string "2"; `hidden` must be true or false, not the string "yes""#);
        insta::assert_snapshot!(read(json!({"path": "a", "depth": 0})).unwrap_err(), @"`depth` must be at least 1, not 0");
        insta::assert_snapshot!(read(json!({"path": "a", "depth": 18_446_744_073_709_551_615_u64})).unwrap_err(), @"`depth` must be at most 9, not 18446744073709551615");
        insta::assert_snapshot!(read(json!({"path": "a", "depth": 2.5})).unwrap_err(), @"`depth` must be an integer, not the number 2.5");
    }
}

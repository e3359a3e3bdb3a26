//! What a run does otherwise than recorded, and where two documents differ first.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::member;
use super::tape::Tape;
use crate::recording::{Kind, TRAFFIC};

/// Characters of a value that are shown.
const SHOWN: usize = 160;
/// Characters before the difference of two texts that are shown.
const BEFORE: usize = 40;

/// The first thing that is not as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// Who was asked: a server, the model, a person, a hook.
    pub(crate) what: String,
    /// The line of the traffic that was expected here.
    pub(crate) line: Option<usize>,
    /// A JSON pointer into what was asked; empty: all of it.
    pub(crate) pointer: String,
    pub(crate) expected: String,
    pub(crate) got: String,
}

impl Difference {
    /// Something was asked that is not as in the recording, whose next request of that kind is on
    /// `line`.
    pub(super) fn between(what: String, tape: &Tape, line: Option<usize>, got: &Value) -> Self {
        let Some(at) = line else {
            return Self {
                what,
                line: None,
                pointer: String::new(),
                expected: "nothing".to_owned(),
                got: summary(got),
            };
        };
        let none = Value::Null;
        let recorded = tape.bodies.get(at).unwrap_or(&none);
        let (pointer, expected, got) = first(recorded, got, String::new())
            .unwrap_or_else(|| (String::new(), summary(recorded), summary(got)));
        Self {
            what,
            line: Some(at + 1),
            pointer,
            expected,
            got,
        }
    }

    /// The run ended without it.
    pub(super) fn missing(tape: &Tape, at: usize) -> Self {
        let none = Value::Null;
        let body = tape.bodies.get(at).unwrap_or(&none);
        let line = tape.lines.get(at);
        let what = match line.map(|line| line.kind) {
            Some(Kind::ModelAsked) => "the request to the model".to_owned(),
            Some(Kind::Approval) => format!("the question about `{}`", member(body, "tool")),
            Some(Kind::Hook) => format!("the hook at {}", member(body, "hook")),
            _ => {
                let server = line.and_then(|line| line.server.as_deref());
                of_server(server.unwrap_or_default(), body)
            }
        };
        Self {
            what,
            line: Some(at + 1),
            pointer: String::new(),
            expected: summary(body),
            got: "nothing: the run ended".to_owned(),
        }
    }

    pub(super) fn exit(expected: u8, got: u8) -> Self {
        Self {
            what: "the exit code".to_owned(),
            line: None,
            pointer: String::new(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }
}

/// A request to a server, in words.
pub(super) fn of_server(server: &str, body: &Value) -> String {
    match member(body, "method") {
        "" => format!("the answer to the server `{server}`"),
        method => format!("`{method}` to the server `{server}`"),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not as recorded", self.what)?;
        if let Some(line) = self.line {
            write!(f, " (line {line} of {TRAFFIC})")?;
        }
        if !self.pointer.is_empty() {
            write!(f, "\n  where:    {}", self.pointer)?;
        }
        write!(
            f,
            "\n  expected: {}\n  got:      {}",
            self.expected, self.got
        )
    }
}

/// Where two values differ first, in the order of the expected one; `None` where they do not.
fn first(expected: &Value, got: &Value, pointer: String) -> Option<(String, String, String)> {
    let below = |name: &str| {
        let name = name.replace('~', "~0").replace('/', "~1");
        format!("{pointer}/{name}")
    };
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            let both = expected
                .iter()
                .find_map(|(name, expected)| match got.get(name) {
                    Some(got) => first(expected, got, below(name)),
                    None => Some((below(name), summary(expected), "nothing".to_owned())),
                });
            both.or_else(|| {
                let (name, got) = got.iter().find(|(name, _)| !expected.contains_key(*name))?;
                Some((below(name), "nothing".to_owned(), summary(got)))
            })
        }
        (Value::Array(expected), Value::Array(got)) => {
            let both = expected.iter().zip(got).enumerate();
            let inside = both
                .into_iter()
                .find_map(|(at, (expected, got))| first(expected, got, below(&at.to_string())));
            inside.or_else(|| {
                let at = expected.len().min(got.len());
                let told = |values: &[Value]| values.get(at).map_or("nothing".to_owned(), summary);
                (expected.len() != got.len())
                    .then(|| (below(&at.to_string()), told(expected), told(got)))
            })
        }
        (Value::String(expected), Value::String(got)) if expected != got => {
            let same = expected.chars().zip(got.chars());
            let same = same.take_while(|(expected, got)| expected == got).count();
            let from = same.saturating_sub(BEFORE);
            Some((pointer, around(expected, from), around(got, from)))
        }
        _ if expected == got => None,
        _ => Some((pointer, summary(expected), summary(got))),
    }
}

fn around(text: &str, from: usize) -> String {
    let shown: String = text.chars().skip(from).collect();
    let before = if from > 0 { "…" } else { "" };
    summary(&Value::String(format!("{before}{shown}")))
}

/// As JSON, and not longer than a few lines.
fn summary(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(expected: &Value, got: &Value) -> Option<(String, String, String)> {
        first(expected, got, String::new())
    }

    #[test]
    fn the_first_difference_has_a_place() {
        let told = |pointer: &str, expected: &str, got: &str| {
            Some((pointer.to_owned(), expected.to_owned(), got.to_owned()))
        };
        assert_eq!(
            at(
                &json!({"a": [1, {"b/c": 2}]}),
                &json!({"a": [1, {"b/c": 2}]})
            ),
            None
        );
        assert_eq!(
            at(
                &json!({"a": [1, {"b/c": 2}]}),
                &json!({"a": [1, {"b/c": 3}]})
            ),
            told("/a/1/b~1c", "2", "3")
        );
        assert_eq!(at(&json!([1]), &json!([1, 2])), told("/1", "nothing", "2"));
        assert_eq!(at(&json!({"a": 1}), &json!({})), told("/a", "1", "nothing"));
        assert_eq!(at(&json!({}), &json!({"a": 1})), told("/a", "nothing", "1"));
        let long = "x".repeat(1000);
        let (_, expected, _) = at(&json!(format!("{long}a")), &json!(format!("{long}b"))).unwrap();
        assert_eq!(expected, format!("\"…{}a\"", "x".repeat(BEFORE)));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3_i64..3).prop_map(Value::from),
            "[a-c/~]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c/~]{0,2}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// What differs is found, what is the same is not, and the place is one of the two's.
        #[test]
        fn a_difference_is_found_exactly_where_there_is_one(a in value(), b in value()) {
            prop_assert_eq!(at(&a, &a), None);
            let found = at(&a, &b);
            prop_assert_eq!(found.is_some(), a != b);
            if let Some((pointer, ..)) = found {
                prop_assert_ne!(a.pointer(&pointer), b.pointer(&pointer));
            }
        }
    }
}

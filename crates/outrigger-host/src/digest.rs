//! A fingerprint of a tool's definition: what was shown is what may run.

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// SHA-256 over a JSON value with its object keys in sorted order, so that key order does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// SHA-256 over the bytes of a text, as any other program computes it.
    pub fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// The fingerprint of `value`.
    pub fn of(value: &Value) -> Self {
        let mut hash = Sha256::new();
        hash.update(canonical(value).as_bytes());
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by(|a, b| a.0.cmp(b.0));
            let members: Vec<_> = members
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(canonical).collect::<Vec<_>>().join(",")
        ),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_order_does_not_count_and_everything_else_does() {
        let a = json!({"name": "x", "schema": {"a": 1, "b": [1, 2]}});
        assert_eq!(
            Digest::of(&a),
            Digest::of(&json!({"schema": {"b": [1, 2], "a": 1}, "name": "x"}))
        );
        for other in [
            json!({"name": "x", "schema": {"a": 1, "b": [2, 1]}}),
            json!({"name": "x", "schema": {"a": "1", "b": [1, 2]}}),
            json!({"name": "x ", "schema": {"a": 1, "b": [1, 2]}}),
        ] {
            assert_ne!(Digest::of(&a), Digest::of(&other));
        }
    }
}

//! One incoming text, taken apart without a model of the protocol.
//!
//! Promises: tolerant of order, of repeated and missing members, of `null`; nothing is copied.
//! Leaves out: what the message means.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON-RPC message; `null` counts as absent, the last of equal names counts.
#[derive(Debug, Default)]
pub struct Message<'a> {
    /// As written.
    pub id: Option<&'a RawValue>,
    /// There is an `id`, be it `null`.
    pub names_id: bool,
    /// What is asked or told.
    pub method: Option<String>,
    /// Its parameters.
    pub params: Option<&'a RawValue>,
    /// An answer.
    pub result: Option<&'a RawValue>,
    /// A refusal.
    pub error: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Message<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message<'de>, A::Error> {
        let mut message = Message::default();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            message.names_id |= name == "id";
            let slot = match name.as_ref() {
                "id" => &mut message.id,
                "params" => &mut message.params,
                "result" => &mut message.result,
                "error" => &mut message.error,
                "method" => {
                    let value: &RawValue = map.next_value()?;
                    message.method = serde_json::from_str(value.get()).ok();
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *slot = map.next_value::<Option<&RawValue>>()?;
        }
        Ok(message)
    }
}

/// The messages of a text: one, or those of a batch. Elements that are no objects are left out.
pub fn parse(text: &str) -> Result<Vec<Message<'_>>, serde_json::Error> {
    if text.starts_with('[') {
        let elements: Vec<&RawValue> = serde_json::from_str(text)?;
        return Ok(elements
            .iter()
            .filter_map(|element| serde_json::from_str(element.get()).ok())
            .collect());
    }
    serde_json::from_str(text).map(|message| vec![message])
}

/// The number in an id of ours, however it came back: as a string, a number, or a float.
pub(crate) fn own_id(raw: &str) -> Option<u64> {
    let text = raw.trim().trim_matches('"');
    if let Ok(id) = text.parse() {
        return Some(id);
    }
    let float: f64 = text.parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_else_is_there() {
        let text = r#"{"x":[1,{"id":9}],"error":null,"result":{"n":18446744073709551615},"id":1.0,"id":"7"}"#;
        let messages = parse(text).unwrap();
        assert_eq!(messages[0].id.unwrap().get(), "\"7\"");
        assert_eq!(
            messages[0].result.unwrap().get(),
            r#"{"n":18446744073709551615}"#
        );
        assert!(messages[0].error.is_none());
    }

    #[test]
    fn a_batch_is_taken_apart() {
        let messages = parse(r#"[{"method":"a"},3,{"method":7,"id":1}]"#).unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].method.as_deref(), Some("a"));
        assert_eq!(messages[1].method, None);
    }

    #[test]
    fn ids_come_back_in_many_shapes() {
        for raw in [
            "\"1000001\"",
            "1000001",
            "1000001.0",
            "1.000001e6",
            " 1000001 ",
        ] {
            assert_eq!(own_id(raw), Some(1_000_001), "{raw}");
        }
        for raw in ["null", "\"server-error\"", "1.5", "-1", "{}", "1e300"] {
            assert_eq!(own_id(raw), None, "{raw}");
        }
    }
}

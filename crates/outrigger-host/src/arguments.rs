//! The arguments of a call: from what the model wrote to the bytes that are sent.
//!
//! Sound arguments go out as they were written, so that the digits of large numbers survive. Small,
//! unambiguous mistakes are repaired, and each repair is told. An object that names a key twice is
//! refused: the check here and the server could read different values.

pub(crate) mod filled;

use std::fmt;

use indexmap::IndexMap;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::artifact::Given;
use crate::schema::{Schema, Violation};
use filled::Fillings;

/// Arguments that fit their tool.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// What is sent, but for artifacts, whose handles stand for their contents.
    pub(crate) raw: Box<RawValue>,
    /// What was repaired, in words.
    pub(crate) repairs: Vec<String>,
    /// The idempotency key among them, for a tool that has one.
    pub(crate) key: Option<String>,
    /// The artifacts whose handles are in it.
    pub(crate) artifacts: Vec<Given>,
    /// Whether the tool wants the handles themselves.
    pub(crate) by_handle: bool,
}

/// A member that is filled in where it was left empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill<'a> {
    pub(crate) member: &'a str,
    pub(crate) value: &'a str,
}

/// What the model wrote, as an object.
#[derive(Debug)]
pub(crate) struct Written {
    /// As it was written, or as it was surely meant.
    pub(crate) raw: Box<RawValue>,
    repairs: Vec<String>,
}

/// The input schema of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Compiled.
    pub(crate) schema: &'a Schema,
    /// The same as JSON.
    pub(crate) declared: &'a Value,
}

/// Why arguments cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadArguments {
    /// Not a JSON object; says what they are, or what the parser said.
    NotAnObject(String),
    /// They do not fit the schema.
    Unfit(Vec<Violation>),
}

/// A JSON object, each member as it was written.
type Members = IndexMap<String, Box<RawValue>>;

impl Written {
    /// Reads an object.
    pub(crate) fn read(written: &str) -> Result<Self, BadArguments> {
        let mut repairs = Vec::new();
        let raw = as_object(written, &mut repairs)?;
        unique_keys(&raw)?;
        Ok(Self { raw, repairs })
    }

    /// Fills in an idempotency key, where there is none.
    pub(crate) fn fill(&mut self, fill: Fill<'_>) {
        if let Some(filled) = filled_in(&self.raw, fill, &mut self.repairs) {
            self.raw = filled;
        }
    }

    /// The text of a member.
    pub(crate) fn text(&self, member: &str) -> Option<String> {
        let members: Members = serde_json::from_str(self.raw.get()).ok()?;
        serde_json::from_str(members.get(member)?.get()).ok()
    }
}

/// The object with the member filled in; `None` where there is one.
fn filled_in(raw: &RawValue, fill: Fill<'_>, repairs: &mut Vec<String>) -> Option<Box<RawValue>> {
    let mut members: Members = serde_json::from_str(raw.get()).ok()?;
    let is_empty = |member: &RawValue| match serde_json::from_str(member.get()) {
        Ok(Value::Null) => true,
        Ok(Value::String(text)) => text.trim().is_empty(),
        _ => false,
    };
    if members
        .get(fill.member)
        .is_some_and(|member| !is_empty(member))
    {
        return None;
    }
    let value = serde_json::value::to_raw_value(fill.value).ok()?;
    members.insert(fill.member.to_owned(), value);
    repairs.push(format!(
        "`{}`, left empty, was filled in by the host: an idempotency key",
        fill.member
    ));
    serde_json::value::to_raw_value(&members).ok()
}

impl Arguments {
    /// Checks what will be sent: what was written, with `fillings` in the places of their handles.
    pub(crate) fn check(
        written: Written,
        wanted: Wanted<'_>,
        fillings: Fillings,
    ) -> Result<Self, BadArguments> {
        let Written {
            mut raw,
            mut repairs,
        } = written;
        let has_artifacts = !fillings.is_empty();
        let value = filled::value(&raw, fillings, wanted.declared).map_err(not_json)?;
        let violations = wanted.schema.violations(&value);
        if !violations.is_empty() {
            let mended = unquote_members(&raw, &value, wanted.declared);
            let Some((mended, told)) = mended.filter(|_| !has_artifacts) else {
                return Err(BadArguments::Unfit(violations));
            };
            unique_keys(&mended)?;
            let value = serde_json::from_str(mended.get()).map_err(not_json)?;
            if !wanted.schema.violations(&value).is_empty() {
                return Err(BadArguments::Unfit(violations));
            }
            raw = mended;
            repairs.extend(told);
        }
        Ok(Self {
            raw,
            repairs,
            key: None,
            artifacts: Vec::new(),
            by_handle: false,
        })
    }
}

/// The object that was written, or the one that was surely meant.
fn as_object(written: &str, repairs: &mut Vec<String>) -> Result<Box<RawValue>, BadArguments> {
    let text = written.trim();
    if text.is_empty() || text == "null" {
        if text == "null" {
            repairs.push("`null` was read as no arguments".to_owned());
        }
        return RawValue::from_string("{}".to_owned()).map_err(not_json);
    }
    let raw = RawValue::from_string(text.to_owned()).map_err(not_json)?;
    if raw.get().starts_with('{') {
        return Ok(raw);
    }
    let inner: Option<String> = serde_json::from_str(raw.get()).ok();
    let inner = inner
        .map(|text| text.trim().to_owned())
        .filter(|text| text.starts_with('{'));
    if let Some(object) = inner.and_then(|text| RawValue::from_string(text).ok()) {
        repairs.push("an object written as a string was read as the object".to_owned());
        return Ok(object);
    }
    Err(BadArguments::NotAnObject(format!(
        "they are `{}`",
        crate::text::shorten(raw.get(), 100)
    )))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
fn not_json(error: serde_json::Error) -> BadArguments {
    BadArguments::NotAnObject(format!("they are not JSON: {error}"))
}

fn unique_keys(raw: &RawValue) -> Result<(), BadArguments> {
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    UniqueKeys.deserialize(&mut reader).map_err(not_json)
}

/// Whether a text is one JSON value in which no object names a key twice.
fn is_sound(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    UniqueKeys.deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// Members whose schema wants an object or array, and which hold one written as a string.
fn unquote_members(
    raw: &RawValue,
    value: &Value,
    declared: &Value,
) -> Option<(Box<RawValue>, Vec<String>)> {
    let properties = declared.get("properties")?.as_object()?;
    let mut members: Members = serde_json::from_str(raw.get()).ok()?;
    let mut told = Vec::new();
    for (key, member) in &mut members {
        let Some(text) = value.get(key).and_then(Value::as_str) else {
            continue;
        };
        let wants = properties
            .get(key)
            .and_then(|schema| schema.get("type"))
            .and_then(Value::as_str);
        let begins = match wants {
            Some("object") => '{',
            Some("array") => '[',
            _ => continue,
        };
        let inner = text.trim();
        if inner.starts_with(begins)
            && let Ok(unquoted) = RawValue::from_string(inner.to_owned())
        {
            *member = unquoted;
            told.push(format!(
                "`{key}`, written as a string, was read as the {} in it",
                wants.unwrap_or_default()
            ));
        }
    }
    if told.is_empty() {
        return None;
    }
    let mended = serde_json::value::to_raw_value(&members).ok()?;
    Some((mended, told))
}

/// Walks a JSON text and fails at the first key that an object names twice.
struct UniqueKeys;

impl<'de> DeserializeSeed<'de> for UniqueKeys {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(UniqueKeys)?;
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format_args!(
                    "the key `{key}` is there twice"
                )));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(UniqueKeys)?.is_some() {}
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(deserializer).map(drop)
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(written: &str) -> Result<(String, Vec<String>), BadArguments> {
        let declared = json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "where": {"type": "object"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "text": {"type": "string"}
            },
            "additionalProperties": false
        });
        let schema = Schema::compile(&declared).unwrap();
        let wanted = Wanted {
            schema: &schema,
            declared: &declared,
        };
        Arguments::check(Written::read(written)?, wanted, Fillings::new())
            .map(|arguments| (arguments.raw.get().to_owned(), arguments.repairs))
    }

    #[test]
    fn sound_arguments_go_out_as_written() {
        let written = r#"{"n": 12345678901234567890123456789,  "text":"a\u0062"}"#;
        assert_eq!(read(written), Ok((written.to_owned(), vec![])));
    }

    #[test]
    fn small_mistakes_are_repaired_and_told() {
        assert_eq!(read(""), Ok(("{}".to_owned(), vec![])));
        for (written, sent) in [
            ("null", "{}"),
            (r#""{\"n\":1}""#, r#"{"n":1}"#),
            (
                r#"{"where":"{\"a\":[1]}","n":9007199254740993}"#,
                r#"{"where":{"a":[1]},"n":9007199254740993}"#,
            ),
            (r#"{"tags":"[\"x\"]"}"#, r#"{"tags":["x"]}"#),
        ] {
            let (raw, repairs) = read(written).unwrap();
            assert_eq!((raw.as_str(), repairs.len()), (sent, 1), "{written}");
        }
        // A string that was wanted as a string stays one.
        assert_eq!(read(r#"{"text":"{}"}"#).unwrap().1, Vec::<String>::new());
    }

    #[test]
    fn a_key_is_filled_in_where_it_was_left_empty_and_nothing_else_changes() {
        let declared = json!({ "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } } });
        let schema = Schema::compile(&declared).unwrap();
        let fill = Fill {
            member: "id",
            value: "k1",
        };
        let read = |written: &str| {
            let mut written = Written::read(written).unwrap();
            written.fill(fill);
            let key = written.text("id").unwrap();
            let wanted = Wanted {
                schema: &schema,
                declared: &declared,
            };
            let read = Arguments::check(written, wanted, Fillings::new()).unwrap();
            (read.raw.get().to_owned(), read.repairs.len(), key)
        };
        let sent = |text: &str, repairs, key: &str| (text.to_owned(), repairs, key.to_owned());
        assert_eq!(read(""), sent(r#"{"id":"k1"}"#, 1, "k1"));
        assert_eq!(
            read(r#"{"n": 1.50, "id": ""}"#),
            sent(r#"{"n":1.50,"id":"k1"}"#, 1, "k1")
        );
        assert_eq!(read(r#"{"id":null}"#), sent(r#"{"id":"k1"}"#, 1, "k1"));
        assert_eq!(
            read(r#"{ "id": "mine" }"#),
            sent(r#"{ "id": "mine" }"#, 0, "mine")
        );
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        let refused: Vec<String> = [
            "[1]",
            "{",
            "7",
            r#"{"n":1,"n":2}"#,
            r#"{"where":{"a":1,"a":2}}"#,
            r#"{"n":"x"}"#,
            r#"{"tags":"[1]"}"#,
        ]
        .into_iter()
        .map(|written| format!("{:?}", read(written).unwrap_err()))
        .collect();
        insta::assert_snapshot!(refused.join("\n"), @r#"
        NotAnObject("they are `[1]`")
        NotAnObject("they are not JSON: EOF while parsing an object at line 1 column 1")
        NotAnObject("they are `7`")
        NotAnObject("they are not JSON: the key `n` is there twice at line 1 column 13")
        NotAnObject("they are not JSON: the key `a` is there twice at line 1 column 22")
        Unfit([Violation { pointer: "/n", message: "\"x\" is not of type \"integer\"" }])
        Unfit([Violation { pointer: "/tags", message: "\"[1]\" is not of type \"array\"" }])
        "#);
    }
}

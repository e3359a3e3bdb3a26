//! Arguments with the contents of artifacts in the places of their handles.
//!
//! A handle that is a whole value becomes the content: a JSON string, base64 where the content is no
//! text, or the JSON itself where the tool's schema wants an object, array or number there. One
//! inside a longer string becomes text inside of it. Names of members stay as they are, and so does
//! every other byte.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::artifact::handles;

/// A content to put in the place of a handle.
#[derive(Clone)]
pub(crate) struct Filling {
    /// All of it.
    pub(crate) bytes: Bytes,
    /// Whether it is a picture or the like, which no tool takes as text.
    pub(crate) is_media: bool,
}

/// Contents, by the digits as they are written.
pub(crate) type Fillings = HashMap<String, Filling>;

/// A string that is a value.
struct Literal<'a> {
    /// With its quotes.
    range: Range<usize>,
    meant: Cow<'a, str>,
    /// The member that it is, where it is one of the outermost object's.
    member: Option<Cow<'a, str>>,
}

/// The digits of all handles in the arguments, each once, in order.
pub(crate) fn named(raw: &RawValue) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    // Slashes may be escaped; the colon has no reason to be.
    if memchr::memmem::find(raw.get().as_bytes(), b"artifact:").is_none() {
        return all;
    }
    for literal in literals(raw.get()) {
        for (_, digits) in handles(&literal.meant) {
            if !all.iter().any(|known| known == digits) {
                all.push(digits.to_owned());
            }
        }
    }
    all
}

/// The arguments with each handle replaced by what `name` makes of its digits.
pub(crate) fn renamed(raw: &RawValue, name: impl Fn(&str) -> Option<String>) -> String {
    let mut out = Vec::with_capacity(raw.get().len());
    let mut copied = 0;
    for literal in literals(raw.get()) {
        let mut text = String::new();
        let mut from = 0;
        for (range, digits) in handles(&literal.meant) {
            text.push_str(&literal.meant[from..range.start]);
            match name(digits) {
                Some(name) => text.push_str(&name),
                None => text.push_str(&literal.meant[range.clone()]),
            }
            from = range.end;
        }
        if from == 0 {
            continue;
        }
        text.push_str(&literal.meant[from..]);
        out.extend_from_slice(&raw.get().as_bytes()[copied..literal.range.start]);
        push_string(&mut out, &text);
        copied = literal.range.end;
    }
    out.extend_from_slice(&raw.get().as_bytes()[copied..]);
    String::from_utf8(out).unwrap_or_else(|_| raw.get().to_owned())
}

/// The arguments as they are sent. `declared`: the tool's input schema.
pub(crate) fn filled(
    raw: &RawValue,
    fillings: &Fillings,
    declared: &Value,
) -> Result<Box<RawValue>, serde_json::Error> {
    let text = raw.get();
    let more: usize = fillings.values().map(|filling| filling.bytes.len()).sum();
    let mut out: Vec<u8> = Vec::with_capacity(text.len() + more + more / 16);
    let mut copied = 0;
    for literal in literals(text) {
        let found: Vec<_> = handles(&literal.meant)
            .filter_map(|(range, digits)| Some((range, fillings.get(digits)?)))
            .collect();
        let Some((first, filling)) = found.first() else {
            continue;
        };
        out.extend_from_slice(&text.as_bytes()[copied..literal.range.start]);
        copied = literal.range.end;
        if first.len() == literal.meant.trim().len() {
            push_value(
                &mut out,
                filling,
                wanted(declared, literal.member.as_deref()),
            );
        } else {
            push_inside(&mut out, &literal.meant, &found);
        }
    }
    out.extend_from_slice(&text.as_bytes()[copied..]);
    let text = String::from_utf8(out).map_err(serde_json::Error::custom)?;
    RawValue::from_string(text)
}

/// The same as a tree, for the schema to be checked against. A content that stands there once is not
/// copied.
pub(crate) fn value(
    raw: &RawValue,
    fillings: Fillings,
    declared: &Value,
) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::from_str(raw.get())?;
    if fillings.is_empty() {
        return Ok(value);
    }
    let mut left: HashMap<String, usize> = HashMap::new();
    for literal in literals(raw.get()) {
        for (_, digits) in handles(&literal.meant) {
            *left.entry(digits.to_owned()).or_default() += 1;
        }
    }
    let mut filler = Filler { fillings, left };
    if let Value::Object(members) = &mut value {
        for (member, value) in members {
            filler.fill(value, wanted(declared, Some(member)));
        }
    }
    Ok(value)
}

/// Puts contents into a tree.
struct Filler {
    fillings: Fillings,
    /// In how many places each still has to be put.
    left: HashMap<String, usize>,
}

impl Filler {
    fn fill(&mut self, value: &mut Value, wanted: Option<&str>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item, None)),
            Value::Object(members) => {
                members
                    .values_mut()
                    .for_each(|member| self.fill(member, None));
            }
            Value::String(text) => {
                if let Some(filled) = self.filled(text, wanted) {
                    *value = filled;
                }
            }
            _ => {}
        }
    }

    fn filled(&mut self, text: &str, wanted: Option<&str>) -> Option<Value> {
        let found = handles(text).filter(|(_, digits)| self.fillings.contains_key(*digits));
        let found: Vec<_> = found
            .map(|(range, digits)| (range, digits.to_owned()))
            .collect();
        let (first, digits) = found.first()?;
        if first.len() == text.trim().len() {
            let content = self.take(digits)?;
            let is_json = wanted.is_some() && content.text().is_some_and(super::is_sound);
            let content = content.into_text();
            if is_json {
                return serde_json::from_str(&content).ok();
            }
            return Some(Value::String(content));
        }
        let (mut out, mut from) = (String::new(), 0);
        for (range, digits) in &found {
            out.push_str(&text[from..range.start]);
            out.push_str(&self.take(digits)?.into_text());
            from = range.end;
        }
        out.push_str(&text[from..]);
        Some(Value::String(out))
    }

    fn take(&mut self, digits: &str) -> Option<Filling> {
        let left = self.left.get_mut(digits)?;
        *left = left.saturating_sub(1);
        if *left == 0 {
            return self.fillings.remove(digits);
        }
        self.fillings.get(digits).cloned()
    }
}

/// What the schema wants of a member, where that is no text.
fn wanted<'s>(declared: &'s Value, member: Option<&str>) -> Option<&'s str> {
    let schema = declared.get("properties")?.get(member?)?;
    let wanted = schema.get("type")?.as_str()?;
    (wanted != "string").then_some(wanted)
}

fn push_value(out: &mut Vec<u8>, filling: &Filling, wanted: Option<&str>) {
    if wanted.is_some()
        && let Some(text) = filling.text()
        && super::is_sound(text)
    {
        return out.extend_from_slice(text.as_bytes());
    }
    match filling.text() {
        Some(text) => push_string(out, text),
        None => push_string(out, &STANDARD.encode(&filling.bytes)),
    }
}

/// `meant` with contents in it, as one JSON string.
fn push_inside(out: &mut Vec<u8>, meant: &str, found: &[(Range<usize>, &Filling)]) {
    out.push(b'"');
    let mut from = 0;
    for (range, filling) in found {
        push_inner(out, &meant[from..range.start]);
        match filling.text() {
            Some(text) => push_inner(out, text),
            None => push_inner(out, &STANDARD.encode(&filling.bytes)),
        }
        from = range.end;
    }
    push_inner(out, &meant[from..]);
    out.push(b'"');
}

fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_inner(out, text);
    out.push(b'"');
}

/// The inside of a JSON string (RFC 8259, section 7).
fn push_inner(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))
    {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

impl Filling {
    fn text(&self) -> Option<&str> {
        if self.is_media {
            return None;
        }
        str::from_utf8(&self.bytes).ok()
    }

    fn into_text(self) -> String {
        if self.is_media {
            return STANDARD.encode(&self.bytes);
        }
        String::from_utf8(self.bytes.into())
            .unwrap_or_else(|error| STANDARD.encode(error.as_bytes()))
    }
}

/// The strings that are values, in a text that is known to be JSON.
fn literals(json: &str) -> impl Iterator<Item = Literal<'_>> {
    let bytes = json.as_bytes();
    let mut at = 0;
    let mut depth = 0_usize;
    let mut member: Option<Cow<'_, str>> = None;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let end = string_end(bytes, at + 1);
                    let range = at..end;
                    at = end;
                    let meant = meant(json.get(range.clone()).unwrap_or_default());
                    let next = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace());
                    if next == Some(&b':') {
                        if depth == 1 {
                            member = Some(meant);
                        }
                        continue;
                    }
                    let member = member.clone().filter(|_| depth == 1);
                    return Some(Literal {
                        range,
                        meant,
                        member,
                    });
                }
                _ => {}
            }
            at += 1;
        }
        None
    })
}

/// What a string stands for; itself, where it has no escapes.
fn meant(literal: &str) -> Cow<'_, str> {
    let inner = literal.get(1..literal.len().saturating_sub(1));
    let inner = inner.unwrap_or_default();
    if !literal.contains('\\') {
        return Cow::Borrowed(inner);
    }
    serde_json::from_str(literal).map_or(Cow::Borrowed(inner), Cow::Owned)
}

/// The position behind the quote that ends the string whose inside starts at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const TEXT: &str = "0123456789abcdef";
    const BYTES: &str = "fedcba9876543210";

    fn fillings(text: &str) -> Fillings {
        let filling = |bytes: Vec<u8>| Filling {
            bytes: bytes.into(),
            is_media: false,
        };
        HashMap::from([
            (TEXT.to_owned(), filling(text.as_bytes().to_vec())),
            (BYTES.to_owned(), filling(vec![0xff, 0, 1])),
        ])
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    /// What is written, the content, and what is sent.
    const PLACES: [(&str, &str, &str); 11] = [
        (
            r#"{"text": "artifact://0123456789abcdef", "n":1.0}"#,
            "a\"b\n\u{1}é",
            "{\"text\": \"a\\\"b\\n\\u0001é\", \"n\":1.0}",
        ),
        (
            r#"{"text":"artifact:\/\/0123456789abcdef"}"#,
            "x",
            r#"{"text":"x"}"#,
        ),
        (
            r#"{"text":"<artifact://0123456789abcdef>\n<artifact://0123456789abcdef>"}"#,
            "\\",
            r#"{"text":"<\\>\n<\\>"}"#,
        ),
        (
            r#"{"text":"data:;base64,artifact://fedcba9876543210"}"#,
            "",
            r#"{"text":"data:;base64,/wAB"}"#,
        ),
        (
            r#"{"text":"artifact://fedcba9876543210"}"#,
            "",
            r#"{"text":"/wAB"}"#,
        ),
        (
            r#"{"rows":"artifact://0123456789abcdef"}"#,
            "[1, 2]",
            r#"{"rows":[1, 2]}"#,
        ),
        (
            r#"{"rows":"artifact://0123456789abcdef"}"#,
            "no rows",
            r#"{"rows":"no rows"}"#,
        ),
        (
            r#"{"text":"artifact://0123456789abcdef"}"#,
            "[1, 2]",
            r#"{"text":"[1, 2]"}"#,
        ),
        (
            r#"{"a":{"rows":["artifact://0123456789abcdef"]}}"#,
            "[1]",
            r#"{"a":{"rows":["[1]"]}}"#,
        ),
        (
            r#"{"artifact://0123456789abcdef":1}"#,
            "x",
            r#"{"artifact://0123456789abcdef":1}"#,
        ),
        (
            r#"{"text":"artifact://build/17 \ud83d\ude00"}"#,
            "x",
            r#"{"text":"artifact://build/17 \ud83d\ude00"}"#,
        ),
    ];

    #[test]
    fn each_place_gets_the_form_it_takes() {
        let declared = json!({"properties": {"rows": {"type": "array"}, "n": {"type": "integer"}, "text": {"type": "string"}}});
        for (written, content, sent) in PLACES {
            let sent_as = filled(&raw(written), &fillings(content), &declared).unwrap();
            assert_eq!(sent_as.get(), sent, "{written}");
            let checked = value(&raw(written), fillings(content), &declared).unwrap();
            let sent: Value = serde_json::from_str(sent).unwrap();
            assert_eq!(checked, sent, "what is checked is what is sent");
        }
    }

    #[test]
    fn handles_are_found_wherever_a_value_may_have_them() {
        let arguments = raw(
            r#"{"a":"artifact:\/\/0123456789abcdef","b":["artifact://fedcba9876543210 artifact://0123456789abcdef"]}"#,
        );
        assert_eq!(named(&arguments), [TEXT, BYTES]);
        let renamed = renamed(&arguments, |digits| Some(digits[..2].to_owned()));
        assert_eq!(renamed, r#"{"a":"01","b":["fe 01"]}"#);
    }

    proptest! {
        /// Whatever the content: the server reads it as it is, and the rest is not touched.
        #[test]
        fn a_content_arrives_as_it_is(content in any::<String>(), before in "[^a]{0,10}", other in any::<String>()) {
            let arguments = json!({"text": format!("{before}artifact://{TEXT}"), "other": other});
            let sent = filled(&raw(&arguments.to_string()), &fillings(&content), &Value::Null).unwrap();
            let read: Value = serde_json::from_str(sent.get()).unwrap();
            let checked = value(&raw(&arguments.to_string()), fillings(&content), &Value::Null);
            prop_assert_eq!(&checked.unwrap(), &read);
            let whole = before.trim().is_empty();
            prop_assert_eq!(&read["text"], &json!(if whole { content } else { format!("{before}{content}") }));
            if !other.contains("artifact:") {
                prop_assert_eq!(&read["other"], &json!(other));
            }
        }
    }
}

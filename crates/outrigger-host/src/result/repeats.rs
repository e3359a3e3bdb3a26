//! Whether the text of an answer says what its structured content says (MCP: "a tool that returns
//! structured content SHOULD also return the serialized JSON in a text block"). Servers write it with
//! other blanks, numbers and order of keys, wrapped in an object of one member, or with one block for
//! each item of a list.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::block::Block;

/// Beyond this many bytes values are compared as they are written: a tree of them costs many times
/// their size.
const COMPARED: usize = 4 << 20;

/// Doubles from here on, 2⁵³, do not hold every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The text says the same.
pub(super) struct Repeated {
    /// The blocks that do.
    pub(super) blocks: Vec<usize>,
    /// The structured content says it in fewer bytes.
    pub(super) shorter: bool,
}

pub(super) fn repeated(blocks: &[Block], structured: &RawValue) -> Option<Repeated> {
    let texts = blocks.iter().enumerate();
    let texts = texts.filter_map(|(at, block)| Some((at, block.as_text()?)));
    let texts: Vec<(usize, &str)> = texts.collect();
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    let small = bytes <= COMPARED && structured.get().len() <= COMPARED;
    let found = if small {
        in_value(&texts, structured)
    } else {
        as_written(&texts, structured)
    };
    // A plain text is never shown as a JSON string: its quotes and escapes say nothing.
    found.map(|(blocks, plain)| Repeated {
        blocks,
        shorter: !plain && structured.get().len() < bytes,
    })
}

/// The blocks that say the same, and whether they say it in plain text.
type Found = Option<(Vec<usize>, bool)>;

fn in_value(texts: &[(usize, &str)], structured: &RawValue) -> Found {
    let structured: Value = serde_json::from_str(structured.get()).ok()?;
    let inner = structured
        .as_object()
        .filter(|members| members.len() == 1)
        .and_then(|members| members.values().next());
    let meant = [Some(&structured), inner];
    for (at, text) in texts {
        let said = meant
            .into_iter()
            .flatten()
            .find_map(|value| says(text, value));
        if let Some(plain) = said {
            return Some((vec![*at], plain));
        }
    }
    meant
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .find_map(|items| item_by_item(texts, items))
}

/// Whether there is one block for each of at least two items, in their order.
fn item_by_item(texts: &[(usize, &str)], items: &[Value]) -> Found {
    if items.len() < 2 || items.len() != texts.len() {
        return None;
    }
    let said = texts.iter().zip(items);
    let said: Option<Vec<bool>> = said.map(|((_, text), item)| says(text, item)).collect();
    let plain = said?.contains(&true);
    Some((texts.iter().map(|(at, _)| *at).collect(), plain))
}

/// Whether a text says a value, and if so, whether in plain text.
fn says(text: &str, value: &Value) -> Option<bool> {
    if value.as_str() == Some(text) {
        return Some(true);
    }
    let read: Value = serde_json::from_str(text).ok()?;
    same(&read, value).then_some(false)
}

/// For values that are too large for a tree: the same bytes, or a text wrapped once.
fn as_written(texts: &[(usize, &str)], structured: &RawValue) -> Found {
    let written = structured.get();
    let wrapped = wrapped_text(written);
    let wrapped: Option<Cow<'_, str>> = wrapped.and_then(|raw| serde_json::from_str(raw).ok());
    texts.iter().find_map(|(at, text)| {
        let plain = wrapped.as_deref() == Some(*text);
        (plain || *text == written).then(|| (vec![*at], plain))
    })
}

/// The one member's text of an object, or a text itself, as JSON.
fn wrapped_text(json: &str) -> Option<&str> {
    if json.starts_with('"') {
        return Some(json);
    }
    let members: std::collections::HashMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(json).ok()?;
    let mut members = members.into_values();
    match (members.next(), members.next()) {
        (Some(only), None) => Some(only.get()).filter(|json| json.starts_with('"')),
        _ => None,
    }
}

/// Whether two values are the same: numbers by what they stand for, objects whatever their order.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Doubles that may stand for their neighbours are never taken for the same.
fn same_number(a: &Number, b: &Number) -> bool {
    if !a.is_f64() && !b.is_f64() {
        return a == b;
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else {
        return false;
    };
    a.abs() < EXACT && (a - b).abs() == 0.0
}

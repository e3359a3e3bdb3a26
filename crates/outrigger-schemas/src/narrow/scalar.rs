//! Strings, numbers, and values that are listed one by one.

use serde_json::{Value, json};

use super::{describe, described};
use crate::change::Effect;
use crate::family::Family;
use crate::join::{Keywords, types_of};
use crate::lowering::{Lowered, Lowering, Place, with_words};
use crate::plan::{Note, SCALAR, STRING};

/// How many characters of a list of values are put in words.
const TOLD_VALUES: usize = 400;

pub(super) fn string(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Lowered {
    let mut out = described(keywords, "string");
    if let Some(format) = keywords.get("format").and_then(Value::as_str) {
        if l.family.takes_format(format) {
            out.insert("format".to_owned(), json!(format));
        } else {
            // A format is a hint to everybody but the model.
            l.change(
                at,
                format!("the format `{format}` is said in words"),
                "the family does not know it",
                Effect::Same,
            );
            with_words(&mut out, &format!("Format: {format}."));
        }
    }
    if let Some(pattern) = keywords.get("pattern").and_then(Value::as_str) {
        if l.family.takes_pattern(pattern) {
            out.insert("pattern".to_owned(), json!(pattern));
        } else {
            l.change(
                at,
                "`pattern` is said in words",
                "the family's patterns look neither around nor back",
                Effect::Looser,
            );
            with_words(&mut out, &format!("Pattern: `{pattern}`."));
        }
    }
    length(l, keywords, &mut out, at);
    Lowered {
        schema: Value::Object(out),
        note: STRING,
    }
}

fn length(l: &mut Lowering<'_>, keywords: &Keywords, out: &mut Keywords, at: &Place) {
    let (least, most) = (keywords.get("minLength"), keywords.get("maxLength"));
    if l.family == Family::Gemini {
        for (key, value) in [("minLength", least), ("maxLength", most)] {
            if let Some(value) = value {
                out.insert(key.to_owned(), value.clone());
            }
        }
        return;
    }
    let words = match (least, most) {
        (None, None) => return,
        (Some(least), None) => format!("At least {least} characters."),
        (None, Some(most)) => format!("At most {most} characters."),
        (Some(least), Some(most)) => format!("{least} to {most} characters."),
    };
    l.change(
        at,
        "the length is said in words",
        "the family does not know it",
        Effect::Looser,
    );
    with_words(out, &words);
}

pub(super) fn number(l: &mut Lowering<'_>, keywords: &Keywords, kind: &str, at: &Place) -> Lowered {
    let mut out = described(keywords, kind);
    let gemini = l.family == Family::Gemini;
    for key in [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ] {
        let Some(value) = keywords.get(key) else {
            continue;
        };
        if !gemini || matches!(key, "minimum" | "maximum") {
            out.insert(key.to_owned(), value.clone());
        }
    }
    if gemini {
        if let Some(format) = keywords.get("format").and_then(Value::as_str)
            && ["int32", "int64", "float", "double"].contains(&format)
        {
            out.insert("format".to_owned(), json!(format));
        }
        exclusive(l, keywords, &mut out, (kind, at));
        if keywords.contains_key("multipleOf") {
            l.change(
                at,
                "`multipleOf` is left out",
                "the family does not know it",
                Effect::Looser,
            );
        }
    }
    Lowered {
        schema: Value::Object(out),
        note: SCALAR,
    }
}

/// Bounds that are not themselves allowed, as bounds that are.
fn exclusive(l: &mut Lowering<'_>, keywords: &Keywords, out: &mut Keywords, of: (&str, &Place)) {
    let (kind, at) = of;
    for (key, bound, step) in [
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ] {
        let Some(value) = keywords.get(key).filter(|value| value.is_number()) else {
            continue;
        };
        let whole = value
            .as_i64()
            .filter(|_| kind == "integer")
            .and_then(|value| value.checked_add(step));
        let effect = if whole.is_some() {
            Effect::Same
        } else {
            Effect::Looser
        };
        let new = whole.map_or_else(|| value.clone(), Value::from);
        let tighter = |known: &Value| {
            if step > 0 {
                known.as_f64() >= new.as_f64()
            } else {
                known.as_f64() <= new.as_f64()
            }
        };
        if !out.get(bound).is_some_and(tighter) {
            out.insert(bound.to_owned(), new);
        }
        l.change(
            at,
            format!("`{key}` is `{bound}`"),
            "the family does not know it",
            effect,
        );
    }
}

/// `enum` and `const`; nothing where there is none, or its values have no words.
pub(super) fn listed(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Option<Lowered> {
    let values: Vec<Value> = match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => vec![value.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        _ => return None,
    };
    let declared = types_of(keywords.get("type"));
    let mut fitting: Vec<Value> = Vec::new();
    for value in values {
        let fits = declared.is_empty() || declared.iter().any(|kind| is_of(&value, kind));
        if fits && !fitting.contains(&value) {
            fitting.push(value);
        }
    }
    let is_composite = |value: &Value| value.is_object() || value.is_array();
    if fitting.is_empty() || fitting.iter().any(is_composite) {
        l.change(
            at,
            "the list of values is left out",
            "the family lists strings and numbers",
            Effect::Looser,
        );
        return None;
    }
    if l.family == Family::Gemini {
        return Some(for_gemini(l, keywords, fitting, at));
    }
    let types = kinds_of(&fitting);
    let note = if types.contains(&"string") {
        STRING
    } else {
        SCALAR
    };
    let mut out = Keywords::new();
    let kinds = if let [only] = types[..] {
        json!(only)
    } else {
        json!(types)
    };
    out.insert("type".to_owned(), kinds);
    describe(keywords, &mut out);
    out.insert("enum".to_owned(), Value::Array(fitting));
    Some(Lowered {
        schema: Value::Object(out),
        note,
    })
}

/// The types of scalar values.
fn kinds_of(values: &[Value]) -> Vec<&'static str> {
    let mut types: Vec<&str> = Vec::new();
    for value in values {
        let kind = match value {
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Null => "null",
            _ if is_of(value, "integer") => "integer",
            _ => "number",
        };
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    if types.contains(&"number") {
        types.retain(|kind| *kind != "integer");
    }
    types
}

/// Only strings that are not empty may be listed.
fn for_gemini(
    l: &mut Lowering<'_>,
    keywords: &Keywords,
    values: Vec<Value>,
    at: &Place,
) -> Lowered {
    let nullable = values.contains(&Value::Null);
    let real: Vec<Value> = values
        .into_iter()
        .filter(|value| !value.is_null())
        .collect();
    let are_strings = real.iter().all(Value::is_string);
    let are_taken = are_strings && !real.is_empty() && real.iter().all(|value| value != "");
    let kind = match real.first() {
        None => return super::text(l, keywords, crate::plan::Text::Anything, at),
        Some(_) if are_strings => "string",
        Some(_) if real.iter().all(Value::is_boolean) => "boolean",
        Some(_) if real.iter().all(|value| is_of(value, "integer")) => "integer",
        Some(_) if real.iter().all(Value::is_number) => "number",
        Some(_) => {
            l.change(
                at,
                "is written as JSON text",
                "the family lists strings alone",
                Effect::Looser,
            );
            let mut keywords = keywords.clone();
            with_words(&mut keywords, &one_of(&real));
            return super::text(l, &keywords, crate::plan::Text::Anything, at);
        }
    };
    let mut out = described(keywords, kind);
    if are_taken {
        out.insert("enum".to_owned(), Value::Array(real));
    } else {
        let why = "the family lists strings that are not empty";
        l.change(
            at,
            "the list of values is said in words",
            why,
            Effect::Looser,
        );
        with_words(&mut out, &one_of(&real));
    }
    if nullable {
        out.insert("nullable".to_owned(), json!(true));
    }
    let note = if are_strings { STRING } else { SCALAR };
    Lowered {
        schema: Value::Object(out),
        note,
    }
}

fn one_of(values: &[Value]) -> String {
    let mut words = String::from("One of: ");
    for (at, value) in values.iter().enumerate() {
        if words.len() > TOLD_VALUES {
            words.push('…');
            break;
        }
        let comma = if at == 0 { "" } else { ", " };
        words.push_str(comma);
        words.push_str(&value.to_string());
    }
    words.push('.');
    words
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "object" => value.is_object(),
        _ => value.is_array(),
    }
}

/// The note of a schema that takes any of these types.
pub(super) fn note_of(l: &mut Lowering<'_>, types: &[&str]) -> usize {
    match (types.contains(&"string"), types.contains(&"array")) {
        (true, false) => STRING,
        (false, false) => SCALAR,
        (plain_strings, plain_lists) => l.note(Note {
            plain_strings,
            plain_lists,
            ..Note::default()
        }),
    }
}

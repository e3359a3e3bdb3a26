//! What holds for a schema as a whole: definitions beside it, and how large it may be.

use serde_json::{Map, Value, json};

use crate::SetAside;
use crate::change::Effect;
use crate::family::Family;
use crate::lowering::{Lowering, Place, with_words};

/// Structured Outputs, "Limitations on the total size".
const PROPERTIES: usize = 5000;
const ENUM_VALUES: usize = 1000;
const STRINGS: usize = 120_000;
/// One enum of more than so many values may have so many characters.
const LONG_ENUM: (usize, usize) = (250, 15_000);

/// The schema with its definitions, within the family's limits; `None` where a tool without arguments
/// is declared without a schema.
pub(crate) fn within(l: &mut Lowering<'_>, schema: Value) -> Result<Option<Value>, SetAside> {
    let mut schema = schema;
    let defs = l.used_defs(&schema);
    if let (Value::Object(keywords), false) = (&mut schema, defs.is_empty()) {
        keywords.insert("$defs".to_owned(), Value::Object(defs));
    }
    match l.family {
        Family::Gemini if schema.get("properties").is_none() => Ok(None),
        Family::OpenAiStrict => structured(l, schema).map(Some),
        _ => Ok(Some(schema)),
    }
}

#[derive(Default)]
struct Size {
    properties: usize,
    strings: usize,
    /// Values of each enum.
    enums: Vec<usize>,
}

fn structured(l: &mut Lowering<'_>, mut schema: Value) -> Result<Value, SetAside> {
    let mut dropped = drop_enums(&mut schema, &|count, length| {
        count > LONG_ENUM.0 && length > LONG_ENUM.1
    });
    let mut size = Size::default();
    measure(&schema, &mut size);
    // The largest first, until the rest is within the limit.
    while size.enums.iter().sum::<usize>() > ENUM_VALUES {
        let largest = size.enums.iter().copied().max().unwrap_or_default();
        dropped += drop_enums(&mut schema, &|count, _| count == largest);
        size = Size::default();
        measure(&schema, &mut size);
    }
    if dropped > 0 {
        let what = format!("{dropped} of the longest lists of values are left out");
        l.change(
            &Place::root(),
            what,
            "at most 1,000 values in all may be listed",
            Effect::Looser,
        );
    }
    if size.properties > PROPERTIES {
        let count = size.properties;
        return Err(SetAside(format!(
            "it has {count} properties, and {PROPERTIES} may be declared"
        )));
    }
    if size.strings > STRINGS {
        let count = size.strings;
        return Err(SetAside(format!(
            "its names and values have {count} characters, and {STRINGS} may be declared"
        )));
    }
    Ok(schema)
}

fn length(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

fn measure(schema: &Value, size: &mut Size) {
    let Value::Object(keywords) = schema else {
        return;
    };
    for (key, value) in keywords {
        match (key.as_str(), value) {
            ("properties" | "$defs", Value::Object(members)) => {
                if key == "properties" {
                    size.properties += members.len();
                }
                size.strings += members
                    .keys()
                    .map(|name| name.chars().count())
                    .sum::<usize>();
                members.values().for_each(|member| measure(member, size));
            }
            ("enum", Value::Array(values)) => {
                size.enums.push(values.len());
                size.strings += values.iter().map(length).sum::<usize>();
            }
            ("anyOf", Value::Array(schemas)) => {
                for schema in schemas {
                    measure(schema, size);
                }
            }
            ("items", schema) => measure(schema, size),
            _ => {}
        }
    }
}

/// Leaves out the enums that are `too_long`, by values and characters; how many.
fn drop_enums(schema: &mut Value, too_long: &dyn Fn(usize, usize) -> bool) -> usize {
    let Value::Object(keywords) = schema else {
        return 0;
    };
    let mut dropped = 0;
    for (key, value) in keywords.iter_mut() {
        dropped += match (key.as_str(), value) {
            ("properties" | "$defs", Value::Object(members)) => members
                .values_mut()
                .map(|member| drop_enums(member, too_long))
                .sum(),
            ("anyOf", Value::Array(schemas)) => schemas
                .iter_mut()
                .map(|schema| drop_enums(schema, too_long))
                .sum(),
            ("items", schema) => drop_enums(schema, too_long),
            _ => 0,
        };
    }
    let values = keywords.get("enum").and_then(Value::as_array);
    let is_long =
        values.is_some_and(|values| too_long(values.len(), values.iter().map(length).sum()));
    if is_long {
        let some = example(keywords);
        keywords.shift_remove("enum");
        with_words(keywords, &some);
        dropped += 1;
    }
    dropped
}

fn example(keywords: &Map<String, Value>) -> String {
    let values = keywords.get("enum").and_then(Value::as_array);
    let first: Vec<String> = values
        .into_iter()
        .flatten()
        .take(5)
        .map(|value| json!(value).to_string())
        .collect();
    format!("For example {}.", first.join(", "))
}

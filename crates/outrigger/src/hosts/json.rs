//! Edits JSON with comments in place.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

use super::{EditError, Wanted, goes};

pub(super) fn edited(text: &str, path: &[&str], wanted: &Wanted) -> Result<String, EditError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|error| EditError::Syntax(error.to_string()))?;
    let Some((name, tables)) = path.split_last() else {
        return Ok(text.to_owned());
    };
    let no_table = |key: &str| EditError::NoTable(key.to_owned());
    let mut table = root
        .object_value_or_create()
        .ok_or_else(|| no_table("{}"))?;
    for key in tables {
        let inner = match wanted {
            Wanted::Gone if table.get(key).is_none() => return Ok(text.to_owned()),
            _ => table.object_value_or_create(key),
        };
        table = inner.ok_or_else(|| no_table(key))?;
    }
    match (wanted, table.get(name)) {
        (Wanted::Gone, None) => {}
        (Wanted::Gone, Some(entry)) => entry.remove(),
        (Wanted::Keys { keys, first, .. }, None) => {
            let whole = keys.iter().chain(first);
            let whole = whole.map(|(key, value)| (key.clone(), input(value)));
            table.append(name, CstInputValue::Object(whole.collect()));
            table.ensure_multiline();
        }
        (Wanted::Keys { keys, instead, .. }, Some(entry)) => {
            let entry = entry.object_value().ok_or_else(|| no_table(name))?;
            update(&entry, keys, *instead);
        }
    }
    Ok(root.to_string())
}

fn update(entry: &CstObject, keys: &Map<String, Value>, instead: Option<&[&str]>) {
    for old in entry.properties() {
        let key = old.decoded_name().unwrap_or_default();
        if goes(&key, keys, instead) {
            old.remove();
        }
    }
    for (key, value) in keys {
        match entry.get(key) {
            Some(old) if is_already(&old, value) => {}
            Some(old) => old.set_value(input(value)),
            None => drop(entry.append(key, input(value))),
        }
    }
}

fn is_already(old: &CstObjectProp, value: &Value) -> bool {
    let text = old.value().map(|old| old.to_string());
    text.is_some_and(|text| serde_json::from_str(&text).ok().as_ref() == Some(value))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(entries) => CstInputValue::Object(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), input(value)))
                .collect(),
        ),
    }
}

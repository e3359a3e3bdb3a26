//! Edits TOML in place.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value as TomlValue};

use super::{EditError, Wanted, goes};

pub(super) fn edited(text: &str, path: &[&str], wanted: &Wanted) -> Result<String, EditError> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| EditError::Syntax(error.message().to_owned()))?;
    let Some((name, tables)) = path.split_last() else {
        return Ok(text.to_owned());
    };
    let no_table = |key: &str| EditError::NoTable(key.to_owned());
    let mut table: &mut dyn TableLike = document.as_table_mut();
    // Inside of an inline table only inline tables can stand.
    let mut inline = false;
    for key in tables {
        if !table.contains_key(key) {
            if matches!(wanted, Wanted::Gone) {
                return Ok(text.to_owned());
            }
            let mut fresh = Table::new();
            fresh.set_implicit(true);
            table.insert(key, Item::Table(fresh));
        }
        let item = table.get_mut(key).ok_or_else(|| no_table(key))?;
        inline |= item.is_inline_table();
        table = item.as_table_like_mut().ok_or_else(|| no_table(key))?;
    }
    match (wanted, table.get_mut(name)) {
        (Wanted::Gone, _) => drop(table.remove(name)),
        (Wanted::Keys { .. }, None) => {
            let fresh = fresh(wanted, text.trim().is_empty());
            let fresh = if inline {
                Item::Value(TomlValue::InlineTable(fresh.into_inline_table()))
            } else {
                Item::Table(fresh)
            };
            table.insert(name, fresh);
        }
        (Wanted::Keys { keys, instead, .. }, Some(entry)) => {
            let entry = entry.as_table_like_mut().ok_or_else(|| no_table(name))?;
            update(entry, keys, *instead);
        }
    }
    Ok(document.to_string())
}

/// The table of a new entry; `alone`: nothing stands before it.
fn fresh(wanted: &Wanted, alone: bool) -> Table {
    let mut fresh = Table::new();
    if let Wanted::Keys {
        keys,
        first,
        comment,
        ..
    } = wanted
    {
        if let Some(comment) = comment {
            let blank = if alone { "" } else { "\n" };
            let prefix = format!("{blank}# {comment}\n");
            fresh.decor_mut().set_prefix(prefix);
        }
        for (key, value) in keys.iter().chain(first) {
            fresh.insert(key, item(value));
        }
    }
    fresh
}

fn update(entry: &mut dyn TableLike, keys: &Map<String, Value>, instead: Option<&[&str]>) {
    let had: Vec<_> = entry.iter().map(|(key, _)| key.to_owned()).collect();
    for key in had.iter().filter(|key| goes(key, keys, instead)) {
        entry.remove(key);
    }
    for (key, value) in keys {
        let fresh = item(value);
        let plain = |item: &Item| item.to_string().trim().to_owned();
        if entry.get(key).map(plain) != Some(plain(&fresh)) {
            entry.insert(key, fresh);
        }
    }
}

/// A JSON value as TOML, which has no null.
fn item(value: &Value) -> Item {
    Item::Value(inner(value))
}

fn inner(value: &Value) -> TomlValue {
    match value {
        Value::Null => TomlValue::from(""),
        Value::Bool(value) => TomlValue::from(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => TomlValue::from(whole),
            None => TomlValue::from(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => TomlValue::from(text.as_str()),
        Value::Array(items) => TomlValue::Array(items.iter().map(inner).collect::<Array>()),
        Value::Object(entries) => {
            let mut table = InlineTable::new();
            for (key, value) in entries {
                table.insert(key, inner(value));
            }
            TomlValue::InlineTable(table)
        }
    }
}

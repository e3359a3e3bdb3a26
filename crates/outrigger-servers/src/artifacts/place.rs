//! A value inside a JSON text, by its pointer (RFC 6901). The text is gone through without building
//! a tree of it.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::error::ArtifactsError;

/// The value at `pointer`.
pub(super) fn value<'j>(json: &'j RawValue, pointer: &str) -> Result<&'j RawValue, ArtifactsError> {
    let mut value = json;
    let mut path = String::new();
    let Some(rest) = pointer.strip_prefix('/') else {
        return if pointer.is_empty() {
            Ok(json)
        } else {
            Err(ArtifactsError::NotAPointer)
        };
    };
    for token in rest.split('/') {
        let token = token.replace("~1", "/").replace("~0", "~");
        let before = if path.is_empty() {
            "the whole".to_owned()
        } else {
            format!("`{path}`")
        };
        path.push('/');
        path.push_str(&token);
        value = step(value, &token).map_err(|there| ArtifactsError::NothingThere {
            pointer: path.clone(),
            there: format!("{before} is {there}"),
        })?;
    }
    Ok(value)
}

/// One step down; else what is there.
fn step<'j>(value: &'j RawValue, token: &str) -> Result<&'j RawValue, String> {
    const NAMED: usize = 20;
    let text = value.get();
    if text.starts_with('{') {
        let members: IndexMap<Cow<'j, str>, &RawValue> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let found = members.get(token).copied();
        return found.ok_or_else(|| {
            let names = members.keys().take(NAMED).map(|name| format!("`{name}`"));
            let names = names.collect::<Vec<_>>().join(", ");
            match members.len() {
                0 => "an empty object".to_owned(),
                count if count > NAMED => {
                    format!("an object with {names} and {} more", count - NAMED)
                }
                _ => format!("an object with {names}"),
            }
        });
    }
    if text.starts_with('[') {
        let items: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let found = token
            .parse()
            .ok()
            .and_then(|at: usize| items.get(at).copied());
        return found.ok_or_else(|| format!("a list of {}, counted from 0", items.len()));
    }
    Err("no object and no list".to_owned())
}

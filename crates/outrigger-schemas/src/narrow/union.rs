//! Alternatives, and several types at once.

use serde_json::{Value, json};

use super::{joined_one, lower as lower_one, or_null, scalar, takes_null, text, typed};
use crate::change::Effect;
use crate::document::ANNOTATIONS;
use crate::family::Family;
use crate::join::{Keywords, both, types_of};
use crate::lowering::{Lowered, Lowering, Place};
use crate::plan::{NoteId, Text};

/// `anyOf` and `oneOf`, each alternative with what is said beside them.
pub(super) fn lower(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Option<Lowered> {
    let mut beside = keywords.clone();
    let (any, one) = (beside.shift_remove("anyOf"), beside.shift_remove("oneOf"));
    if one.is_some() {
        let (what, effect) = match any {
            Some(_) => ("`oneOf` is left out", Effect::Looser),
            None => ("`oneOf` is `anyOf`", Effect::Looser),
        };
        l.change(at, what, "the family does not know it", effect);
    }
    let key = if any.is_some() { "anyOf" } else { "oneOf" };
    let branches = any.or(one);
    beside.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    let mut found = Found::default();
    for (index, branch) in branches
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let place = at.below(&format!("{key}/{index}"), false);
        // With nothing beside it, a reference may stay one.
        let joined = (!beside.is_empty()).then(|| both(l.document, &beside, branch));
        let null = match &joined {
            Some(joined) => is_null(&joined.keywords),
            None => branch.as_object().is_some_and(is_null),
        };
        if null {
            found.null = true;
            continue;
        }
        let lowered = match joined {
            Some(joined) => joined_one(l, &joined, &place),
            None => lower_one(l, branch, &place),
        };
        if let Some(lowered) = lowered {
            found.add(lowered);
        }
    }
    found.end(l, keywords, at)
}

/// One schema for each of several types.
pub(super) fn of_types(
    l: &mut Lowering<'_>,
    keywords: &Keywords,
    types: &[&str],
    at: &Place,
) -> Option<Lowered> {
    if let [only] = types {
        return Some(typed(l, keywords, only, at));
    }
    let plain = types
        .iter()
        .all(|kind| !matches!(*kind, "object" | "array"));
    let restricted = keywords
        .keys()
        .any(|key| key != "type" && !ANNOTATIONS.contains(&key.as_str()));
    if plain && !restricted && l.family == Family::OpenAiStrict {
        let mut out = super::described(keywords, "string");
        out.insert("type".to_owned(), json!(types));
        let note = scalar::note_of(l, types);
        return Some(Lowered {
            schema: Value::Object(out),
            note,
        });
    }
    let mut own = keywords.clone();
    if types.len() - usize::from(types.contains(&"null")) > 1 {
        own.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    }
    let mut found = Found {
        null: types.contains(&"null"),
        ..Found::default()
    };
    for kind in types.iter().filter(|kind| **kind != "null") {
        let lowered = typed(l, &own, kind, at);
        found.add(lowered);
    }
    found.end(l, keywords, at)
}

fn is_null(schema: &Keywords) -> bool {
    let listed = schema.get("enum").and_then(Value::as_array);
    types_of(schema.get("type")) == ["null"]
        || schema.get("const") == Some(&Value::Null)
        || listed.is_some_and(|values| values.as_slice() == [Value::Null])
}

/// Alternatives as they are found.
#[derive(Default)]
struct Found {
    schemas: Vec<Value>,
    notes: Vec<NoteId>,
    null: bool,
}

impl Found {
    fn add(&mut self, lowered: Lowered) {
        self.notes.push(lowered.note);
        let schema = lowered.schema;
        let nested = schema.get("anyOf").and_then(Value::as_array).filter(|_| {
            schema
                .as_object()
                .is_some_and(|keywords| keywords.len() == 1)
        });
        for each in nested.cloned().unwrap_or_else(|| vec![schema.clone()]) {
            if each == json!({ "type": "null" }) {
                self.null = true;
            } else if !self.schemas.contains(&each) {
                self.schemas.push(each);
            }
        }
    }

    fn end(mut self, l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Option<Lowered> {
        let is_any = |note: &NoteId| l.notes[*note].text == Some(Text::Anything);
        if self.notes.iter().any(is_any) && (self.schemas.len() > 1 || self.null) {
            l.change(
                at,
                "is written as JSON text",
                "one alternative takes any value",
                Effect::Same,
            );
            return Some(text(l, keywords, Text::Anything, at));
        }
        let mut schema = match self.schemas.len() {
            0 if self.null => return Some(typed(l, keywords, "null", at)),
            0 => return None,
            1 => self.schemas.remove(0),
            _ => json!({ "anyOf": self.schemas }),
        };
        if self.null && !takes_null(&schema) {
            schema = or_null(schema, l.family);
        }
        if let Value::Object(out) = &mut schema
            && !out.contains_key("$ref")
        {
            let said = out.shift_remove("description");
            let mut words = Keywords::new();
            super::describe(keywords, &mut words);
            if let Some(words) = words.shift_remove("description").or(said) {
                out.insert("description".to_owned(), words);
            }
        }
        Some(Lowered {
            schema,
            note: l.gathered(self.notes, &at.path),
        })
    }
}

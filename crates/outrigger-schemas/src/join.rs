//! Two schemas that both apply, as one; references and `allOf` as the schema they come to.
//!
//! What cannot be said in one schema is left out, so the joined one takes the same or more.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::document::{ANNOTATIONS, Document, MAP};

/// The keywords of a schema.
pub(crate) type Keywords = Map<String, Value>;

/// What came of joining.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    pub(crate) keywords: Keywords,
    /// Something was left out.
    pub(crate) looser: bool,
    /// Nothing can be both.
    pub(crate) never: bool,
    /// The references that were followed.
    pub(crate) followed: BTreeSet<String>,
}

/// A schema with its references followed and its `allOf` joined, at this level; what lies within stays.
pub(crate) fn flat(document: &Document, schema: &Value) -> Joined {
    let mut joined = Joined::default();
    joined.add(document, schema, &mut BTreeSet::new());
    joined
}

/// `schema` joined with another that applies as well.
pub(crate) fn both(document: &Document, schema: &Keywords, other: &Value) -> Joined {
    let mut joined = Joined {
        keywords: schema.clone(),
        ..Joined::default()
    };
    joined.add(document, other, &mut BTreeSet::new());
    joined
}

impl Joined {
    fn add(&mut self, document: &Document, schema: &Value, following: &mut BTreeSet<String>) {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => {
                self.never = true;
                return;
            }
            _ => return,
        };
        let mut own = keywords.clone();
        self.looser |= reaches_over(&self.keywords, &own) || reaches_over(&own, &self.keywords);
        let reference = own.shift_remove("$ref");
        let all = own.shift_remove("allOf");
        for (key, value) in own {
            self.keyword(document, &key, value);
        }
        if let Some(name) = reference.as_ref().and_then(Value::as_str)
            && let Some((name, target)) = document.target(name)
        {
            // A reference that leads to itself asks for nothing.
            self.followed.insert(name.to_owned());
            if following.insert(name.to_owned()) {
                self.add(document, target, following);
                following.remove(name);
            }
        }
        for each in all.as_ref().and_then(Value::as_array).into_iter().flatten() {
            self.add(document, each, following);
        }
    }

    fn keyword(&mut self, document: &Document, key: &str, value: Value) {
        let Some(known) = self.keywords.get_mut(key) else {
            self.keywords.insert(key.to_owned(), value);
            return;
        };
        if *known == value || ANNOTATIONS.contains(&key) {
            return;
        }
        match (key, &mut *known, value) {
            ("type", known, value) => match common_types(known, &value) {
                Some(types) => *known = types,
                None => self.never = true,
            },
            ("required", Value::Array(known), Value::Array(more)) => {
                for name in more {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
            ("enum", Value::Array(known), Value::Array(more)) => {
                known.retain(|value| more.contains(value));
                self.never |= known.is_empty();
            }
            ("const", ..) => self.never = true,
            (
                "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties",
                known,
                value,
            ) => {
                if value.as_f64() > known.as_f64() {
                    *known = value;
                }
            }
            (
                "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties",
                known,
                value,
            ) => {
                if value.as_f64() < known.as_f64() {
                    *known = value;
                }
            }
            (map, Value::Object(known), Value::Object(more)) if MAP.contains(&map) => {
                for (name, schema) in more {
                    let joined = match known.get(&name) {
                        Some(known) => all_of(document, known, &schema, &mut self.looser),
                        None => schema,
                    };
                    known.insert(name, joined);
                }
            }
            ("additionalProperties" | "items", known, value) => {
                *known = all_of(document, known, &value, &mut self.looser);
            }
            // Two patterns, or two sets of alternatives: the first one is said.
            _ => self.looser = true,
        }
    }
}

/// Whether what `one` says of other properties is about properties that `other` declares. In a joined
/// schema they are declared, and what is said of others is not about them.
fn reaches_over(one: &Keywords, other: &Keywords) -> bool {
    let says = ["additionalProperties", "unevaluatedProperties"];
    let said = says.iter().any(|key| {
        one.get(*key)
            .is_some_and(|value| *value != Value::Bool(true))
    });
    let own = one.get("properties").and_then(Value::as_object);
    let is_foreign = |name: &String| own.is_none_or(|own| !own.contains_key(name));
    let declared = other.get("properties").and_then(Value::as_object);
    said && (declared.is_some_and(|all| all.keys().any(is_foreign))
        || other.contains_key("patternProperties"))
}

/// Both schemas, in one where that is simple.
fn all_of(document: &Document, one: &Value, other: &Value, looser: &mut bool) -> Value {
    match (one, other) {
        (Value::Bool(true), schema) | (schema, Value::Bool(true)) => schema.clone(),
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Value::Bool(false),
        (one, other) if one == other => one.clone(),
        (one, other) => {
            // Followed only when that place is reached: schemas may lead back to themselves.
            let refers =
                |schema: &Value| schema.get("$ref").is_some() || schema.get("allOf").is_some();
            if refers(one) || refers(other) {
                return json!({ "allOf": [one, other] });
            }
            let keywords = one.as_object().cloned().unwrap_or_default();
            let joined = both(document, &keywords, other);
            *looser |= joined.looser;
            if joined.never {
                Value::Bool(false)
            } else {
                Value::Object(joined.keywords)
            }
        }
    }
}

/// The types that a schema names; empty when it names none.
pub(crate) fn types_of(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn common_types(one: &Value, other: &Value) -> Option<Value> {
    let (one, other) = (types_of(Some(one)), types_of(Some(other)));
    let mut common: Vec<&str> = Vec::new();
    for a in &one {
        for b in &other {
            let both = match (*a, *b) {
                (a, b) if a == b => Some(a),
                ("integer", "number") | ("number", "integer") => Some("integer"),
                _ => None,
            };
            common.extend(both.filter(|both| !common.contains(both)));
        }
    }
    match common[..] {
        [] => None,
        [only] => Some(json!(only)),
        _ => Some(json!(common)),
    }
}

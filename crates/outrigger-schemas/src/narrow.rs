//! Families that take a few words of JSON Schema: what they are sent is written anew, in those words.
//!
//! What has no words is sent as JSON text (any value), or as a list of `{key, value}` (a map), and a
//! property that may be left out is null where the family wants all of them.

mod object;
mod scalar;
mod union;

use serde_json::{Value, json};

use crate::SetAside;
use crate::change::Effect;
use crate::document::ANNOTATIONS;
use crate::family::Family;
use crate::join::{Joined, Keywords, flat, types_of};
use crate::lowering::{Lowered, Lowering, Place, with_words};
use crate::plan::{Note, NoteId, SCALAR, Text};

/// How often a reference is followed into itself where references are not taken.
const UNROLLED: usize = 2;
/// The longest default that is told, in characters.
const TOLD_DEFAULT: usize = 60;

/// The arguments as a whole.
pub(crate) fn root(l: &mut Lowering<'_>, keywords: &Keywords) -> Result<Lowered, SetAside> {
    object::root(l, keywords)
}

/// A schema in the family's words; nothing when no value fits it.
pub(crate) fn lower(l: &mut Lowering<'_>, schema: &Value, at: &Place) -> Option<Lowered> {
    let keywords = match schema {
        Value::Object(keywords) => keywords,
        Value::Bool(false) => return None,
        _ => return Some(text(l, &Keywords::new(), Text::Anything, at)),
    };
    if let Some(kept) = recursive(l, keywords, at) {
        return Some(kept);
    }
    let joined = flat(l.document, schema);
    joined_one(l, &joined, at)
}

/// A schema whose references are followed, at this level.
fn joined_one(l: &mut Lowering<'_>, joined: &Joined, at: &Place) -> Option<Lowered> {
    if joined.never {
        return None;
    }
    if let Some(reason) = unsaid(l, joined, at) {
        l.change(at, "is written as JSON text", &reason, Effect::Looser);
        return Some(text(l, &joined.keywords, Text::Anything, at));
    }
    if joined.looser {
        let what = "what holds at once is joined, as far as that can be said";
        l.change(at, what, "the family has no `allOf`", Effect::Looser);
    }
    let before = l.following.len();
    let recursive = joined.followed.intersection(&l.document.recursive);
    l.following.extend(recursive.cloned());
    let lowered = one(l, &joined.keywords, at);
    l.following.truncate(before);
    lowered
}

/// Why a place can only be sent as JSON text, if it is one.
fn unsaid(l: &mut Lowering<'_>, joined: &Joined, at: &Place) -> Option<String> {
    if l.as_text.contains(&at.path) {
        let why = "its alternatives could not be told apart when a call is mapped back";
        return Some(why.to_owned());
    }
    if !l.has_room(at) {
        let levels = l.family.depth();
        return Some(format!(
            "it lies deeper than {levels} levels, or the schema is too large"
        ));
    }
    let often =
        |name: &String| l.following.iter().filter(|known| *known == name).count() >= UNROLLED;
    let mut again = joined.followed.intersection(&l.document.recursive);
    again
        .any(often)
        .then(|| "the schema refers to itself".to_owned())
}

/// A schema without references.
fn one(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Option<Lowered> {
    let not_told = [
        "not",
        "if",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
    ];
    for key in not_told
        .into_iter()
        .filter(|key| keywords.contains_key(*key))
    {
        l.change(
            at,
            format!("`{key}` is left out"),
            "the family does not know it",
            Effect::Looser,
        );
    }
    if let Some(listed) = scalar::listed(l, keywords, at) {
        return Some(listed);
    }
    if keywords.contains_key("anyOf") || keywords.contains_key("oneOf") {
        return union::lower(l, keywords, at);
    }
    let mut types = types_of(keywords.get("type"));
    if types.is_empty() {
        types = inferred(keywords);
        if let [only] = types[..] {
            let why = "the family wants a type; what else is said fits this one alone";
            l.change(at, format!("`type` is `{only}`"), why, Effect::Narrower);
        } else {
            l.change(
                at,
                "is written as JSON text",
                "the family wants a type, and it has none",
                Effect::Same,
            );
            return Some(text(l, keywords, Text::Anything, at));
        }
    }
    if types.contains(&"number") {
        types.retain(|kind| *kind != "integer");
    }
    union::of_types(l, keywords, &types, at)
}

/// A schema of one type.
fn typed(l: &mut Lowering<'_>, keywords: &Keywords, kind: &str, at: &Place) -> Lowered {
    match kind {
        "object" => object::lower(l, keywords, at),
        "array" => object::list(l, keywords, at),
        "string" => scalar::string(l, keywords, at),
        "number" | "integer" => scalar::number(l, keywords, kind, at),
        "null" if l.family == Family::Gemini => text(l, keywords, Text::Anything, at),
        _ => Lowered {
            schema: Value::Object(described(keywords, kind)),
            note: SCALAR,
        },
    }
}

/// The types that the other keywords are about.
fn inferred(keywords: &Keywords) -> Vec<&'static str> {
    let about: [(&str, &[&str]); 4] = [
        (
            "object",
            &[
                "properties",
                "required",
                "additionalProperties",
                "patternProperties",
            ],
        ),
        (
            "array",
            &[
                "items",
                "prefixItems",
                "minItems",
                "maxItems",
                "uniqueItems",
                "contains",
            ],
        ),
        ("string", &["pattern", "format", "minLength", "maxLength"]),
        (
            "number",
            &[
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
            ],
        ),
    ];
    let has = |keys: &[&str]| keys.iter().any(|key| keywords.contains_key(*key));
    about
        .into_iter()
        .filter(|(_, keys)| has(keys))
        .map(|(kind, _)| kind)
        .collect()
}

/// The beginning of a schema of one type: what it is, and what is said about it.
fn described(keywords: &Keywords, kind: &str) -> Keywords {
    let mut out = Keywords::new();
    out.insert("type".to_owned(), json!(kind));
    describe(keywords, &mut out);
    out
}

/// Takes over what is said about a schema.
fn describe(keywords: &Keywords, out: &mut Keywords) {
    let said = keywords
        .get("description")
        .or_else(|| keywords.get("title"));
    if let Some(said) = said.filter(|said| said.as_str().is_some_and(|said| !said.is_empty())) {
        out.insert("description".to_owned(), said.clone());
    }
    let default = keywords.get("default").filter(|default| !default.is_null());
    let default = default
        .map(Value::to_string)
        .filter(|text| text.chars().count() <= TOLD_DEFAULT);
    if let Some(default) = default {
        with_words(out, &format!("Default: {default}."));
    }
}

/// A value that is sent as JSON text.
fn text(l: &mut Lowering<'_>, keywords: &Keywords, text: Text, _at: &Place) -> Lowered {
    let mut out = described(keywords, "string");
    let what = match text {
        Text::Objects => "An object, written as JSON text.",
        Text::Anything => "Any value, written as JSON text.",
    };
    with_words(&mut out, what);
    let note = l.note(Note {
        text: Some(text),
        ..Note::default()
    });
    Lowered {
        schema: Value::Object(out),
        note,
    }
}

/// A reference to a schema that refers to itself, where references are taken.
fn recursive(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Option<Lowered> {
    let alone = keywords
        .keys()
        .all(|key| key == "$ref" || ANNOTATIONS.contains(&key.as_str()));
    let reference = keywords.get("$ref").and_then(Value::as_str)?;
    let document = l.document;
    let (name, schema) = document.target(reference)?;
    if !alone || !l.family.takes_references() || !document.recursive.contains(name) {
        return None;
    }
    let lowered = |note: NoteId| Lowered {
        // "$ref cannot have keywords": the description is the definition's.
        schema: json!({ "$ref": reference }),
        note,
    };
    if let Some((_, note)) = l.defs.get(name) {
        return Some(lowered(*note));
    }
    let note = l.note(Note::default());
    l.defs.insert(name.to_owned(), (Value::Null, note));
    let place = Place {
        path: format!("/$defs/{name}"),
        depth: at.depth.min(2),
    };
    let flat = flat(document, schema);
    let definition = if flat.never {
        None
    } else {
        one(l, &flat.keywords, &place)
    };
    let definition =
        definition.unwrap_or_else(|| text(l, &Keywords::new(), Text::Anything, &place));
    l.notes[note].of = vec![definition.note];
    l.defs.insert(name.to_owned(), (definition.schema, note));
    Some(lowered(note))
}

/// Whether null may be written.
fn takes_null(schema: &Value) -> bool {
    let of_type = types_of(schema.get("type")).contains(&"null");
    let of_union = schema.get("anyOf").and_then(Value::as_array);
    let listed = schema.get("enum").and_then(Value::as_array);
    let is_listed = listed.is_none_or(|values| values.contains(&Value::Null));
    schema.get("nullable") == Some(&json!(true))
        || (of_type && is_listed)
        || of_union.is_some_and(|schemas| schemas.iter().any(takes_null))
}

/// The schema, with null.
fn or_null(schema: Value, family: Family) -> Value {
    let Value::Object(mut keywords) = schema else {
        return schema;
    };
    if family == Family::Gemini {
        keywords.insert("nullable".to_owned(), json!(true));
        return Value::Object(keywords);
    }
    if keywords.contains_key("$ref") {
        return json!({ "anyOf": [Value::Object(keywords), { "type": "null" }] });
    }
    if let Some(Value::Array(schemas)) = keywords.get_mut("anyOf") {
        schemas.push(json!({ "type": "null" }));
        return Value::Object(keywords);
    }
    let mut types: Vec<Value> = match keywords.get("type") {
        Some(Value::Array(types)) => types.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    types.push(json!("null"));
    keywords.insert("type".to_owned(), Value::Array(types));
    if let Some(Value::Array(values)) = keywords.get_mut("enum") {
        values.push(Value::Null);
    }
    Value::Object(keywords)
}

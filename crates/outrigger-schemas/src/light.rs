//! Families that take most of JSON Schema: the schema stays as it is, but for what they refuse.

use serde_json::{Map, Value, json};

use crate::change::Effect;
use crate::document::{LIST, escaped};
use crate::family::Family;
use crate::join::{Keywords, flat, types_of};
use crate::lowering::{Lowered, Lowering, Place, with_words};
use crate::plan::{KEEP, Member, Note, NoteId, Null};

/// What grammars of local servers do not know, or stumble over.
const TOO_MUCH_FOR_GRAMMARS: [&str; 14] = [
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "minContains",
    "maxContains",
    "contentSchema",
];
/// llama.cpp takes no longer repetition.
const LONGEST_REPETITION: u64 = 1999;
/// How often a reference is followed into itself where references are not taken.
const UNROLLED: usize = 2;

pub(crate) fn lower(l: &mut Lowering<'_>, schema: &Value, at: &Place) -> Lowered {
    let keywords = match schema {
        Value::Object(keywords) if l.has_room(at) => keywords,
        Value::Object(_) => {
            l.change(
                at,
                "takes anything here",
                "it lies too deep, or the schema is too large",
                Effect::Looser,
            );
            return anything();
        }
        Value::Bool(false) => {
            return Lowered {
                schema: json!({ "not": {} }),
                note: KEEP,
            };
        }
        _ => return anything(),
    };
    if l.family.takes_references() {
        return object(l, keywords, at);
    }
    written_out(l, schema, keywords, at)
}

/// A schema with its references and `allOf` written out.
fn written_out(l: &mut Lowering<'_>, schema: &Value, keywords: &Keywords, at: &Place) -> Lowered {
    let joined = flat(l.document, schema);
    let why = "not every server takes it";
    if joined.looser {
        let what = "`allOf` is joined, as far as that can be said";
        l.change(at, what, why, Effect::Looser);
    } else if keywords.contains_key("allOf") {
        l.change(at, "`allOf` is joined", why, Effect::Same);
    }
    if keywords.contains_key("$ref") {
        l.change(at, "the reference is written out", why, Effect::Same);
    }
    let recursive = joined.followed.intersection(&l.document.recursive);
    let recursive: Vec<String> = recursive.cloned().collect();
    let again =
        |name: &String| l.following.iter().filter(|known| *known == name).count() >= UNROLLED;
    if joined.never || recursive.iter().any(again) {
        let why = "the schema refers to itself, or no value fits it";
        l.change(at, "takes anything here", why, Effect::Looser);
        let mut short = Map::new();
        for key in ["type", "description"] {
            if let Some(value) = joined.keywords.get(key).filter(|_| !joined.never) {
                short.insert(key.to_owned(), value.clone());
            }
        }
        return Lowered {
            schema: Value::Object(short),
            note: KEEP,
        };
    }
    let before = l.following.len();
    l.following.extend(recursive);
    let lowered = object(l, &joined.keywords, at);
    l.following.truncate(before);
    lowered
}

fn anything() -> Lowered {
    Lowered {
        schema: json!({}),
        note: KEEP,
    }
}

/// The keywords of one schema.
pub(crate) fn object(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Lowered {
    let mut work = Work {
        out: Map::new(),
        note: Note {
            plain_strings: true,
            plain_lists: true,
            ..Note::default()
        },
        others: Vec::new(),
        rests: Vec::new(),
        renamed: false,
        opened: false,
    };
    for (key, value) in keywords {
        work.keyword(l, key, value, at);
    }
    work.finish(l, at)
}

struct Work {
    out: Keywords,
    note: Note,
    /// Notes of schemas that apply to the same value.
    others: Vec<NoteId>,
    /// Notes of schemas for properties that are not declared.
    rests: Vec<NoteId>,
    renamed: bool,
    /// Names that were allowed by their pattern would now be refused as not declared.
    opened: bool,
}

impl Work {
    fn keyword(&mut self, l: &mut Lowering<'_>, key: &str, value: &Value, at: &Place) {
        if l.family == Family::Generic && self.for_grammars(l, key, value, at) {
            return;
        }
        match (key, value) {
            ("$ref", Value::String(reference)) => {
                if let Some(note) = definition(l, reference) {
                    self.others.push(note);
                    self.out.insert(key.to_owned(), value.clone());
                }
            }
            ("properties", Value::Object(members)) => self.properties(l, members, at),
            ("required", Value::Array(names)) => {
                self.out.insert(key.to_owned(), sent_names(l, names));
            }
            ("dependentRequired", Value::Object(map)) => {
                let sent = map.iter().map(|(name, names)| {
                    let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
                    (l.aliases.sent(name).to_owned(), sent_names(l, names))
                });
                self.out
                    .insert(key.to_owned(), Value::Object(sent.collect()));
            }
            ("dependentSchemas" | "patternProperties", Value::Object(map)) => {
                let mut lowered = Map::new();
                for (name, schema) in map {
                    let below = at.below(
                        &format!("{key}/{}", escaped(name)),
                        key == "patternProperties",
                    );
                    let each = lower(l, schema, &below);
                    if key == "patternProperties" {
                        self.rests.push(each.note);
                        lowered.insert(name.clone(), each.schema);
                    } else {
                        self.others.push(each.note);
                        lowered.insert(l.aliases.sent(name).to_owned(), each.schema);
                    }
                }
                self.out.insert(key.to_owned(), Value::Object(lowered));
            }
            (list, Value::Array(schemas)) if LIST.contains(&list) => self.list(l, key, schemas, at),
            ("enum" | "const", _) => self.values(l, key, value, at),
            (_, Value::Object(_) | Value::Bool(_)) if is_schema(key) => self.one(l, key, value, at),
            _ => {
                self.out.insert(key.to_owned(), value.clone());
            }
        }
    }

    fn properties(&mut self, l: &mut Lowering<'_>, members: &Map<String, Value>, at: &Place) {
        let (mut lowered, mut noted) = (Map::new(), Vec::new());
        for (name, schema) in members {
            let below = at.below(&format!("properties/{}", escaped(name)), true);
            let mut each = lower(l, schema, &below);
            let sent = l.aliases.sent(name).to_owned();
            if sent != *name {
                self.renamed = true;
                renamed(l, &below, name, &sent, &mut each.schema);
            }
            noted.push(Member {
                sent: sent.clone(),
                original: name.clone(),
                null: Null::Never,
                note: each.note,
                required: false,
                only: Vec::new(),
            });
            lowered.insert(sent, each.schema);
        }
        self.note.members = Some(noted);
        self.out
            .insert("properties".to_owned(), Value::Object(lowered));
    }

    fn list(&mut self, l: &mut Lowering<'_>, key: &str, schemas: &[Value], at: &Place) {
        let mut lowered = Vec::new();
        for (index, schema) in schemas.iter().enumerate() {
            let each = lower(
                l,
                schema,
                &at.below(&format!("{key}/{index}"), key == "prefixItems"),
            );
            if key == "prefixItems" {
                self.note.prefix.push(each.note);
            } else {
                self.others.push(each.note);
            }
            lowered.push(each.schema);
        }
        self.out.insert(key.to_owned(), Value::Array(lowered));
    }

    fn one(&mut self, l: &mut Lowering<'_>, key: &str, value: &Value, at: &Place) {
        let within = matches!(
            key,
            "items" | "additionalProperties" | "contains" | "propertyNames"
        );
        let lowered = lower(l, value, &at.below(key, within));
        match key {
            "items" => self.note.items = lowered.note,
            "additionalProperties" | "unevaluatedProperties" => self.rests.push(lowered.note),
            "contains" | "propertyNames" | "unevaluatedItems" | "contentSchema" => {}
            _ => self.others.push(lowered.note),
        }
        // These read better, and are taken by more servers, as they were.
        let schema = if value.is_boolean() && within {
            value.clone()
        } else {
            lowered.schema
        };
        self.out.insert(key.to_owned(), schema);
    }

    fn values(&mut self, l: &mut Lowering<'_>, key: &str, value: &Value, at: &Place) {
        let values = match value {
            Value::Array(values) if key == "enum" => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let has_names = |value: &Value| value.is_object() || value.is_array();
        if values.iter().any(has_names) && !l.aliases.is_empty() {
            let what = format!("`{key}` is left out");
            l.change(
                at,
                what,
                "its values have properties that are called otherwise here",
                Effect::Looser,
            );
        } else if values.is_empty() {
            l.change(
                at,
                "the empty `enum` is left out",
                "some servers refuse it",
                Effect::Looser,
            );
        } else {
            self.out.insert(key.to_owned(), value.clone());
        }
    }

    /// What local servers stumble over; `true` when the keyword is dealt with.
    fn for_grammars(&mut self, l: &mut Lowering<'_>, key: &str, value: &Value, at: &Place) -> bool {
        let why = "servers that make a grammar of it refuse it or do not know it";
        match (key, value) {
            ("pattern", Value::String(pattern)) => {
                l.change(at, "`pattern` is said in words", why, Effect::Looser);
                with_words(&mut self.out, &format!("Pattern: `{pattern}`."));
                true
            }
            ("description", Value::String(text)) if self.out.contains_key("description") => {
                let words = self.out.shift_remove("description");
                self.out.insert(key.to_owned(), json!(text));
                with_words(
                    &mut self.out,
                    words.as_ref().and_then(Value::as_str).unwrap_or_default(),
                );
                true
            }
            ("format", Value::String(format)) if !l.family.takes_format(format) => {
                l.change(
                    at,
                    format!("the format `{format}` is left out"),
                    why,
                    Effect::Same,
                );
                true
            }
            ("maxLength" | "maxItems", _)
                if value.as_u64().is_some_and(|most| most > LONGEST_REPETITION) =>
            {
                l.change(
                    at,
                    format!("`{key}` is left out"),
                    "grammars end at 2,000 repetitions",
                    Effect::Looser,
                );
                true
            }
            ("oneOf", Value::Array(schemas)) => {
                l.change(at, "`oneOf` is `anyOf`", why, Effect::Looser);
                self.list(l, "anyOf", schemas, at);
                true
            }
            (much, _) if TOO_MUCH_FOR_GRAMMARS.contains(&much) => {
                l.change(at, format!("`{key}` is left out"), why, Effect::Looser);
                self.opened |= key == "patternProperties";
                true
            }
            _ => false,
        }
    }

    fn finish(mut self, l: &mut Lowering<'_>, at: &Place) -> Lowered {
        if self.renamed {
            let why = "properties have other names here";
            for key in ["patternProperties", "propertyNames"] {
                if self.out.shift_remove(key).is_some() {
                    l.change(at, format!("`{key}` is left out"), why, Effect::Looser);
                    self.opened = true;
                }
            }
        }
        if self.opened {
            self.out.shift_remove("additionalProperties");
        }
        let is_list = types_of(self.out.get("type")).contains(&"array");
        if l.family == Family::OpenAi && is_list && !self.out.contains_key("items") {
            l.change(
                at,
                "`items` takes anything",
                "lists without `items` are refused",
                Effect::Same,
            );
            self.out.insert("items".to_owned(), json!({}));
        }
        if !self.rests.is_empty() {
            self.note.members.get_or_insert_default();
        }
        self.note.rest = l.gathered(self.rests, "");
        let own = l.note(self.note);
        let mut all = vec![own];
        all.extend(self.others);
        Lowered {
            schema: Value::Object(self.out),
            note: l.gathered(all, &at.path),
        }
    }
}

fn is_schema(key: &str) -> bool {
    crate::document::ONE.contains(&key)
}

fn sent_names(l: &Lowering<'_>, names: &[Value]) -> Value {
    let sent = |name: &Value| {
        name.as_str()
            .map_or_else(|| name.clone(), |name| json!(l.aliases.sent(name)))
    };
    names.iter().map(sent).collect()
}

/// Says what a renamed property is called on the server.
pub(crate) fn renamed(
    l: &mut Lowering<'_>,
    at: &Place,
    name: &str,
    sent: &str,
    schema: &mut Value,
) {
    let what = format!("`{name}` is called `{sent}`, and renamed again in calls");
    l.change(
        at,
        what,
        "the family's pattern for names refuses it",
        Effect::Same,
    );
    if let Value::Object(keywords) = schema {
        with_words(keywords, &format!("(`{name}`)"));
    }
}

/// The note of a definition, which is lowered when it is first used.
fn definition(l: &mut Lowering<'_>, reference: &str) -> Option<NoteId> {
    let document = l.document;
    let (name, schema) = document.target(reference)?;
    if let Some((_, note)) = l.defs.get(name) {
        return Some(*note);
    }
    let note = l.note(Note::default());
    l.defs.insert(name.to_owned(), (Value::Null, note));
    let at = Place {
        path: format!("/$defs/{name}"),
        depth: 1,
    };
    let lowered = lower(l, schema, &at);
    l.notes[note].of = vec![lowered.note];
    l.defs.insert(name.to_owned(), (lowered.schema, note));
    Some(note)
}

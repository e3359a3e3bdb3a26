//! Objects, maps and lists.

use serde_json::{Map, Value, json};

use super::{described, lower as lower_one, or_null, takes_null, text};
use crate::SetAside;
use crate::change::Effect;
use crate::document::escaped;
use crate::family::Family;
use crate::join::Keywords;
use crate::light::renamed;
use crate::lowering::{Lowered, Lowering, Place, with_words};
use crate::plan::{KEEP, Member, Note, Null, SCALAR, Text};

/// The arguments: always an object with properties, or with none.
pub(super) fn root(l: &mut Lowering<'_>, keywords: &Keywords) -> Result<Lowered, SetAside> {
    let at = Place::root();
    if declares(keywords) {
        return Ok(fixed(l, keywords, &at));
    }
    let open = keywords.get("additionalProperties");
    let named =
        keywords.get("patternProperties").is_some() || keywords.get("minProperties").is_some();
    if named || open.is_some_and(|open| *open != Value::Bool(false)) {
        return Err(SetAside(format!(
            "its arguments may have any name, and {} takes only declared ones",
            l.family
        )));
    }
    if open.is_none() {
        l.change(
            &at,
            "takes no arguments",
            "none is declared",
            Effect::Narrower,
        );
    }
    let mut out = described(keywords, "object");
    if l.family == Family::OpenAiStrict {
        close(&mut out, Map::new());
    }
    Ok(Lowered {
        schema: Value::Object(out),
        note: KEEP,
    })
}

pub(super) fn lower(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Lowered {
    if declares(keywords) {
        return fixed(l, keywords, at);
    }
    let more = keywords.get("additionalProperties");
    let patterns = keywords.get("patternProperties").and_then(Value::as_object);
    let is_empty = more == Some(&Value::Bool(false)) && patterns.is_none_or(Map::is_empty);
    if is_empty && l.family == Family::OpenAiStrict {
        let mut out = described(keywords, "object");
        close(&mut out, Map::new());
        return Lowered {
            schema: Value::Object(out),
            note: SCALAR,
        };
    }
    let values = match (patterns.filter(|patterns| !patterns.is_empty()), more) {
        (None, Some(values @ Value::Object(schema))) if !schema.is_empty() => {
            Some((values, "additionalProperties".to_owned()))
        }
        (Some(patterns), more) if patterns.len() == 1 => {
            patterns.iter().next().and_then(|(pattern, values)| {
                let place = format!("patternProperties/{}", escaped(pattern));
                (more == Some(&Value::Bool(false)) && values.is_object()).then_some((values, place))
            })
        }
        _ => None,
    };
    let Some((values, place)) = values else {
        l.change(
            at,
            "an object is written as JSON text",
            "the family takes only declared properties",
            Effect::Looser,
        );
        return text(l, keywords, Text::Objects, at);
    };
    let each = lower_one(l, values, &at.below(&place, true));
    match each {
        Some(each) => pairs(l, keywords, each, at),
        None => text(l, keywords, Text::Objects, at),
    }
}

/// A map as a list of `{key, value}`.
fn pairs(l: &mut Lowering<'_>, keywords: &Keywords, each: Lowered, at: &Place) -> Lowered {
    l.change(
        at,
        "a map is written as a list of `{key, value}`",
        "the family takes only declared properties",
        Effect::Looser,
    );
    let mut pair = Keywords::new();
    pair.insert("type".to_owned(), json!("object"));
    let members = [
        ("key".to_owned(), json!({ "type": "string" })),
        ("value".to_owned(), each.schema),
    ];
    let members: Map<String, Value> = members.into_iter().collect();
    if l.family == Family::OpenAiStrict {
        close(&mut pair, members);
    } else {
        pair.insert("properties".to_owned(), Value::Object(members));
        pair.insert("required".to_owned(), json!(["key", "value"]));
    }
    let mut out = described(keywords, "array");
    with_words(
        &mut out,
        "A map, written as a list of keys and values; each key once.",
    );
    out.insert("items".to_owned(), Value::Object(pair));
    let note = l.note(Note {
        pairs: Some(each.note),
        ..Note::default()
    });
    Lowered {
        schema: Value::Object(out),
        note,
    }
}

/// Whether properties are named, declared or only required.
fn declares(keywords: &Keywords) -> bool {
    let properties = keywords.get("properties").and_then(Value::as_object);
    let required = keywords.get("required").and_then(Value::as_array);
    properties.is_some_and(|all| all.values().any(|schema| *schema != Value::Bool(false)))
        || required.is_some_and(|names| !names.is_empty())
}

/// Adds the properties of an object that has no others, all of them required.
fn close(out: &mut Keywords, members: Map<String, Value>) {
    let names: Vec<&String> = members.keys().collect();
    let required = json!(names);
    out.insert("properties".to_owned(), Value::Object(members));
    out.insert("required".to_owned(), required);
    out.insert("additionalProperties".to_owned(), Value::Bool(false));
}

/// An object with declared properties.
fn fixed(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Lowered {
    let strict = l.family == Family::OpenAiStrict;
    let mut out = described(keywords, "object");
    let mut fixed = Fixed::default();
    let required = keywords.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let required: Vec<&str> = required.collect();
    let empty = Map::new();
    let declared = keywords
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for (name, schema) in declared {
        fixed.property(l, (name, schema), required.contains(&name.as_str()), at);
    }
    let closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
    for name in required
        .iter()
        .filter(|name| !declared.contains_key(**name) && !closed)
    {
        fixed.property(l, (name, &json!({})), true, at);
    }
    if strict {
        fixed.tell(l, at);
        if !closed {
            l.change(
                at,
                "only declared properties are taken",
                "the family has no others",
                Effect::Narrower,
            );
        }
        close(&mut out, fixed.schemas);
    } else {
        if closed || keywords.contains_key("patternProperties") {
            l.change(
                at,
                "what holds for other properties is left out",
                "the family does not know it",
                Effect::Looser,
            );
        }
        let mut names: Vec<&str> = required.iter().map(|name| l.aliases.sent(name)).collect();
        names.retain(|name| fixed.schemas.contains_key(*name));
        if !names.is_empty() {
            out.insert("required".to_owned(), json!(names));
        }
        out.insert("properties".to_owned(), Value::Object(fixed.schemas));
    }
    let note = l.note(Note {
        members: Some(fixed.members),
        ..Note::default()
    });
    Lowered {
        schema: Value::Object(out),
        note,
    }
}

#[derive(Default)]
struct Fixed {
    schemas: Map<String, Value>,
    members: Vec<Member>,
    /// Properties for which null stands for leaving them out.
    absent: Vec<String>,
    /// Properties that could be null or left out, and now are null.
    null: Vec<String>,
}

impl Fixed {
    fn property(&mut self, l: &mut Lowering<'_>, of: (&str, &Value), required: bool, at: &Place) {
        let (name, schema) = of;
        let below = at.below(&format!("properties/{}", escaped(name)), true);
        let Some(mut lowered) = lower_one(l, schema, &below) else {
            l.change(&below, "is left out", "no value fits it", Effect::Looser);
            return;
        };
        let sent = l.aliases.sent(name).to_owned();
        if sent != name {
            renamed(l, &below, name, &sent, &mut lowered.schema);
        }
        let is_reference = lowered.schema.get("$ref").and_then(Value::as_str);
        let target =
            is_reference.and_then(|reference| l.defs.get(reference.strip_prefix("#/$defs/")?));
        let nullable = takes_null(target.map_or(&lowered.schema, |(schema, _)| schema));
        let only = match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => vec![value.clone()],
            (None, Some(Value::Array(values))) => values.clone(),
            _ => Vec::new(),
        };
        let null = if nullable {
            if !required {
                self.null.push(name.to_owned());
            }
            Null::Itself
        } else if required || l.family != Family::OpenAiStrict {
            Null::Never
        } else {
            lowered.schema = or_null(lowered.schema, l.family);
            self.absent.push(name.to_owned());
            Null::Absent
        };
        self.members.push(Member {
            sent: sent.clone(),
            original: name.to_owned(),
            null,
            note: lowered.note,
            required,
            only,
        });
        self.schemas.insert(sent, lowered.schema);
    }

    /// Says once for an object what was done to several properties.
    fn tell(&self, l: &mut Lowering<'_>, at: &Place) {
        let why = "the family wants every property";
        let listed = |names: &[String]| {
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if !self.absent.is_empty() {
            let what = format!("null stands for leaving out: {}", listed(&self.absent));
            l.change(at, what, why, Effect::Same);
        }
        if !self.null.is_empty() {
            let what = format!("null instead of leaving out: {}", listed(&self.null));
            l.change(at, what, why, Effect::Narrower);
        }
    }
}

/// The schema that all items of a list fit, and where it is.
fn items_of(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> (Value, Place) {
    let items = keywords.get("items");
    let Some(Value::Array(prefix)) = keywords.get("prefixItems") else {
        let items = items.cloned().unwrap_or(Value::Bool(true));
        return (items, at.below("items", true));
    };
    let effect = if items == Some(&Value::Bool(false)) {
        Effect::Looser
    } else {
        Effect::Narrower
    };
    let what = "each item of the tuple may be any of its items";
    l.change(at, what, "the family has no tuples", effect);
    let mut each = prefix.clone();
    each.extend(items.filter(|items| items.is_object()).cloned());
    (json!({ "anyOf": each }), at.below("prefixItems", true))
}

pub(super) fn list(l: &mut Lowering<'_>, keywords: &Keywords, at: &Place) -> Lowered {
    let mut out = described(keywords, "array");
    let (items, place) = items_of(l, keywords, at);
    let lowered = match lower_one(l, &items, &place) {
        Some(lowered) => lowered,
        None => text(l, &Keywords::new(), Text::Anything, &place),
    };
    if items == Value::Bool(true) || items == json!({}) {
        l.change(
            &place,
            "each item is written as JSON text",
            "the family wants a type",
            Effect::Same,
        );
    }
    out.insert("items".to_owned(), lowered.schema);
    for key in ["minItems", "maxItems"] {
        if let Some(value) = keywords.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    for key in ["contains", "uniqueItems", "unevaluatedItems"] {
        if keywords
            .get(key)
            .is_some_and(|value| *value != Value::Bool(false))
        {
            l.change(
                at,
                format!("`{key}` is left out"),
                "the family does not know it",
                Effect::Looser,
            );
        }
    }
    let note = l.note(Note {
        items: lowered.note,
        plain_lists: true,
        ..Note::default()
    });
    Lowered {
        schema: Value::Object(out),
        note,
    }
}

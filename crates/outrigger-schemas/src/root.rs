//! The arguments as a whole: always one object, without alternatives at the top, whatever the family.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::change::Effect;
use crate::family::Family;
use crate::join::{Joined, Keywords, flat, types_of};
use crate::lowering::{Lowered, Lowering, Place, with_words};
use crate::{SetAside, light, narrow};

/// How many alternatives are put in words.
const TOLD: usize = 6;

pub(crate) fn lower(lowering: &mut Lowering<'_>) -> Result<Lowered, SetAside> {
    let at = Place::root();
    let document = lowering.document;
    let Joined {
        mut keywords,
        looser,
        never,
        followed: _,
    } = flat(document, &document.root);
    if never || !takes_objects(&keywords) {
        return Err(SetAside(
            "its schema takes no object, and arguments are always one".to_owned(),
        ));
    }
    if looser || document.root.get("allOf").is_some() {
        let effect = if looser { Effect::Looser } else { Effect::Same };
        lowering.change(
            &at,
            "`allOf` is joined into one object",
            "no family takes it at the top",
            effect,
        );
    }
    if keywords.get("type") != Some(&json!("object")) {
        keywords.insert("type".to_owned(), json!("object"));
        lowering.change(
            &at,
            "`type` is `object`",
            "every family asks for it at the top",
            Effect::Same,
        );
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = keywords.shift_remove(key) {
            let branches: Vec<Joined> = branches
                .iter()
                .map(|branch| flat(document, branch))
                .collect();
            let possible: Vec<Keywords> = branches
                .into_iter()
                .filter(|branch| !branch.never && takes_objects(&branch.keywords))
                .map(|branch| branch.keywords)
                .collect();
            merge(lowering, &mut keywords, &possible, key);
        }
    }
    if lowering.family.takes_json_schema() {
        without_refused(lowering, &mut keywords);
        let wants = matches!(lowering.family, Family::OpenAi | Family::Generic);
        if wants && !keywords.contains_key("properties") {
            // "object schema missing properties"; templates of local servers read it unasked.
            let why = "a schema without `properties` is refused";
            lowering.change(&at, "`properties` is empty", why, Effect::Same);
            keywords.insert("properties".to_owned(), json!({}));
        }
        Ok(light::object(lowering, &keywords, &at))
    } else {
        narrow::root(lowering, &keywords)
    }
}

fn takes_objects(keywords: &Keywords) -> bool {
    let types = types_of(keywords.get("type"));
    types.is_empty() || types.contains(&"object")
}

/// Leaves out what is refused at the top alone.
fn without_refused(lowering: &mut Lowering<'_>, keywords: &mut Keywords) {
    let refused = match lowering.family {
        // "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
        Family::OpenAi | Family::Generic => &["not", "enum", "const", "if", "then", "else"][..],
        _ => &["enum", "const"][..],
    };
    for key in refused {
        if keywords.shift_remove(*key).is_some() {
            let what = format!("`{key}` is left out");
            lowering.change(
                &Place::root(),
                what,
                "it is refused at the top",
                Effect::Looser,
            );
        }
    }
}

/// Alternatives of the whole as one object that has the properties of all of them.
fn merge(lowering: &mut Lowering<'_>, whole: &mut Keywords, branches: &[Keywords], key: &str) {
    let at = Place::root();
    let narrower = merge_properties(whole, branches);
    let needs: Vec<BTreeSet<String>> = branches.iter().map(names).collect();
    let by_all = needs.iter().skip(1);
    let by_all = by_all.fold(needs.first().cloned().unwrap_or_default(), |all, more| {
        all.intersection(more).cloned().collect()
    });
    let all: Vec<String> = names(whole).union(&by_all).cloned().collect();
    if !all.is_empty() {
        whole.insert("required".to_owned(), json!(all));
    }
    let mut sets: Vec<String> = Vec::new();
    for names in &needs {
        let further = names.iter().filter(|name| !all.contains(name));
        let further = further.map(|name| format!("`{}`", lowering.aliases.sent(name)));
        let set = further.collect::<Vec<_>>().join(" and ");
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    if sets.len() > 1 && sets.len() <= TOLD && !sets.contains(&String::new()) {
        with_words(whole, &format!("Give {}.", sets.join(", or ")));
    }
    let why = "no family takes alternatives at the top";
    let what = format!("the alternatives of `{key}` are one object with the properties of all");
    lowering.change(&at, what, why, Effect::Looser);
    if narrower {
        let what =
            format!("a property that one alternative of `{key}` declares means the same in all");
        lowering.change(&at, what, why, Effect::Narrower);
    }
}

/// The properties of all; whether one that a branch leaves open now means what another says of it.
fn merge_properties(whole: &mut Keywords, branches: &[Keywords]) -> bool {
    let (mut own, mut narrower) = (members(whole), false);
    if whole.get("additionalProperties") == Some(&Value::Bool(false)) {
        return false;
    }
    let mut found: Map<String, Value> = Map::new();
    for branch in branches {
        let new = members(branch)
            .into_iter()
            .filter(|(name, _)| !own.contains_key(name));
        for (name, schema) in new {
            let list = found.entry(name).or_insert_with(|| json!([]));
            if let Value::Array(list) = list
                && !list.contains(&schema)
            {
                list.push(schema);
            }
        }
    }
    for (name, list) in found {
        let lacks = |branch: &Keywords| !members(branch).contains_key(&name) && !is_closed(branch);
        narrower |= branches.iter().any(lacks);
        let schema = match list {
            Value::Array(mut list) if list.len() == 1 => list.remove(0),
            list => json!({ "anyOf": list }),
        };
        own.insert(name, schema);
    }
    if !branches.is_empty() && branches.iter().all(is_closed) {
        whole.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    whole.insert("properties".to_owned(), Value::Object(own));
    narrower
}

fn is_closed(keywords: &Keywords) -> bool {
    let closes = |key: &str| keywords.get(key) == Some(&Value::Bool(false));
    closes("additionalProperties") || closes("unevaluatedProperties")
}

fn members(keywords: &Keywords) -> Map<String, Value> {
    keywords
        .get("properties")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

fn names(keywords: &Keywords) -> BTreeSet<String> {
    let required = keywords.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

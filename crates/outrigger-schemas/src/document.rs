//! A schema of any dialect, read into one: 2020-12 without addresses, where each reference is
//! `#/$defs/NAME` and each name has its schema in a table.
//!
//! Meaning stays as it is but for what cannot be meant: a reference that leads nowhere, or a keyword
//! of the wrong type. What is left out is noted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::change::{Change, Effect};

/// Keywords whose value is one schema.
pub(crate) const ONE: [&str; 12] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
    "additionalItems",
];
/// Keywords whose value is a list of schemas.
pub(crate) const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
pub(crate) const MAP: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Keywords that say where a schema is, not what it takes.
const ADDRESSES: [&str; 9] = [
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$comment",
    "$vocabulary",
    "nullable",
];
const TYPES: [&str; 7] = [
    "string", "number", "integer", "boolean", "object", "array", "null",
];
/// Keywords that only describe.
pub(crate) const ANNOTATIONS: [&str; 7] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];
/// How deep a schema is read; what lies deeper takes anything.
const DEEPEST: usize = 96;

/// A schema in one dialect.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Value,
    /// The schemas that references name.
    pub(crate) defs: BTreeMap<String, Value>,
    /// Names whose schema leads back to itself.
    pub(crate) recursive: BTreeSet<String>,
    pub(crate) changes: Vec<Change>,
}

impl Document {
    pub(crate) fn read(schema: &Value) -> Self {
        let mut reader = Reader {
            source: schema,
            old: is_old(schema),
            names: BTreeMap::new(),
            wanted: Vec::new(),
            changes: Vec::new(),
        };
        let root = reader.schema(schema, "", 0);
        let mut defs = BTreeMap::new();
        while let Some((name, pointer)) = reader.wanted.pop() {
            let target = schema
                .pointer(&pointer)
                .cloned()
                .unwrap_or(Value::Bool(true));
            let read = reader.schema(&target, &pointer, 0);
            defs.insert(name, read);
        }
        let recursive = recursive(&defs);
        Self {
            root,
            defs,
            recursive,
            changes: reader.changes,
        }
    }

    /// The schema that a reference of this document names.
    pub(crate) fn target(&self, reference: &str) -> Option<(&str, &Value)> {
        let name = reference.strip_prefix("#/$defs/")?;
        let (name, schema) = self.defs.get_key_value(name)?;
        Some((name, schema))
    }
}

/// Whether the dialect is draft-07 or older, where a reference stands alone.
fn is_old(schema: &Value) -> bool {
    let named = schema.get("$schema").and_then(Value::as_str);
    named.is_some_and(|named| {
        ["draft-03/", "draft-04/", "draft-06/", "draft-07/"]
            .iter()
            .any(|old| named.contains(old))
    })
}

struct Reader<'s> {
    source: &'s Value,
    old: bool,
    /// Names given to the targets of references, by pointer.
    names: BTreeMap<String, String>,
    wanted: Vec<(String, String)>,
    changes: Vec<Change>,
}

impl Reader<'_> {
    fn note(&mut self, path: &str, what: impl Into<String>, why: &str, effect: Effect) {
        self.changes.push(Change {
            path: path.to_owned(),
            what: what.into(),
            why: why.to_owned(),
            effect,
        });
    }

    fn schema(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        let keywords = match schema {
            Value::Bool(_) => return schema.clone(),
            Value::Object(keywords) if depth < DEEPEST => keywords,
            _ => {
                self.note(
                    path,
                    "takes anything here",
                    "it is no schema, or lies too deep",
                    Effect::Looser,
                );
                return Value::Bool(true);
            }
        };
        let mut out = Map::new();
        for (key, value) in keywords {
            if value.is_null() && !matches!(key.as_str(), "const" | "default") {
                continue;
            }
            self.keyword(key, value, &mut out, (path, depth));
        }
        exclusive(&mut out, "exclusiveMinimum", "minimum");
        exclusive(&mut out, "exclusiveMaximum", "maximum");
        if let Some(Value::Array(_)) = keywords.get("items") {
            if let Some(rest) = out.shift_remove("additionalItems") {
                out.insert("items".to_owned(), rest);
            }
        } else {
            out.shift_remove("additionalItems");
        }
        if self.old && out.contains_key("$ref") {
            out.retain(|key, _| key == "$ref" || ANNOTATIONS.contains(&key.as_str()));
        }
        Value::Object(out)
    }

    fn keyword(
        &mut self,
        key: &str,
        value: &Value,
        out: &mut Map<String, Value>,
        at: (&str, usize),
    ) {
        let path = at.0;
        match (key, value) {
            ("$defs" | "definitions", _) => {}
            ("nullable", Value::Bool(true)) => self.note(
                path,
                "`nullable` is left out",
                "it means nothing in JSON Schema, and the server's own schema refuses null",
                Effect::Same,
            ),
            (address, _) if ADDRESSES.contains(&address) => {}
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                match self.name_of(reference) {
                    Some(name) => {
                        out.insert("$ref".to_owned(), json!(format!("#/$defs/{name}")));
                    }
                    None => self.note(
                        path,
                        format!("the reference `{reference}` is left out"),
                        "it leads out of the schema",
                        Effect::Looser,
                    ),
                }
            }
            ("type", _) => self.types(value, out, path),
            ("required" | "enum", Value::Array(_)) => {
                out.insert(key.to_owned(), value.clone());
            }
            _ if self.schemas(key, value, out, at) => {}
            (known, _) if has_schemas(known) || matches!(known, "required" | "enum") => {
                let what = format!("`{key}` is left out");
                self.note(path, what, "its value is of the wrong type", Effect::Looser);
            }
            _ => {
                out.insert(key.to_owned(), value.clone());
            }
        }
    }

    /// Keywords whose value holds schemas; `false` for others, and for values of another shape.
    fn schemas(
        &mut self,
        key: &str,
        value: &Value,
        out: &mut Map<String, Value>,
        at: (&str, usize),
    ) -> bool {
        let (path, depth) = at;
        let below = |name: &str| format!("{path}/{}", escaped(name));
        match (key, value) {
            ("items", Value::Array(list)) => {
                let read = list.iter().enumerate();
                let read = read
                    .map(|(at, each)| self.schema(each, &below(&format!("items/{at}")), depth + 1));
                out.insert("prefixItems".to_owned(), read.collect());
            }
            ("dependencies", Value::Object(map)) => self.dependencies(map, out, at),
            (one, Value::Object(_) | Value::Bool(_)) if ONE.contains(&one) => {
                let read = self.schema(value, &below(key), depth + 1);
                out.insert(key.to_owned(), read);
            }
            (list, Value::Array(items)) if LIST.contains(&list) => {
                let read = items.iter().enumerate();
                let read: Vec<Value> = read
                    .map(|(at, each)| self.schema(each, &format!("{}/{at}", below(key)), depth + 1))
                    .collect();
                if !read.is_empty() {
                    out.insert(key.to_owned(), Value::Array(read));
                }
            }
            (map, Value::Object(members)) if MAP.contains(&map) => {
                let read = members.iter().map(|(name, each)| {
                    let path = format!("{}/{}", below(key), escaped(name));
                    (name.clone(), self.schema(each, &path, depth + 1))
                });
                out.insert(key.to_owned(), Value::Object(read.collect()));
            }
            _ => return false,
        }
        true
    }

    /// `type`, with only types that there are.
    fn types(&mut self, value: &Value, out: &mut Map<String, Value>, path: &str) {
        let named: Vec<&str> = match value {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if named.is_empty() || named.iter().any(|name| !TYPES.contains(name)) {
            let what = format!("the type {value} is left out");
            self.note(path, what, "JSON Schema has no such type", Effect::Looser);
            return;
        }
        let mut once: Vec<&str> = Vec::new();
        for name in named {
            if !once.contains(&name) {
                once.push(name);
            }
        }
        let value = match once[..] {
            [only] => json!(only),
            _ => json!(once),
        };
        out.insert("type".to_owned(), value);
    }

    /// Draft-07 and older: one keyword for what are two today.
    fn dependencies(
        &mut self,
        map: &Map<String, Value>,
        out: &mut Map<String, Value>,
        at: (&str, usize),
    ) {
        let (mut names, mut schemas) = (Map::new(), Map::new());
        for (name, value) in map {
            if value.is_array() {
                names.insert(name.clone(), value.clone());
            } else {
                let path = format!("{}/dependencies/{}", at.0, escaped(name));
                schemas.insert(name.clone(), self.schema(value, &path, at.1 + 1));
            }
        }
        for (key, map) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !map.is_empty() {
                out.insert(key.to_owned(), Value::Object(map));
            }
        }
    }

    /// The name that the target of a reference has in the table.
    fn name_of(&mut self, reference: &str) -> Option<String> {
        let pointer = self.pointer_of(reference)?;
        if let Some(name) = self.names.get(&pointer) {
            return Some(name.clone());
        }
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let fits = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        };
        let wanted: String = match last {
            "" => "Self".to_owned(),
            last => last.chars().map(fits).take(40).collect(),
        };
        let taken = |name: &String| self.names.values().any(|known| known == name);
        let numbered = (2..).map(|number| format!("{wanted}_{number}"));
        let name = std::iter::once(wanted.clone())
            .chain(numbered)
            .find(|name| !taken(name))?;
        self.names.insert(pointer.clone(), name.clone());
        self.wanted.push((name.clone(), pointer));
        Some(name)
    }

    fn pointer_of(&self, reference: &str) -> Option<String> {
        let own = ["$id", "id"]
            .iter()
            .find_map(|key| self.source.get(key)?.as_str());
        let within = match reference.split_once('#') {
            Some(("", fragment)) => fragment,
            Some((address, fragment))
                if own.is_some_and(|own| own.trim_end_matches('#') == address) =>
            {
                fragment
            }
            None if own == Some(reference) => "",
            _ => return pointer_to_id(self.source, reference, "", 0),
        };
        let decoded = percent_decoded(within);
        if decoded.is_empty() || decoded.starts_with('/') {
            return self.source.pointer(&decoded).is_some().then_some(decoded);
        }
        pointer_to_anchor(self.source, &decoded, "", 0)
    }
}

fn has_schemas(key: &str) -> bool {
    ONE.contains(&key) || LIST.contains(&key) || MAP.contains(&key) || key == "dependencies"
}

/// Where a schema with this address is.
fn pointer_to_id(schema: &Value, address: &str, path: &str, depth: usize) -> Option<String> {
    find(schema, path, depth, &|keywords| {
        ["$id", "id"]
            .iter()
            .any(|key| keywords.get(*key).and_then(Value::as_str) == Some(address))
    })
}

/// Where a schema with this anchor is.
fn pointer_to_anchor(schema: &Value, anchor: &str, path: &str, depth: usize) -> Option<String> {
    let hashed = format!("#{anchor}");
    find(schema, path, depth, &|keywords| {
        let says =
            |key: &str, value: &str| keywords.get(key).and_then(Value::as_str) == Some(value);
        says("$anchor", anchor)
            || says("$dynamicAnchor", anchor)
            || says("$id", &hashed)
            || says("id", &hashed)
    })
}

fn find(
    value: &Value,
    path: &str,
    depth: usize,
    is: &dyn Fn(&Map<String, Value>) -> bool,
) -> Option<String> {
    if depth > DEEPEST {
        return None;
    }
    match value {
        Value::Object(keywords) if is(keywords) => Some(path.to_owned()),
        Value::Object(keywords) => keywords.iter().find_map(|(key, value)| {
            find(value, &format!("{path}/{}", escaped(key)), depth + 1, is)
        }),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, value)| find(value, &format!("{path}/{at}"), depth + 1, is))
        }
        _ => None,
    }
}

/// A name as one step of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Draft-04: `exclusiveMinimum: true` says how `minimum` is meant.
fn exclusive(keywords: &mut Map<String, Value>, exclusive: &str, bound: &str) {
    let Some(Value::Bool(excluded)) = keywords.get(exclusive) else {
        return;
    };
    let excluded = *excluded;
    keywords.shift_remove(exclusive);
    if excluded && let Some(value) = keywords.shift_remove(bound) {
        keywords.insert(exclusive.to_owned(), value);
    }
}

/// The names that a schema refers to, at any depth.
pub(crate) fn references(schema: &Value, found: &mut BTreeSet<String>) {
    let Value::Object(keywords) = schema else {
        return;
    };
    if let Some(Value::String(reference)) = keywords.get("$ref")
        && let Some(name) = reference.strip_prefix("#/$defs/")
    {
        found.insert(name.to_owned());
    }
    for (key, value) in keywords {
        match value {
            Value::Object(members) if MAP.contains(&key.as_str()) => {
                members
                    .values()
                    .for_each(|member| references(member, found));
            }
            Value::Array(items) if LIST.contains(&key.as_str()) => {
                for item in items {
                    references(item, found);
                }
            }
            one if ONE.contains(&key.as_str()) => references(one, found),
            _ => {}
        }
    }
}

fn recursive(defs: &BTreeMap<String, Value>) -> BTreeSet<String> {
    let mut direct: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, schema) in defs {
        let mut found = BTreeSet::new();
        references(schema, &mut found);
        direct.insert(name, found);
    }
    let leads_back = |name: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut next: Vec<&String> = direct[name.as_str()].iter().collect();
        while let Some(reached) = next.pop() {
            if reached == name {
                return true;
            }
            if seen.insert(reached) {
                next.extend(direct.get(reached.as_str()).into_iter().flatten());
            }
        }
        false
    };
    defs.keys()
        .filter(|name| leads_back(name))
        .cloned()
        .collect()
}

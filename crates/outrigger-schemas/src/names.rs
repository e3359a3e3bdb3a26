//! Names of properties that a family refuses, and what they are called instead.
//!
//! One name is called the same everywhere in a tool, and nothing else in it is called so; that makes
//! the way back simple.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::document::{Document, LIST, MAP, ONE};
use crate::family::Family;

/// The longest name that a family with a rule takes.
const LONGEST: usize = 64;

/// What properties are called instead.
#[derive(Debug, Default)]
pub(crate) struct Aliases(BTreeMap<String, String>);

impl Aliases {
    pub(crate) fn of(document: &Document, family: Family) -> Self {
        let mut names = BTreeSet::new();
        collect(&document.root, &mut names);
        document
            .defs
            .values()
            .for_each(|schema| collect(schema, &mut names));
        let mut taken: BTreeSet<String> = names
            .iter()
            .copied()
            .filter(|name| family.takes_name(name))
            .map(str::to_owned)
            .collect();
        let mut aliases = BTreeMap::new();
        for name in names.into_iter().filter(|name| !family.takes_name(name)) {
            let plain = plain(name, family);
            let numbered = (2..).map(|number| {
                let end = format!("_{number}");
                let begin: String = plain.chars().take(LONGEST - end.len()).collect();
                begin + &end
            });
            let free = std::iter::once(plain.clone())
                .chain(numbered)
                .find(|alias| !taken.contains(alias));
            let alias = free.unwrap_or(plain);
            taken.insert(alias.clone());
            aliases.insert(name.to_owned(), alias);
        }
        Self(aliases)
    }

    /// Whether every name is taken as it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the property is called.
    pub(crate) fn sent<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

/// All names of declared properties.
fn collect<'s>(schema: &'s Value, names: &mut BTreeSet<&'s str>) {
    let Value::Object(keywords) = schema else {
        return;
    };
    for (key, value) in keywords {
        match value {
            Value::Object(members) if MAP.contains(&key.as_str()) => {
                if key == "properties" {
                    names.extend(members.keys().map(String::as_str));
                }
                members.values().for_each(|member| collect(member, names));
            }
            Value::Array(items) if LIST.contains(&key.as_str()) => {
                for item in items {
                    collect(item, names);
                }
            }
            one if ONE.contains(&key.as_str()) => collect(one, names),
            _ => {}
        }
    }
}

/// The name in characters that every family takes.
fn plain(name: &str, family: Family) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '<' => out.push_str("_lt"),
            '>' => out.push_str("_gt"),
            '=' => out.push_str("_eq"),
            _ if c.is_ascii_alphanumeric() => out.push(c),
            '-' | '.' if family.takes_name(&c.to_string()) => out.push(c),
            _ if out.ends_with('_') => {}
            _ => out.push('_'),
        }
    }
    let mut plain: String = out.trim_matches('_').chars().take(LONGEST).collect();
    if plain.is_empty() {
        "property".clone_into(&mut plain);
    }
    if !family.takes_name(&plain) {
        plain.insert_str(0, "p_");
        plain.truncate(LONGEST);
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_two_names_become_one() {
        let schema = json!({"properties": {
            "a b": true, "a_b": true, "a/b": true, "DateSent<": true, "DateSent>": true,
            "{{userId}}": true, "": true, "9": true, "é": true, "x".repeat(70): true, "y".repeat(64): true,
        }});
        let document = Document::read(&schema);
        for family in [Family::Anthropic, Family::Gemini] {
            let aliases = Aliases::of(&document, family);
            let names = schema["properties"].as_object().unwrap().keys();
            let sent: BTreeSet<&str> = names.clone().map(|name| aliases.sent(name)).collect();
            assert_eq!(sent.len(), names.len(), "{sent:?}");
            assert!(sent.iter().all(|name| family.takes_name(name)), "{sent:?}");
            assert_eq!(aliases.sent("DateSent<"), "DateSent_lt");
            assert_eq!(aliases.sent("{{userId}}"), "userId");
            assert_eq!(aliases.sent("a_b"), "a_b");
        }
    }
}

//! What holds for all catalogs, queries and permissions.

use std::collections::BTreeMap;

use outrigger_search::{Document, Index, Parameters, View};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

/// Few words, so that queries and catalogs meet.
const WORDS: [&str; 12] = [
    "read", "file", "write", "get", "time", "Weather", "天气", "预报", "mail", "send", "2", "naïve",
];

fn text(most: usize) -> impl Strategy<Value = String> {
    vec(select(&WORDS[..]), 0..=most).prop_map(|words| words.join(" "))
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => vec(select(&WORDS[..]), 1..4).prop_map(|words| words.join("_")),
        1 => "\\PC{1,12}",
    ]
}

fn document() -> impl Strategy<Value = (String, String, String)> {
    (text(6), text(3), text(2))
}

/// Servers with their documents by name.
type Catalog = BTreeMap<String, BTreeMap<String, (String, String, String)>>;

fn catalog() -> impl Strategy<Value = Catalog> {
    btree_map("[a-d]", btree_map(name(), document(), 0..6), 0..4)
}

fn documents(server: &str, tools: &BTreeMap<String, (String, String, String)>) -> Vec<Document> {
    tools
        .iter()
        .map(|(name, (description, parameters, values))| Document {
            server: server.to_owned(),
            name: name.clone(),
            title: String::new(),
            description: description.clone(),
            parameters: Parameters {
                names: parameters.split(' ').map(str::to_owned).collect(),
                descriptions: vec![parameters.clone()],
                values: values.split(' ').map(str::to_owned).collect(),
            },
        })
        .collect()
}

fn built(catalog: &Catalog) -> Index {
    let mut index = Index::default();
    for (server, tools) in catalog {
        index.replace(server, documents(server, tools));
    }
    index
}

/// Everything that an answer says, scores by their bits.
fn answers(view: &View, query: &str) -> Vec<(String, String, u32)> {
    let hits = view.search(query, 20).into_iter();
    let suggested = view.suggest(query, 20);
    hits.chain(suggested)
        .map(|hit| {
            (
                hit.server.to_owned(),
                hit.name.to_owned(),
                hit.score.to_bits(),
            )
        })
        .collect()
}

proptest! {
    #[test]
    fn what_may_not_be_seen_is_as_if_it_were_not_there(
        catalog in catalog(), query in text(5), hidden in vec(any::<bool>(), 24),
    ) {
        let mut hidden = hidden.into_iter().cycle();
        let mut kept = catalog.clone();
        for tools in kept.values_mut() {
            tools.retain(|_, _| !hidden.next().unwrap());
        }
        let whole = built(&catalog);
        let allowed = |server: &str, name: &str| kept[server].contains_key(name);
        let part = built(&kept);
        prop_assert_eq!(
            answers(&whole.view(allowed), &query),
            answers(&part.view(|_, _| true), &query)
        );
    }

    #[test]
    fn an_index_that_followed_changes_is_one_built_anew(
        first in catalog(), then in catalog(), query in text(5),
    ) {
        let mut followed = built(&first);
        for server in first.keys().chain(then.keys()) {
            let empty = BTreeMap::new();
            let tools = then.get(server).unwrap_or(&empty);
            followed.replace(server, documents(server, tools));
        }
        let anew = built(&then);
        prop_assert_eq!(followed.len(), anew.len());
        prop_assert_eq!(
            answers(&followed.view(|_, _| true), &query),
            answers(&anew.view(|_, _| true), &query)
        );
    }

    #[test]
    fn every_tool_is_found_by_its_exact_name(catalog in catalog()) {
        let index = built(&catalog);
        let view = index.view(|_, _| true);
        for (server, tools) in &catalog {
            for name in tools.keys().filter(|name| !name.trim().is_empty()) {
                let namesakes = catalog.values().filter(|tools| tools.contains_key(name)).count();
                let found = view.search(name, namesakes + tools.len());
                prop_assert!(
                    found.iter().any(|hit| hit.server == server && hit.name == name),
                    "{server}/{name} is not among {found:?}"
                );
            }
        }
    }

    #[test]
    fn no_text_and_no_schema_is_too_odd(
        name in any::<String>(), description in any::<String>(), query in any::<String>(),
        schema in schema(),
    ) {
        let mut index = Index::default();
        let document = Document {
            name,
            description: description.clone(),
            parameters: Parameters::of(&schema),
            ..Document::default()
        };
        index.replace("any", [document]);
        let view = index.view(|_, _| true);
        for query in [&query, &description] {
            prop_assert!(view.search(query, 3).len() <= 1);
            prop_assert!(view.suggest(query, 3).len() <= 1);
        }
    }
}

/// JSON with the keys that are read, in places where they do not belong too.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        "\\PC{0,8}".prop_map(Value::String),
    ];
    let keys = select(vec![
        "properties",
        "description",
        "enum",
        "const",
        "items",
        "anyOf",
        "$defs",
        "if",
        "x",
    ]);
    leaf.prop_recursive(6, 40, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((keys.clone(), inner), 0..4).prop_map(|members| {
                members
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }),
        ]
    })
}

#[test]
fn equal_scores_stand_by_server_and_name() {
    let mut index = Index::default();
    for server in ["b", "a"] {
        index.replace(
            server,
            ["y", "x"].map(|name| crate::tool(server, name, "same words")),
        );
    }
    let view = index.view(|_, _| true);
    let found: Vec<_> = view
        .search("words", 10)
        .iter()
        .map(|hit| (hit.server, hit.name))
        .collect();
    assert_eq!(found, [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]);
}

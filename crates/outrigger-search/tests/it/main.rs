//! The crate as its users see it: what is found, what is never shown, and that it stays so when
//! catalogs change.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod finding;
mod meaning;
mod properties;

use outrigger_search::{Document, Index, Parameters, View};
use serde_json::Value;

pub(crate) fn tool(server: &str, name: &str, description: &str) -> Document {
    Document {
        server: server.to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
        ..Document::default()
    }
}

pub(crate) fn with_schema(document: Document, schema: &Value) -> Document {
    Document {
        parameters: Parameters::of(schema),
        ..document
    }
}

pub(crate) fn index(documents: Vec<Document>) -> Index {
    let mut by_server = std::collections::BTreeMap::<String, Vec<Document>>::new();
    for document in documents {
        by_server
            .entry(document.server.clone())
            .or_default()
            .push(document);
    }
    let mut index = Index::default();
    for (server, documents) in by_server {
        index.replace(&server, documents);
    }
    index
}

pub(crate) fn names(view: &View, query: &str) -> Vec<String> {
    view.search(query, 10)
        .iter()
        .map(|hit| hit.name.to_owned())
        .collect()
}

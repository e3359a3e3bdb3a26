//! Finds tools of a toolset by words, and by meaning where there is a model for it. Follows the
//! catalog: only servers that changed since the last question are indexed anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outrigger_connect::ServerName;
use outrigger_search::{Document, Fusion, Meaning, Parameters, Ranker as _, ToolKey};

use crate::catalog::{Catalog, CatalogTool, ServerCatalog};
use crate::toolset::Toolset;

/// The index of a host's catalog.
#[derive(Default)]
pub(crate) struct Finder(Mutex<Indexed>);

#[derive(Default)]
struct Indexed {
    index: Fusion,
    /// What is in the index.
    known: BTreeMap<ServerName, Arc<ServerCatalog>>,
}

/// A question for tools.
pub(super) struct Wish<'a> {
    pub(super) query: &'a str,
    /// Only tools of this server.
    pub(super) server: Option<&'a str>,
    pub(super) limit: usize,
}

/// Whether a tool (server, name) is in the toolset.
type Allowed<'a> = &'a dyn Fn(&str, &str) -> bool;

impl Finder {
    /// Tools are found by meaning, too.
    pub(super) fn add(&self, meaning: &Meaning) {
        let mut indexed = self.indexed();
        let ranker = Box::new(meaning.clone());
        let index = std::mem::take(&mut indexed.index);
        indexed.index = index.with(ranker, Meaning::WEIGHT);
        // What is known to the words is still to be told to it.
        indexed.known.clear();
    }

    /// Takes over what has changed in the catalog.
    pub(super) fn follow(&self, catalog: &Catalog) {
        self.indexed().follow(catalog);
    }

    /// The best tools, best first; only those of the toolset count.
    pub(super) fn search(&self, toolset: &Toolset, wish: &Wish<'_>) -> Vec<Arc<CatalogTool>> {
        self.ask(toolset, wish.server, |index, allowed| {
            index.rank(wish.query, allowed, wish.limit).tools
        })
    }

    /// Tools that someone may have meant who wrote this name.
    pub(crate) fn suggest(&self, toolset: &Toolset, name: &str) -> Vec<Arc<CatalogTool>> {
        const TOLD: usize = 3;
        self.ask(toolset, None, |index, allowed| {
            let view = index.words().view(allowed);
            let hits = view.suggest(name, TOLD).into_iter();
            let key = |hit: outrigger_search::Hit<'_>| ToolKey {
                server: hit.server.to_owned(),
                name: hit.name.to_owned(),
            };
            hits.map(key).collect()
        })
    }

    fn ask(
        &self,
        toolset: &Toolset,
        server: Option<&str>,
        answer: impl FnOnce(&Fusion, Allowed<'_>) -> Vec<ToolKey>,
    ) -> Vec<Arc<CatalogTool>> {
        let mut indexed = self.indexed();
        indexed.follow(toolset.catalog());
        let mut allowed: HashMap<&str, HashMap<&str, &Arc<CatalogTool>>> = HashMap::new();
        for tool in toolset.tools() {
            if server.is_none_or(|server| tool.server.as_str() == server) {
                let of_server = allowed.entry(tool.server.as_str()).or_default();
                of_server.insert(&tool.raw_name, tool);
            }
        }
        let tool = |server: &str, name: &str| allowed.get(server)?.get(name).copied();
        let found = answer(&indexed.index, &|server, name| tool(server, name).is_some());
        found
            .into_iter()
            .filter_map(|key| tool(&key.server, &key.name).cloned())
            .collect()
    }

    fn indexed(&self) -> MutexGuard<'_, Indexed> {
        // A panic while it was held leaves an index that is behind at worst, and is followed up.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Indexed {
    fn follow(&mut self, catalog: &Catalog) {
        let Self { index, known } = self;
        known.retain(|server, _| {
            let stays = catalog.servers.contains_key(server);
            if !stays {
                index.replace(server.as_str(), &[]);
            }
            stays
        });
        for (server, now) in &catalog.servers {
            if known
                .get(server)
                .is_some_and(|known| Arc::ptr_eq(known, now))
            {
                continue;
            }
            let documents: Vec<_> = now.tools.iter().map(|tool| document(tool)).collect();
            index.replace(server.as_str(), &documents);
            known.insert(server.clone(), Arc::clone(now));
        }
    }
}

fn document(tool: &CatalogTool) -> Document {
    Document {
        server: tool.server.to_string(),
        name: tool.raw_name.clone(),
        title: tool.title.clone().unwrap_or_default(),
        description: tool.description.clone(),
        parameters: Parameters::of(&tool.input_schema),
    }
}

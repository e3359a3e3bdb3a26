//! Finds tools of a toolset by words. Follows the catalog: only servers that changed since the last
//! question are indexed anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_connect::ServerName;
use outrigger_search::{Document, Hit, Index, Parameters};

use crate::catalog::{Catalog, CatalogTool, ServerCatalog};
use crate::toolset::Toolset;

/// The index of a host's catalog.
#[derive(Default)]
pub(crate) struct Finder(Mutex<Indexed>);

#[derive(Default)]
struct Indexed {
    index: Index,
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

impl Finder {
    /// The best tools, best first; only those of the toolset count.
    pub(super) fn search(&self, toolset: &Toolset, wish: &Wish<'_>) -> Vec<Arc<CatalogTool>> {
        self.ask(toolset, wish.server, |view| {
            view.search(wish.query, wish.limit)
        })
    }

    /// Tools that someone may have meant who wrote this name.
    pub(crate) fn suggest(&self, toolset: &Toolset, name: &str) -> Vec<Arc<CatalogTool>> {
        const TOLD: usize = 3;
        self.ask(toolset, None, |view| view.suggest(name, TOLD))
    }

    fn ask(
        &self,
        toolset: &Toolset,
        server: Option<&str>,
        answer: impl for<'i> FnOnce(outrigger_search::View<'i>) -> Vec<Hit<'i>>,
    ) -> Vec<Arc<CatalogTool>> {
        // A panic while it was held leaves an index that is behind at worst, and is followed up here.
        let mut indexed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        indexed.follow(toolset.catalog());
        let mut allowed: HashMap<&str, HashMap<&str, &Arc<CatalogTool>>> = HashMap::new();
        for tool in toolset.tools() {
            if server.is_none_or(|server| tool.server.as_str() == server) {
                let of_server = allowed.entry(tool.server.as_str()).or_default();
                of_server.insert(&tool.raw_name, tool);
            }
        }
        let tool = |server: &str, name: &str| allowed.get(server)?.get(name).copied();
        let view = indexed
            .index
            .view(|server, name| tool(server, name).is_some());
        answer(view)
            .into_iter()
            .filter_map(|hit| tool(hit.server, hit.name).cloned())
            .collect()
    }
}

impl Indexed {
    fn follow(&mut self, catalog: &Catalog) {
        let Self { index, known } = self;
        known.retain(|server, _| {
            let stays = catalog.servers.contains_key(server);
            if !stays {
                index.replace(server.as_str(), []);
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
            let documents = now.tools.iter().map(|tool| document(tool));
            index.replace(server.as_str(), documents);
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

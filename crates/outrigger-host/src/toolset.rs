//! What one turn puts before the model: a frozen snapshot of the catalog, filtered by policy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use outrigger_connect::ServerName;

use crate::catalog::{Catalog, CatalogTool, Instructions};
use crate::config::DiscoverySettings;
use crate::discovery::Always;

/// The tools of one turn. It does not change; a new turn takes a new one.
#[derive(Debug, Default)]
pub struct Toolset {
    catalog: Catalog,
    tools: Vec<Arc<CatalogTool>>,
    by_name: HashMap<String, usize>,
    missing: Vec<MissingServer>,
    instructions: Vec<(ServerName, Instructions)>,
    servers: Vec<KnownServer>,
    has_lazy: bool,
    discovery: DiscoverySettings,
    always: Arc<Always>,
}

/// A server as a model may know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownServer {
    /// Its name.
    pub server: ServerName,
    /// What a person wrote that it is for.
    pub description: Option<String>,
    /// Where it stands.
    pub standing: ServerStanding,
}

/// Where a server stands, for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStanding {
    /// It can be used.
    Ready,
    /// It is started when it is wanted.
    Idle,
    /// It is starting, or cannot be had.
    Unavailable,
}

/// A configured server whose tools are not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingServer {
    /// Its name.
    pub server: ServerName,
    /// Why, in a few words.
    pub reason: String,
}

impl Toolset {
    /// `tools`: those of the catalog that may be used.
    pub(crate) fn new(
        catalog: Catalog,
        tools: Vec<Arc<CatalogTool>>,
        missing: Vec<MissingServer>,
    ) -> Self {
        let by_name = tools
            .iter()
            .enumerate()
            .map(|(at, tool)| (tool.name.as_str().to_owned(), at))
            .collect();
        Self {
            catalog,
            tools,
            by_name,
            missing,
            ..Self::default()
        }
    }

    /// Says how much of it models are shown, and what in any case.
    pub(crate) fn with_discovery(
        mut self,
        settings: DiscoverySettings,
        always: Arc<Always>,
    ) -> Self {
        self.discovery = settings;
        self.always = always;
        self
    }

    /// Puts beside the tools what there is of servers. `lazy`: some are started when they are wanted.
    pub(crate) fn with_servers(mut self, servers: Vec<KnownServer>, lazy: bool) -> Self {
        self.servers = servers;
        self.has_lazy = lazy;
        self
    }

    /// The servers that are not switched off, by name.
    pub fn servers(&self) -> &[KnownServer] {
        &self.servers
    }

    /// Whether servers are started when they are wanted.
    pub(crate) fn has_lazy(&self) -> bool {
        self.has_lazy
    }

    pub(crate) fn discovery(&self) -> &DiscoverySettings {
        &self.discovery
    }

    pub(crate) fn always(&self) -> &Always {
        &self.always
    }

    /// The catalog that it was taken from, whoever may use what is in it.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Puts beside the tools what their servers say about them.
    pub(crate) fn with_instructions(
        mut self,
        instructions: impl IntoIterator<Item = (ServerName, Instructions)>,
    ) -> Self {
        let used: HashSet<_> = self.tools.iter().map(|tool| &tool.server).collect();
        let instructions = instructions.into_iter();
        let instructions = instructions
            .filter(|(server, instructions)| instructions.shown && used.contains(server))
            .collect();
        self.instructions = instructions;
        self
    }

    /// Revision of the catalog that it was taken from.
    pub fn revision(&self) -> u64 {
        self.catalog.revision
    }

    /// The tools, by server, and within a server in its own order: authors put first what is meant
    /// to be found first.
    pub fn tools(&self) -> &[Arc<CatalogTool>] {
        &self.tools
    }

    /// The tool of a model-facing name.
    pub fn get(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        self.by_name.get(name).and_then(|at| self.tools.get(*at))
    }

    /// Configured servers whose tools are not there.
    pub fn missing(&self) -> &[MissingServer] {
        &self.missing
    }

    /// What servers of these tools say about how they are used, by server; only those that
    /// configuration shows to models.
    pub fn instructions(&self) -> &[(ServerName, Instructions)] {
        &self.instructions
    }

    /// Estimated tokens of all declarations.
    pub fn tokens(&self) -> u64 {
        self.tools.iter().map(|tool| tool.tokens).sum()
    }

    /// Up to three names nearest to one that does not exist.
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        nearest(self.tools.iter().map(|tool| tool.name.as_str()), name)
    }
}

/// Up to three of these model-facing names nearest to one that is not among them.
pub fn nearest<'n>(names: impl IntoIterator<Item = &'n str>, name: &str) -> Vec<&'n str> {
    let wanted = bare(name);
    let mut scored: Vec<_> = names
        .into_iter()
        .map(|known| {
            let whole = strsim::jaro_winkler(name, known);
            let part = strsim::jaro_winkler(wanted, bare(known));
            // All tools of a server begin alike; that alone makes no two of them near.
            let score = if wanted == name {
                whole.max(part)
            } else {
                part
            };
            (score, whole, known)
        })
        .filter(|(score, ..)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    scored.into_iter().take(3).map(|(.., name)| name).collect()
}

/// The tool's part of a model-facing name, or all of another.
fn bare(name: &str) -> &str {
    name.strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .map_or(name, |(_, tool)| tool)
}

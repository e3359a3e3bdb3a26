//! What the servers offer, as immutable data: usable tools, and beside them what was set aside and
//! why. One bad definition costs one tool, never its server.

mod definition;
mod filter;
mod hygiene;
mod instructions;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{ServerName, ToolListing};
use serde_json::Value;
use serde_json::value::RawValue;

pub use definition::Annotations;
pub use filter::ToolFilter;
pub(crate) use hygiene::hidden_in;
pub use instructions::{INSTRUCTION_CHARACTERS, Instructions};

use crate::digest::Digest;
use crate::name::ToolName;
use crate::pins::{self, HeldTool, Review};
use crate::schema::Schema;

/// One usable tool.
#[derive(Debug)]
pub struct CatalogTool {
    /// What the model calls it.
    pub name: ToolName,
    /// Its server.
    pub server: ServerName,
    /// What its server calls it.
    pub raw_name: String,
    /// Display name, where the server gives one.
    pub title: Option<String>,
    /// The server's description; empty when there is none.
    pub description: String,
    /// The input schema for models: as the server sent it, in the words of 2020-12 where it was in others.
    pub input_schema: Value,
    /// The input schema, compiled.
    pub input: Schema,
    /// The output schema, compiled, where the server gives one.
    pub output: Option<Schema>,
    /// The server's hints. For people to read; they decide nothing.
    pub annotations: Annotations,
    /// Fingerprint of the definition: name, title, description, schemas, annotations.
    pub digest: Digest,
    /// Estimated tokens of the declaration in a request.
    pub tokens: u64,
    /// What *local* configuration says about its server.
    pub standing: Standing,
    /// The definition as it came, with what is not known here.
    pub raw: Box<RawValue>,
    /// What [`CatalogTool::digest`] is the fingerprint of, as JSON text.
    pub(crate) definition: Box<str>,
}

impl CatalogTool {
    /// The definition as the server sent it: `name`, `title`, `description`, `inputSchema`,
    /// `outputSchema` and `annotations`; `null` where there is none.
    pub fn definition(&self) -> Value {
        serde_json::from_str(&self.definition).unwrap_or_default()
    }
}

/// What local configuration says about a server; nothing a server sends changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// It is one of ours, in this process.
    pub builtin: bool,
    /// A person wrote that its tools only read.
    pub read_only: bool,
    /// A person wrote that models read what it says about how it is used.
    pub instructions: bool,
}

/// A tool definition that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The server's own name for it, or `#3` for the third of the list.
    pub tool: String,
    /// What is wrong.
    pub reason: String,
}

/// The tools of one server.
#[derive(Debug, Clone, Default)]
pub struct ServerCatalog {
    /// Usable tools, in the server's order.
    pub tools: Vec<Arc<CatalogTool>>,
    /// Definitions that were set aside.
    pub set_aside: Vec<SetAside>,
    /// Tools that differ from what was approved; among [`ServerCatalog::set_aside`] too.
    pub held: Vec<HeldTool>,
    /// Raw names of tools that nobody has approved yet, and that may be used all the same.
    pub unpinned: Vec<String>,
    /// Whether nobody has approved the instructions that a model may read, as they are.
    pub instructions_wait: bool,
    /// Usable tools that configuration does not let through (`allowed_tools`, `disabled_tools`).
    pub withheld: Vec<Arc<CatalogTool>>,
    /// Whether the server has not been started yet, and this is what it had when it was last seen.
    pub remembered: bool,
    /// Why the listing is not whole.
    pub problems: Vec<String>,
    /// What the server says about how it is used.
    pub instructions: Option<Instructions>,
    /// It says that it has resources.
    pub resources: bool,
    /// How many announcements of changes had come when it was asked for.
    pub(crate) as_of: u64,
    /// How many pages were read.
    pub pages: usize,
    /// How long listing took.
    pub took: Duration,
}

impl ServerCatalog {
    /// Reads a listing. What cannot be used is set aside with its reason.
    pub fn read(server: &ServerName, standing: Standing, listing: ToolListing) -> Self {
        let mut catalog = Self {
            problems: listing.problems,
            pages: listing.pages,
            took: listing.took,
            ..Self::default()
        };
        let (mut raw_names, mut names) = (HashSet::new(), HashSet::new());
        for (index, raw) in listing.tools.iter().enumerate() {
            let read = definition::read(server, standing, raw).and_then(|tool| {
                if !raw_names.insert(tool.raw_name.clone()) {
                    return Err((
                        Some(tool.raw_name),
                        "the server lists a tool of this name before".to_owned(),
                    ));
                }
                if !names.insert(tool.name.clone()) {
                    return Err((
                        Some(tool.raw_name),
                        format!("another tool already has the name `{}`", tool.name),
                    ));
                }
                Ok(tool)
            });
            match read {
                Ok(tool) => catalog.tools.push(Arc::new(tool)),
                Err((name, reason)) => {
                    let tool = name.unwrap_or_else(|| format!("#{}", index + 1));
                    catalog.set_aside.push(SetAside { tool, reason });
                }
            }
        }
        catalog
    }

    /// Whether the tool of this name is held back.
    pub fn is_held(&self, tool: &CatalogTool) -> bool {
        self.held.iter().any(|held| held.tool.name == tool.name)
    }

    /// Takes out the tools that differ from what was approved.
    pub(crate) fn hold_back(&mut self, server: &ServerName, review: Review) {
        let Review {
            held,
            unpinned,
            instructions,
        } = review;
        self.instructions_wait = instructions != pins::Standing::Approved;
        if let (pins::Standing::Held, Some(told)) = (instructions, &mut self.instructions) {
            told.shown = false;
            self.problems.push(format!(
                "its instructions are not what was approved, and are not shown to a model; `outrigger pin {server}` shows them and asks"
            ));
        }
        self.tools
            .retain(|tool| !held.iter().any(|held| held.tool.name == tool.name));
        self.set_aside.extend(held.iter().map(|held| SetAside {
            tool: held.tool.raw_name.clone(),
            reason: held.reason(),
        }));
        self.held = held;
        self.unpinned = unpinned;
    }

    /// Estimated tokens of all declarations.
    pub fn tokens(&self) -> u64 {
        self.tools.iter().map(|tool| tool.tokens).sum()
    }
}

/// A tool of the host itself, declared like that of a server; `None` when the definition is not sound.
pub(crate) fn own(host: &str, name: &'static str, declared: &Value) -> Option<CatalogTool> {
    let server = ServerName::new(host).ok()?;
    let standing = Standing {
        builtin: true,
        ..Standing::default()
    };
    let raw = serde_json::value::to_raw_value(declared).ok()?;
    let tool = definition::read(&server, standing, &raw).ok()?;
    Some(CatalogTool {
        name: ToolName::own(name),
        ..tool
    })
}

/// All connected servers' tools at one moment.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Counts up with every change.
    pub revision: u64,
    /// By server.
    pub servers: BTreeMap<ServerName, Arc<ServerCatalog>>,
}

impl Catalog {
    /// All usable tools.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.servers.values().flat_map(|server| &server.tools)
    }

    /// Whether a tool's definition now is one that nobody has approved.
    pub fn is_held(&self, tool: &CatalogTool) -> bool {
        let server = self.servers.get(&tool.server);
        server.is_some_and(|server| server.is_held(tool))
    }

    /// The tool with a model-facing name.
    pub fn find(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        self.tools().find(|tool| tool.name.as_str() == name)
    }
}

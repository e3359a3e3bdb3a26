//! Who is shown a toolset, and what of it is left to the search that the model's provider has.
//!
//! The host knows no model: what one can is told to it. Whatever is not within the provider's limits is
//! found by the host's own tools, and the reason is told.

use std::fmt::Write as _;
use std::sync::Arc;

use super::Exposure;
use super::outline::{self, prefix};
use crate::catalog::CatalogTool;
use crate::config::Searcher;
use crate::tokens::Scale;
use crate::toolset::Toolset;
use crate::words::named;

/// Bytes of names that stand for a group.
const NAMES: usize = 400;
/// Bytes of a group's name; a number may follow.
const GROUP: usize = 56;

/// What is known of the model that is shown a toolset.
#[derive(Debug, Clone)]
pub struct Audience {
    /// Tokens that it reads.
    pub context_tokens: u64,
    /// How it counts them.
    pub scale: Scale,
    /// The search of its provider, or why there is none.
    pub search: Result<ProviderSearch, String>,
    /// Tools that are declared to it already and may be gone by now; they count against limits.
    pub declared: usize,
}

/// What a provider's own search of tools takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderSearch {
    /// Tools of a request.
    pub most_tools: usize,
    /// Entries of the list of tools.
    pub most_entries: usize,
    /// Whether tools are listed by group, and the model sees the groups.
    pub shows_groups: bool,
}

/// The tools of one server that are left to the provider's search.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name, in `[A-Za-z0-9_-]`.
    pub name: String,
    /// What a person wrote that the server is for, or its name.
    summary: String,
    /// By name, sorted.
    pub tools: Vec<Arc<CatalogTool>>,
}

impl Audience {
    /// A model of which only this is known.
    pub fn new(context_tokens: u64) -> Self {
        Self {
            context_tokens,
            scale: Scale::NONE,
            search: Err("its provider is not known".to_owned()),
            declared: 0,
        }
    }
}

impl Group {
    fn of(toolset: &Toolset, tools: &[Arc<CatalogTool>]) -> Self {
        let server = tools.first().map_or("", |tool| tool.server.as_str());
        let name = match prefix(tools) {
            Some(prefix) => prefix.trim_end_matches('_').to_owned(),
            None => plain(server),
        };
        let known = toolset
            .servers()
            .iter()
            .find(|known| known.server.as_str() == server);
        let summary = known.and_then(|known| known.description.clone());
        Self {
            name,
            summary: summary.unwrap_or_else(|| format!("The server `{}`", named(server))),
            tools: tools.to_vec(),
        }
    }

    /// What is in it, of these of its tools: what the server is for, and names, as far as they have
    /// room.
    pub fn about(&self, tools: &[Arc<CatalogTool>]) -> String {
        let mut text = format!("{}. Tools:", self.summary.trim_end_matches('.'));
        let end = text.len() + NAMES;
        for (at, tool) in tools.iter().enumerate() {
            if text.len() + tool.raw_name.len() > end {
                let _ = write!(text, " and {} more", tools.len() - at);
                break;
            }
            let name = tool.name.as_str();
            let name = name.strip_prefix(self.name.as_str()).unwrap_or(name);
            let comma = if at == 0 { " " } else { ", " };
            text.push_str(comma);
            text.push_str(name.trim_start_matches('_'));
        }
        text
    }
}

/// A name of a server in the characters that providers take.
fn plain(server: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    server.chars().take(GROUP).map(plain).collect()
}

impl Toolset {
    /// The provider's search, where it is asked for and can be used; else why not, where it was asked
    /// for. `inline`: how many tools are declared besides the hidden ones.
    pub(super) fn provider_search(
        &self,
        audience: &Audience,
        (inline, hidden): (usize, &[Arc<CatalogTool>]),
    ) -> Result<ProviderSearch, Option<String>> {
        if self.discovery().search.value != Searcher::Provider {
            return Err(None);
        }
        let search = audience.search.clone().map_err(Some)?;
        if hidden.is_empty() {
            return Ok(search);
        }
        let all = (inline + hidden.len()).max(audience.declared);
        let ProviderSearch {
            most_tools,
            most_entries,
            shows_groups,
        } = search;
        if all > most_tools {
            return Err(Some(format!(
                "it takes {most_tools} tools at the most, and there are {all}"
            )));
        }
        let groups = hidden.chunk_by(|one, other| one.server == other.server);
        let listed = if shows_groups {
            groups.count()
        } else {
            hidden.len()
        };
        // One is the search itself.
        let entries = inline + listed + 1;
        if entries > most_entries {
            return Err(Some(format!(
                "its list of tools takes {most_entries} entries at the most, and there would be {entries}"
            )));
        }
        Ok(search)
    }

    /// What is shown where the provider finds the hidden ones.
    pub(super) fn left_to(
        &self,
        search: ProviderSearch,
        (tools, hidden): (Vec<Arc<CatalogTool>>, &[Arc<CatalogTool>]),
        budget: u64,
    ) -> Exposure {
        let groups = hidden.chunk_by(|one, other| one.server == other.server);
        let deferred = groups.map(|tools| Group::of(self, tools)).collect();
        Exposure {
            tools,
            deferred,
            index: (!search.shows_groups).then(|| outline::by_server(hidden, budget)),
            not_searched: None,
        }
    }
}

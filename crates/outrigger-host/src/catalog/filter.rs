//! Which of a server's tools its configuration lets through, by globs over the server's own names.

use globset::GlobMatcher;

use super::ServerCatalog;
use crate::policy::{BadGlob, glob};

/// `allowed_tools` and `disabled_tools` of one server.
#[derive(Debug, Clone, Default)]
pub struct ToolFilter {
    allowed: Option<Vec<GlobMatcher>>,
    disabled: Vec<GlobMatcher>,
}

/// Whether the same globs are written in the same order.
impl PartialEq for ToolFilter {
    fn eq(&self, other: &Self) -> bool {
        let texts = |list: &[GlobMatcher]| -> Vec<String> {
            let texts = list.iter().map(|glob| glob.glob().glob());
            texts.map(ToOwned::to_owned).collect()
        };
        let allowed = |filter: &Self| filter.allowed.as_deref().map(texts);
        allowed(self) == allowed(other) && texts(&self.disabled) == texts(&other.disabled)
    }
}

impl ToolFilter {
    /// Compiles the two lists; without `allowed`, all tools are.
    pub fn new(allowed: Option<&[String]>, disabled: &[String]) -> Result<Self, BadGlob> {
        let compile = |list: &[String]| {
            list.iter()
                .map(|text| glob(text))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            allowed: allowed.map(compile).transpose()?,
            disabled: compile(disabled)?,
        })
    }

    /// Whether a tool is let through.
    pub fn admits(&self, raw_name: &str) -> bool {
        let listed = |list: &Vec<GlobMatcher>| list.iter().any(|glob| glob.is_match(raw_name));
        !listed(&self.disabled) && self.allowed.as_ref().is_none_or(listed)
    }

    /// Entries that match no tool of the server: likely misspelt.
    pub fn strangers(&self, catalog: &ServerCatalog) -> Vec<String> {
        let matches = |glob: &&GlobMatcher| {
            let tools = catalog.tools.iter().map(|tool| tool.raw_name.as_str());
            let set_aside = catalog.set_aside.iter().map(|tool| tool.tool.as_str());
            tools.chain(set_aside).any(|name| glob.is_match(name))
        };
        let entries = self.allowed.iter().flatten().chain(&self.disabled);
        entries
            .filter(|glob| !matches(glob))
            .map(|glob| glob.glob().to_string())
            .collect()
    }
}

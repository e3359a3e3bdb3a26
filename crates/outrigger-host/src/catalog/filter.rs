//! Which of a server's tools configuration lets through: by globs over the server's own names, and by
//! the profile that is chosen.

use globset::GlobMatcher;

use super::{CatalogTool, ServerCatalog};
use crate::config::Profile;
use crate::policy::{BadGlob, glob};

/// `allowed_tools` and `disabled_tools` of one server, and what profiles show.
#[derive(Debug, Clone, Default)]
pub struct ToolFilter {
    allowed: Option<Vec<GlobMatcher>>,
    disabled: Vec<GlobMatcher>,
    profiles: Vec<Profile>,
}

/// Whether the same globs are written in the same order.
impl PartialEq for ToolFilter {
    fn eq(&self, other: &Self) -> bool {
        let texts = |list: &[GlobMatcher]| -> Vec<String> {
            let texts = list.iter().map(|glob| glob.glob().glob());
            texts.map(ToOwned::to_owned).collect()
        };
        let allowed = |filter: &Self| filter.allowed.as_deref().map(texts);
        // Hosts that share a server would see what the profile of one of them hides.
        let shown = |filter: &Self| -> Vec<_> {
            let profiles = filter.profiles.iter();
            profiles.map(|it| it.tools.as_deref().map(texts)).collect()
        };
        allowed(self) == allowed(other)
            && texts(&self.disabled) == texts(&other.disabled)
            && shown(self) == shown(other)
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
            profiles: Vec::new(),
        })
    }

    /// The same, narrowed by each of these profiles.
    #[must_use]
    pub fn under(mut self, profiles: &[Profile]) -> Self {
        self.profiles = profiles.to_vec();
        self
    }

    /// Whether a tool is let through.
    pub fn admits(&self, tool: &CatalogTool) -> bool {
        let raw_name = tool.raw_name.as_str();
        let listed = |list: &Vec<GlobMatcher>| list.iter().any(|glob| glob.is_match(raw_name));
        let shown = |profile: &Profile| profile.shows_tool(tool.name.as_str());
        !listed(&self.disabled)
            && self.allowed.as_ref().is_none_or(listed)
            && self.profiles.iter().all(shown)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    #[test]
    fn filters_of_different_profiles_are_not_the_same() {
        let around = crate::config::Surroundings {
            workspace: "/".into(),
            user_dir: Some("/".into()),
            managed_dir: None,
            managed_file: None,
            home: None,
            env: std::collections::BTreeMap::new(),
            explicit: Vec::new(),
            trust: crate::config::Trust::Unsaid,
            files: Some(std::collections::BTreeMap::from([(
                Path::new("/outrigger.toml").to_owned(),
                "[profiles.a]\ntools = [\"x\"]\n[profiles.b]\ntools = [\"y\"]\n[profiles.c]\nservers = [\"y\"]"
                    .to_owned(),
            )])),
            principal: None,
        };
        let config: Config = crate::config::load(&around);
        let under =
            |name: &str| ToolFilter::default().under(&config.with_profile(name).unwrap().chosen);
        assert!(under("a") == under("a"));
        assert!(under("a") != under("b") && under("a") != under("c"));
        assert!(under("a") != ToolFilter::default());
    }
}

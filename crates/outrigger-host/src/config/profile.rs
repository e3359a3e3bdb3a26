//! `[profiles.NAME]`: which servers and tools are seen, and started, where only some are wanted.
//!
//! Promises: a profile only narrows. What a server's own `allowed_tools` and `disabled_tools` keep back,
//! and what policy denies, stays so under every profile; and a server that a profile does not name is
//! not started. Leaves out: prompts and resources of the servers that are named, which all stay.

use globset::GlobMatcher;
use outrigger_connect::ServerName;

use super::Config;
use super::origin::Origin;

/// The built-in server that reads what other tools of the run returned; every profile has it.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// A profile as meant.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Over names of servers, as configured; `None`: all.
    pub(crate) servers: Option<Vec<GlobMatcher>>,
    /// Over names of tools as models see them (`mcp__SERVER__TOOL`); `None`: all.
    pub(crate) tools: Option<Vec<GlobMatcher>>,
    /// Where it begins.
    pub origin: Origin,
}

/// There is no profile of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile `{name}`")]
pub struct NoSuchProfile {
    /// The name that was asked for.
    pub name: String,
    /// Those that there are, in the order of the files.
    pub known: Vec<String>,
}

impl NoSuchProfile {
    /// What to do about it.
    pub fn hint(&self) -> String {
        if self.known.is_empty() {
            return "none is configured; write one as `[profiles.NAME]` with `servers` and `tools`"
                .to_owned();
        }
        let names: Vec<_> = self.known.iter().map(|name| format!("`{name}`")).collect();
        format!("configured are {}", names.join(", "))
    }
}

impl Profile {
    /// Whether a server is seen and started.
    pub fn shows_server(&self, name: &str) -> bool {
        name == ARTIFACTS || any(self.servers.as_deref(), name)
    }

    /// Whether a tool is seen, by the name that models have for it. Its server must be seen too.
    pub fn shows_tool(&self, name: &str) -> bool {
        any(self.tools.as_deref(), name)
    }

    /// The globs, as written: of servers, of tools.
    pub(super) fn written(&self) -> [(&'static str, Option<Vec<String>>); 2] {
        let texts = |globs: &Option<Vec<GlobMatcher>>| {
            let globs = globs.as_ref()?.iter();
            Some(globs.map(|glob| glob.glob().to_string()).collect())
        };
        [
            ("servers", texts(&self.servers)),
            ("tools", texts(&self.tools)),
        ]
    }
}

fn any(globs: Option<&[GlobMatcher]>, name: &str) -> bool {
    globs.is_none_or(|globs| globs.iter().any(|glob| glob.is_match(name)))
}

impl Config {
    /// The profile of this name.
    pub fn named_profile(&self, name: &str) -> Result<&Profile, NoSuchProfile> {
        self.profiles.get(name).ok_or_else(|| NoSuchProfile {
            name: name.to_owned(),
            known: self.profiles.keys().cloned().collect(),
        })
    }

    /// The configuration as it is under a profile: servers that it does not name are left out, built-in
    /// ones too, and of the others only the tools that it names come into the catalog. Under a profile
    /// already, both narrow.
    pub fn with_profile(&self, name: &str) -> Result<Self, NoSuchProfile> {
        let profile = self.named_profile(name)?.clone();
        let mut config = self.clone();
        let hidden = |server: &ServerName| !profile.shows_server(server.as_str());
        let (gone, kept) = config
            .servers
            .into_iter()
            .partition(|(server, _)| hidden(server));
        config.servers = kept;
        let gone: indexmap::IndexMap<_, _> = gone;
        config.left_out.extend(gone.into_keys());
        for (builtin, on) in config.builtin.each_mut() {
            on.value &= profile.shows_server(builtin);
        }
        config.chosen.push(profile);
        Ok(config)
    }

    /// The profile that leaves a server out, configured or built in.
    pub fn hiding_server(&self, server: &str) -> Option<&Profile> {
        self.chosen
            .iter()
            .find(|profile| !profile.shows_server(server))
    }

    /// The profile that leaves a tool out of those of its server, by the name that models have for it.
    pub fn hiding_tool(&self, tool: &str) -> Option<&Profile> {
        self.chosen.iter().find(|profile| !profile.shows_tool(tool))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::glob;

    fn profile(servers: Option<&[&str]>, tools: Option<&[&str]>) -> Profile {
        let compiled = |globs: &[&str]| globs.iter().map(|text| glob(text).unwrap()).collect();
        Profile {
            name: "p".to_owned(),
            description: None,
            servers: servers.map(compiled),
            tools: tools.map(compiled),
            origin: Origin::builtin(),
        }
    }

    #[test]
    fn without_a_list_all_are_seen_and_an_empty_one_shows_none() {
        let all = profile(None, None);
        assert!(all.shows_server("notes") && all.shows_tool("mcp__notes__read"));
        let none = profile(Some(&[]), Some(&[]));
        assert!(!none.shows_server("notes") && !none.shows_tool("mcp__notes__read"));
        assert!(none.shows_server(ARTIFACTS));
    }

    proptest! {
        #[test]
        fn another_list_never_shows_more(name in "[a-c]{1,3}", globs in prop::collection::vec("[a-c*]{1,3}", 0..4)) {
            let texts: Vec<&str> = globs.iter().map(String::as_str).collect();
            let narrow = profile(Some(&texts), None);
            let wide = profile(None, None);
            prop_assert!(!narrow.shows_server(&name) || wide.shows_server(&name));
        }
    }
}

//! Configuration, from files in temporary folders to what is meant.

mod bounds;
mod cases;
mod expansion;
mod files;
mod foreign;
mod gateway;
mod layers;
mod messages;
mod oauth;
mod policy;
mod profiles;
mod properties;
mod references;
mod servers;
mod show;
mod trust;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outrigger_connect::{HttpSpec, ServerName, StdioSpec, TransportSpec};
use outrigger_host::config::{
    Config, ConfigProblem, EntryState, ServerSettings, Surroundings, Trust, load,
};

/// A workspace, a home, a user folder and a managed one, all temporary.
pub(crate) struct Place {
    root: tempfile::TempDir,
    pub(crate) around: Surroundings,
}

impl Place {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let folder = root.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        let around = Surroundings {
            workspace: at("project"),
            user_dir: Some(at("user")),
            managed_dir: Some(at("managed")),
            managed_file: None,
            home: Some(at("home")),
            env: BTreeMap::from([
                ("PATH".into(), "/bin".into()),
                ("HOME".into(), "/home/of/env".into()),
            ]),
            explicit: Vec::new(),
            trust: Trust::Unsaid,
            files: None,
            principal: None,
        };
        Self { root, around }
    }

    /// A place with one file, by its path from the root (`project/.mcp.json`).
    pub(crate) fn with(file: &str, text: &str) -> Self {
        let place = Self::new();
        place.write(file, text);
        place
    }

    /// A place whose `project/.outrigger/outrigger.toml` is this.
    pub(crate) fn toml(text: &str) -> Self {
        Self::with("project/.outrigger/outrigger.toml", text)
    }

    pub(crate) fn write(&self, file: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.around.env.insert(name.into(), value.into());
        self
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    pub(crate) fn load(&self) -> Config {
        load(&self.around)
    }

    /// As after the person has said that the project is trusted.
    pub(crate) fn load_trusted(&self) -> Config {
        load(&Surroundings {
            trust: Trust::ThisRun,
            ..self.around.clone()
        })
    }

    /// Text with the temporary folder taken out.
    pub(crate) fn tidy(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.root.path().display()), "")
    }

    /// Every problem as a person reads it, in several lines.
    pub(crate) fn page(&self) -> String {
        self.said(ConfigProblem::render)
    }

    /// Every problem in one line.
    pub(crate) fn lines(&self) -> String {
        self.said(ToString::to_string)
    }

    fn said(&self, words: impl Fn(&ConfigProblem) -> String) -> String {
        let config = self.load();
        let all: Vec<String> = config.all_problems().map(words).collect();
        self.tidy(&all.join("\n"))
    }
}

/// The settings of a server that is ready.
#[track_caller]
pub(crate) fn ready<'c>(config: &'c Config, name: &str) -> &'c ServerSettings {
    match state(config, name) {
        EntryState::Ready(settings) | EntryState::NeedsTrust(settings) => settings,
        other => panic!("`{name}` is not ready: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn state<'c>(config: &'c Config, name: &str) -> &'c EntryState {
    &config.servers[&ServerName::new(name).unwrap()].state
}

#[track_caller]
pub(crate) fn stdio<'c>(config: &'c Config, name: &str) -> &'c StdioSpec {
    match &ready(config, name).spec.transport {
        TransportSpec::Stdio(spec) => spec,
        other => panic!("`{name}` is no child process: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn http<'c>(config: &'c Config, name: &str) -> &'c HttpSpec {
    match &ready(config, name).spec.transport {
        TransportSpec::Http(spec) | TransportSpec::Sse(spec) | TransportSpec::WebSocket(spec) => {
            spec
        }
        other => panic!("`{name}` is not on the network: {other:?}"),
    }
}

pub(crate) fn states(config: &Config) -> String {
    let word = |state: &EntryState| match state {
        EntryState::Ready(_) | EntryState::NeedsTrust(_) => "ready",
        EntryState::Disabled => "disabled",
        EntryState::Broken(_) => "broken",
    };
    let words: Vec<_> = config
        .servers
        .values()
        .map(|entry| format!("{} {}", entry.name, word(&entry.state)))
        .collect();
    words.join(", ")
}

/// A path inside of a place, as a server is given it.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

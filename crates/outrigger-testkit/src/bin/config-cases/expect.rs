//! The cases as they are written. An expectation of a kind that is not known here is an error: it
//! would go unchecked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// A configuration, and what must come of it.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// Its file, below the folder of the cases.
    pub(crate) config: PathBuf,
    /// Variables in the environment of the program.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) expect: Expect,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// By name; an empty map means that there is no server at all.
    pub(crate) servers: Option<BTreeMap<String, Server>>,
    /// The configuration cannot be used; the kind is always `config_error`.
    pub(crate) error: Option<String>,
    /// What is told about it has these words.
    pub(crate) mentions: Vec<String>,
    /// Every case is held to it, wherever it is written.
    #[serde(rename = "file_unchanged")]
    _file_unchanged: bool,
    /// As many tools, each with a name of its own.
    pub(crate) distinct_model_names: Option<usize>,
    /// What the call of `server/tool` answers.
    pub(crate) routes: BTreeMap<String, String>,
    /// What must not have come into being.
    pub(crate) no_file: Option<PathBuf>,
    /// Where the project stands that nobody has trusted; the word is always `needs_approval`.
    pub(crate) state: Option<String>,
}

/// What must be known about one server.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    pub(crate) state: Option<State>,
    /// Its tools, by its own names.
    pub(crate) tools: Option<Vec<String>>,
    /// Words of the command line that it was started with.
    pub(crate) argv_has: Vec<String>,
    /// Variables and their values.
    pub(crate) env_has: BTreeMap<String, String>,
    /// Variables that it has, with any value.
    pub(crate) env_keys: Vec<String>,
    /// Variables that it must not have.
    pub(crate) env_not: Vec<String>,
    /// Its working folder.
    pub(crate) cwd: Option<String>,
    /// The end of it.
    pub(crate) cwd_endswith: Option<String>,
    /// What is told about it has these words.
    pub(crate) mentions: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Connected,
    Failed,
    Disabled,
}

impl State {
    /// The same in the words of `doctor --json`.
    pub(crate) fn as_told(self) -> &'static str {
        match self {
            Self::Connected => "ready",
            Self::Failed => "quarantined",
            Self::Disabled => "disabled",
        }
    }
}

impl Server {
    /// Whether only the server itself can tell.
    pub(crate) fn asks_the_server(&self) -> bool {
        let lists = [&self.argv_has, &self.env_keys, &self.env_not];
        let folder = self.cwd.is_some() || self.cwd_endswith.is_some();
        folder || !self.env_has.is_empty() || lists.iter().any(|list| !list.is_empty())
    }
}

//! A configured server: ready to be connected to, switched off, or set aside with the reasons.

use outrigger_connect::{ServerName, ServerSpec};

use super::gap::Gap;
use super::origin::Origin;
use super::problem::ConfigProblem;
use super::reference::Reference;
use super::repeating::Repeating;
use super::sharing::Sharing;
use crate::digest::Digest;
use crate::questions::Answers;

/// The effective entry of one server.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// Its name.
    pub name: ServerName,
    /// Where its entry begins.
    pub origin: Origin,
    /// What became of it.
    pub state: EntryState,
}

/// What became of an entry.
#[derive(Debug, Clone)]
pub enum EntryState {
    /// As meant.
    Ready(Box<ServerSettings>),
    /// `enabled = false`, or `disabled = true`.
    Disabled,
    /// As meant, but it comes with a project that is not trusted, so it is not started. A farther
    /// entry of the same name is not used instead.
    NeedsTrust(Box<ServerSettings>),
    /// Set aside, and why. A farther entry of the same name is not used instead.
    Broken(Vec<ConfigProblem>),
}

/// When a server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerStart {
    /// With the run.
    #[default]
    Eager,
    /// When it is wanted.
    Lazy,
}

/// A server as meant.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// What a connection needs.
    pub spec: ServerSpec,
    /// The person's statement that its tools change nothing.
    pub read_only: bool,
    /// Models read what it says about how it is used.
    pub instructions: bool,
    /// What it is for.
    pub description: Option<String>,
    /// Globs over its raw tool names: only these are offered. `None`: all.
    pub allowed_tools: Option<Vec<String>>,
    /// Globs over its raw tool names: these are not offered.
    pub disabled_tools: Vec<String>,
    /// Whether it is started at once, or when it is wanted.
    pub start: ServerStart,
    /// Whether principals of a gateway share it, as written.
    pub sharing: Option<Sharing>,
    /// Whether it may run in one place at a time, among all that share the storage.
    pub single: bool,
    /// Globs over its raw tool names: these are declared to a model however many tools there are.
    pub always: Vec<String>,
    /// Which of its questions are answered.
    pub answers: Answers,
    /// Which of its calls may be made once more.
    pub repeating: Repeating,
    /// What was written, key by key, in our words for the keys.
    pub(crate) written: Vec<WrittenKey>,
    /// Values with secrets still missing. A server that has any is not started.
    pub(crate) gaps: Vec<Gap>,
}

impl ServerSettings {
    /// Fingerprint of what it is configured to run or to call: command and arguments, or address, as
    /// written, so that it is the same on every machine. Secrets are masked in it.
    pub(crate) fn identity(&self) -> Digest {
        const KEYS: [&str; 3] = ["command", "args", "url"];
        let is_part = |written: &&WrittenKey| {
            written
                .path
                .first()
                .is_some_and(|key| KEYS.contains(&key.as_str()))
        };
        let parts = self.written.iter().filter(is_part);
        let mut parts: Vec<_> = parts
            .map(|written| serde_json::json!([written.path, written.shown]))
            .collect();
        parts.sort_by_key(ToString::to_string);
        Digest::of(&parts.into())
    }

    /// Whether principals of a gateway share it.
    pub fn sharing(&self) -> Sharing {
        if self.single {
            return Sharing::Shared;
        }
        self.sharing
            .unwrap_or_else(|| Sharing::of(&self.spec.transport))
    }

    /// What starting it would do, in one line for a person: the command, or the address, as they are
    /// written. Secrets are masked.
    pub(crate) fn deed(&self) -> String {
        deed(&self.written)
    }

    /// Whether `disabled_tools` names a tool, by the server's own name for it.
    pub fn disables(&self, raw_name: &str) -> bool {
        let named =
            |text: &String| crate::policy::glob(text).is_ok_and(|glob| glob.is_match(raw_name));
        self.disabled_tools.iter().any(named)
    }

    /// Where each key was written, under the name this program has for it. Keys of tables are
    /// joined with a dot (`env.TOKEN`).
    pub fn origins(&self) -> impl Iterator<Item = (String, &Origin)> {
        self.written
            .iter()
            .map(|written| (written.path.join("."), &written.origin))
    }
}

/// What starting something would do, as it is written.
pub(crate) fn deed(written: &[WrittenKey]) -> String {
    let texts = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => vec![text.clone()],
        serde_json::Value::Array(items) => items
            .iter()
            .map(|item| {
                item.as_str()
                    .map_or_else(|| item.to_string(), str::to_owned)
            })
            .collect(),
        other => vec![other.to_string()],
    };
    let part = |key: &str| {
        let of_key = |written: &&WrittenKey| written.path.first().is_some_and(|first| first == key);
        let written = written.iter().filter(of_key);
        written
            .flat_map(|written| texts(&written.shown))
            .collect::<Vec<_>>()
    };
    // A name says enough, unless the value is to be had by reading or running something.
    let names = written
        .iter()
        .filter_map(|written| match &written.path[..] {
            [table, name] if table == "env" || table == "headers" || table == "oauth" => {
                let value = written.shown.as_str().filter(|text| Reference::is_in(text));
                match value {
                    Some(value) => Some(format!("{name} from {value}")),
                    None => (table != "oauth").then(|| name.clone()),
                }
            }
            _ => None,
        });
    let mut deed: Vec<String> = ["command", "args", "url", "cwd"]
        .into_iter()
        .flat_map(part)
        .collect();
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        deed.push(format!("(with {})", names.join(", ")));
    }
    deed.join(" ")
}

/// One key of an entry, fit to be shown: a value with variables as it was written, any other as
/// it is meant, a secret masked.
#[derive(Debug, Clone)]
pub(crate) struct WrittenKey {
    /// The key; for `env` and `headers` also the name in it.
    pub(crate) path: Vec<String>,
    pub(crate) shown: serde_json::Value,
    pub(crate) origin: Origin,
}

/// An entry that a nearer one replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// The server's name.
    pub name: ServerName,
    /// Where the replaced entry begins.
    pub origin: Origin,
    /// Where the entry begins that replaced it.
    pub by: Origin,
}

//! The configuration: from files to what is meant, each value knowing its file and line.
//!
//! Promises: loading never fails as a whole; one broken server, rule or file is data beside the
//! rest. A nearer entry replaces a farther one as a whole, also when the nearer one is broken.
//! Nothing becomes empty because a variable is not set. No secret is in a Debug form or in what is
//! shown. Reads only the files it names; the environment and all folders are passed in.
//!
//! A secret that stands elsewhere is not fetched by loading; see [`Config::resolve`].
//!
//! Leaves out: deciding about calls (policy), asking whether a project is trusted, building models.

mod artifacts;
mod cases;
mod defaults;
mod discover;
mod discovery;
mod environment;
mod expand;
pub mod foreign;
mod gap;
mod gateway;
mod hook;
pub mod import;
mod kept;
mod literal;
mod load;
mod lower;
mod merge;
mod model;
mod node;
mod origin;
mod parse;
mod policy;
mod problem;
pub(crate) mod profile;
mod project;
mod reference;
mod repeating;
mod report;
mod resolve;
mod results;
mod run;
mod secret;
mod server;
mod sharing;
pub mod show;
mod source;
mod storage;
mod surroundings;
mod value;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use outrigger_connect::ServerName;

pub use artifacts::ArtifactSettings;
pub use cases::{PolicyCase, policy_cases};
pub use defaults::ServerDefaults;
pub use discovery::{DiscoveryMode, DiscoverySettings, Searcher};
pub use gateway::{
    ApprovalWay, ClientLimits, Credentials, GatewaySettings, OAuthResource, PrincipalSettings,
};
pub use hook::{HookEvent, HookSettings};
pub use kept::{Kept, kept};
pub use literal::{Literal, literal_name};
pub use load::{load, load_instead};
pub use lower::gateway::is_principal_name;
pub use model::{ApiKey, ModelSettings, ProviderEntry, ProviderSettings, ProviderState};
pub use origin::{Layer, Origin, Setting};
pub use parse::Format;
pub use policy::{Decision, Mode, ModeRefused, PolicyRule, PolicyTable, ToolMatch};
pub use problem::{ConfigProblem, Excerpt, Severity};
pub use profile::{NoSuchProfile, Profile};
pub use project::{Brought, Project, ProjectStanding, Trust};
pub use reference::{Reference, Resolver, Unresolved};
pub use repeating::{Repeating, ToolRepeating};
pub(crate) use report::nearest;
pub use resolve::ReferenceUse;
pub use results::{ResultSettings, ToolRoom};
pub use run::{BuiltinSettings, RunLimits};
pub use server::{EntryState, ServerEntry, ServerSettings, ServerStart, Shadowed};
pub use sharing::Sharing;
pub use storage::StorageSettings;
pub use surroundings::Surroundings;
pub use value::{parse_duration, parse_size};

/// The configuration of a run, as meant.
#[derive(Debug, Clone)]
pub struct Config {
    /// The effective entry of each server, in the order of the files.
    pub servers: IndexMap<ServerName, ServerEntry>,
    /// Entries that a nearer one replaced.
    pub shadowed: Vec<Shadowed>,
    /// What may run.
    pub policy: PolicyTable,
    /// Which models there are.
    pub model: ModelSettings,
    /// How far a run may go.
    pub limits: RunLimits,
    /// What holds for every server whose entry says nothing else.
    pub defaults: ServerDefaults,
    /// Which built-in servers are on.
    pub builtin: BuiltinSettings,
    /// How much of the tools a model is shown at once.
    pub discovery: DiscoverySettings,
    /// What else has a say about calls: hooks of managed files first, then `--config`, project and
    /// user; in a file as written. Those of a project that is not trusted are not run.
    pub hooks: Vec<HookSettings>,
    /// `[secrets] timeout`: how long one reference may take to be followed. 30 seconds by default.
    pub secret_timeout: Setting<Duration>,
    /// What garbage collection of artifacts removes.
    pub artifacts: ArtifactSettings,
    /// How much of what tools return a model is shown.
    pub results: ResultSettings,
    /// Who may connect to the gateway, who approves their calls, and how it ends.
    pub gateway: GatewaySettings,
    /// Where state is kept that replicas share; see [`Config::resolve_storage`].
    pub storage: StorageSettings,
    /// Secrets that stand in the files themselves, as far as they look like it.
    pub literals: Vec<Literal>,
    /// What is wrong outside of servers and providers, whose own problems are in their entries.
    /// Warnings about entries that are used are here too.
    pub problems: Vec<ConfigProblem>,
    /// The files that were looked for, from the farthest to the nearest.
    pub files: Vec<LoadedFile>,
    /// What came with the workspace; `None` when it has no files.
    pub project: Option<Project>,
    /// `[profiles]`, by name.
    pub profiles: IndexMap<String, Profile>,
    /// Those that [`Config::with_profile`] has applied.
    pub chosen: Vec<Profile>,
    /// Configured servers that [`Config::keep_only`] or [`Config::with_profile`] dropped.
    pub left_out: Vec<ServerName>,
    pub(crate) secrets: secret::Secrets,
}

/// A file that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    /// Its path.
    pub path: Arc<Path>,
    /// Whose it is.
    pub layer: Layer,
    /// How it is written, by its ending.
    pub format: Format,
    /// What became of it.
    pub state: FileState,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// There is none.
    Missing,
    /// It was read and holds this many servers.
    Read {
        /// How many.
        servers: usize,
    },
    /// It cannot be read; `Config::problems` says why. What it configures is unknown.
    Broken,
}

impl Config {
    /// Problems for which nothing should run: a broken file, a rule or limit that cannot be read.
    /// Broken servers and providers are not among them; they are set aside.
    pub fn fatal(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
    }

    /// Every problem: those of files and tables, then those of servers and providers set aside.
    pub fn all_problems(&self) -> impl Iterator<Item = &ConfigProblem> {
        let servers = self.servers.values().flat_map(|entry| match &entry.state {
            EntryState::Broken(problems) => problems.as_slice(),
            _ => &[],
        });
        let providers = self
            .model
            .providers
            .values()
            .flat_map(|entry| match &entry.state {
                ProviderState::Broken(problems) => problems.as_slice(),
                ProviderState::Ready(_) => &[],
            });
        self.problems.iter().chain(servers).chain(providers)
    }

    /// The built-in servers to start: those that are on and whose name no configured server has,
    /// ready or not. `[servers.time]` replaces the built-in `time`.
    pub fn builtin_servers(&self) -> Vec<&'static str> {
        let taken = |name: &str| self.servers.keys().any(|server| server.as_str() == name);
        self.builtin
            .each()
            .into_iter()
            .filter(|(name, on)| on.value && !taken(name))
            .map(|(name, _)| name)
            .collect()
    }

    /// Leaves one server, configured or built in, and drops the others. A built-in one that is off
    /// only by default is turned on: it was asked for by name. False when there is no such server.
    pub fn keep_only(&mut self, name: &str) -> bool {
        let others = self.servers.keys().filter(|server| server.as_str() != name);
        self.left_out.extend(others.cloned());
        self.servers.retain(|server, _| server.as_str() == name);
        for (builtin, on) in self.builtin.each_mut() {
            let wanted = builtin == name && self.servers.is_empty();
            on.value = wanted && (on.value || on.origin.layer == Layer::Builtin);
        }
        self.builtin.artifacts.value = false;
        !self.servers.is_empty() || !self.builtin_servers().is_empty()
    }

    /// Secret values met in the configuration, longest first, for redaction.
    pub fn secrets(&self) -> Vec<String> {
        self.secrets.values()
    }
}

//! How far a run may go, and which built-in servers it has.

use std::time::Duration;

use super::origin::Setting;

/// `[limits]`. A run that reaches one ends with a message that says so; a gateway that has as many
/// servers as it may lets further ones wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLimits {
    /// Turns of the model. 40 by default.
    pub max_turns: Setting<u32>,
    /// Tool calls. 200 by default.
    pub max_calls: Setting<u32>,
    /// Tokens in and out, all turns together. None by default.
    pub max_tokens: Setting<Option<u64>>,
    /// Time, waiting for a person not counted. 30 minutes by default.
    pub max_time: Setting<Duration>,
    /// Server processes of a gateway at one time. 100 by default.
    pub max_servers: Setting<usize>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_turns: Setting::builtin(40),
            max_calls: Setting::builtin(200),
            max_tokens: Setting::builtin(None),
            max_time: Setting::builtin(Duration::from_secs(30 * 60)),
            max_servers: Setting::builtin(100),
        }
    }
}

/// `[builtin]`: which built-in servers are on. One that has the name of a configured server is
/// replaced by it; ask `Config::builtin_servers` for what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltinSettings {
    /// Dates and times. On by default.
    pub time: Setting<bool>,
    /// The files of the workspace. On by default.
    pub workspace: Setting<bool>,
    /// Repeats what it is told; for trying things out. Off by default.
    pub echo: Setting<bool>,
    /// Lets models list and read the resources of other servers. Off by default: it costs tokens.
    pub resources: Setting<bool>,
    /// Artifacts, once a run has one. On by default; not among those that stand by themselves
    /// ([`BuiltinSettings::each`]).
    pub artifacts: Setting<bool>,
}

impl Default for BuiltinSettings {
    fn default() -> Self {
        Self {
            time: Setting::builtin(true),
            workspace: Setting::builtin(true),
            echo: Setting::builtin(false),
            resources: Setting::builtin(false),
            artifacts: Setting::builtin(true),
        }
    }
}

impl BuiltinSettings {
    /// Every built-in server that stands by itself, by name.
    pub fn each(&self) -> [(&'static str, &Setting<bool>); 4] {
        [
            ("time", &self.time),
            ("workspace", &self.workspace),
            ("echo", &self.echo),
            ("resources", &self.resources),
        ]
    }

    pub(super) fn each_mut(&mut self) -> [(&'static str, &mut Setting<bool>); 4] {
        [
            ("time", &mut self.time),
            ("workspace", &mut self.workspace),
            ("echo", &mut self.echo),
            ("resources", &mut self.resources),
        ]
    }
}

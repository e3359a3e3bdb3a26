//! Hooks as configured: programs and addresses that hear of calls and sessions, and may have a say.
//! What their answers do to a call is decided elsewhere.

use std::fmt;
use std::time::Duration;

use outrigger_connect::TransportSpec;

use super::gap::Gap;
use super::origin::Origin;
use super::server::WrittenKey;

/// When a hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// Before policy decides about a call whose arguments fit their schema.
    BeforeCall,
    /// After a call that was sent.
    AfterCall,
    /// Before the servers of a run are started.
    SessionStart,
    /// After they were closed.
    SessionEnd,
}

impl HookEvent {
    /// All there are.
    pub const ALL: [Self; 4] = [
        Self::BeforeCall,
        Self::AfterCall,
        Self::SessionStart,
        Self::SessionEnd,
    ];

    /// The word that configuration, hooks and journal use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeCall => "before_call",
            Self::AfterCall => "after_call",
            Self::SessionStart => "session_start",
            Self::SessionEnd => "session_end",
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One hook.
#[derive(Clone)]
pub struct HookSettings {
    /// When it is run.
    pub event: HookEvent,
    /// How it is reached: a program (`Stdio`) that is given JSON on its standard input and answers on
    /// its standard output, or an address (`Http`) that it is sent to.
    pub reach: TransportSpec,
    /// A glob over model-facing names: only calls of these tools. It always compiles.
    pub tool: Option<String>,
    /// A glob over names of servers: only calls of their tools. It always compiles.
    pub server: Option<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Where it was written.
    pub origin: Origin,
    pub(crate) written: Vec<WrittenKey>,
    pub(crate) gaps: Vec<Gap>,
}

impl HookSettings {
    /// Whether it is run: what comes with a project waits until that is trusted.
    pub fn is_trusted(&self) -> bool {
        self.origin.layer.may_loosen()
    }

    /// How long a hook may take unless it says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
}

impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSettings")
            .field("event", &self.event)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// As people find it.
impl fmt::Display for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} hook at {}", self.event, self.origin)
    }
}

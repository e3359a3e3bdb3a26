//! How a gateway has the calls of its clients approved, and how it ends.

use std::time::Duration;

use super::origin::Setting;

/// `[gateway]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Who is asked where a rule asks, one after the other until somebody answers; with none left, the
    /// call is refused. The client alone by default.
    pub approvals: Setting<Vec<ApprovalWay>>,
    /// How long a call waits in the queue. 10 minutes by default.
    pub approval_timeout: Setting<Duration>,
    /// How long calls that are under way have to end when the gateway is asked to. 10 seconds by default.
    pub drain_timeout: Setting<Duration>,
}

/// A way to somebody who may approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalWay {
    /// The client that makes the call, by elicitation.
    Client,
    /// Whoever looks at the queue of approvals.
    Queue,
}

impl ApprovalWay {
    pub(super) const WORDS: [(&'static str, Self); 2] =
        [("client", Self::Client), ("queue", Self::Queue)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Queue => "queue",
        }
    }
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            approvals: Setting::builtin(vec![ApprovalWay::Client]),
            approval_timeout: Setting::builtin(Duration::from_mins(10)),
            drain_timeout: Setting::builtin(Duration::from_secs(10)),
        }
    }
}

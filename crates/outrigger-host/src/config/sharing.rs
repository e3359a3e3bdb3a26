//! Who uses a server, where a gateway serves several principals.

use outrigger_connect::{OAuthSettings, TransportSpec};

use super::Config;
use super::server::EntryState;

/// Whether several principals of a gateway may use one server at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One that runs, or one connection, for all principals.
    Shared,
    /// Each principal has its own.
    PerPrincipal,
}

impl Sharing {
    /// Where nothing is written. What a process remembers of its callers is not known, and whoever signs
    /// in does so for one principal: both are kept apart. An address that is sent fixed headers knows
    /// everybody by the same.
    pub(super) fn of(transport: &TransportSpec) -> Self {
        match transport {
            TransportSpec::Http(http)
            | TransportSpec::Sse(http)
            | TransportSpec::WebSocket(http)
                if !http.headers.is_empty() && http.oauth == OAuthSettings::default() =>
            {
                Self::Shared
            }
            _ => Self::PerPrincipal,
        }
    }
}

impl Config {
    /// Whether any server may run in one place at a time.
    pub fn has_single(&self) -> bool {
        self.servers.values().any(|entry| match &entry.state {
            EntryState::Ready(settings) => settings.single,
            _ => false,
        })
    }

    /// Has no server run in one place at a time: for who starts none of them.
    pub fn forget_single(&mut self) {
        for entry in self.servers.values_mut() {
            if let EntryState::Ready(settings) = &mut entry.state {
                settings.single = false;
            }
        }
    }
}

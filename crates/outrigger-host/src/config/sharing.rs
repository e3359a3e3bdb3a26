//! Who uses a server, where a gateway serves several principals.

use outrigger_connect::{OAuthSettings, TransportSpec};

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

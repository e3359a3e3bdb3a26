//! What holds for every server whose own entry says nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use outrigger_connect::{Deadlines, Limits};

use super::origin::Origin;

/// `[timeouts]`, the keys of `[limits]` that bound a server, and `[tls]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerDefaults {
    /// `[timeouts]`.
    pub deadlines: Deadlines,
    /// The keys of `[limits]` that bound a server.
    pub limits: Limits,
    /// Certificate authorities that are trusted besides those of the system: `tls.ca_files`, then
    /// the file that `NODE_EXTRA_CA_CERTS` names. Absolute paths.
    pub ca_files: Vec<PathBuf>,
    /// Where each key that a file has was written, as `timeouts.start`.
    origins: BTreeMap<String, Origin>,
}

impl ServerDefaults {
    /// Where the value of a key, such as `timeouts.start`, was written.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins
            .get(key)
            .cloned()
            .unwrap_or_else(Origin::builtin)
    }

    pub(super) fn note(&mut self, key: String, origin: Origin) {
        self.origins.insert(key, origin);
    }
}

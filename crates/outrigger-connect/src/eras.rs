//! Which era a server turned out to speak, so that it is not asked each time.
//!
//! Promises: what is remembered only decides what is tried first; when it does not hold any more
//! the server is probed again. Leaves out: where it is kept.

use std::fmt::{self, Write};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::connection::Era;
use crate::{ServerSpec, TransportSpec};

/// Keeps the era of each server between connections, and between runs if it likes. Called on the
/// way to a connection: it must return quickly, and what it cannot keep it forgets.
pub trait EraCache: Send + Sync {
    /// The era that was last put for this key.
    fn get(&self, key: &str) -> Option<Era>;

    /// `None`: what was remembered for this key does not hold.
    fn put(&self, key: &str, era: Option<Era>);
}

#[derive(Clone)]
pub(crate) struct Eras(pub(crate) Arc<dyn EraCache>);

impl fmt::Debug for Eras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Eras")
    }
}

impl ServerSpec {
    /// 64 hex digits that stand for how the server is reached: its command, arguments and folder, or
    /// its address. Values of the environment and headers, which may be secret, are no part of it.
    /// `None` for a server in this process.
    pub(crate) fn key(&self) -> Option<String> {
        let mut hash = Sha256::new();
        // Each part with its length, so that parts cannot run into each other.
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        match &self.transport {
            TransportSpec::Stdio(spec) => {
                add(b"stdio");
                add(spec.command.as_bytes());
                for argument in &spec.args {
                    add(argument.as_bytes());
                }
                add(b"in");
                add(spec.cwd.as_os_str().as_encoded_bytes());
            }
            TransportSpec::Http(spec) => {
                add(b"http");
                add(spec.url.as_str().as_bytes());
            }
            TransportSpec::WebSocket(spec) => {
                add(b"ws");
                add(spec.url.as_str().as_bytes());
            }
            TransportSpec::Sse(_) | TransportSpec::InProcess(_) => return None,
        }
        let mut key = String::with_capacity(64);
        for byte in hash.finalize() {
            let _ = write!(key, "{byte:02x}");
        }
        Some(key)
    }
}

//! What the built-in server `resources` lists and reads: the resources of the host that it runs in.
//!
//! Leaves out whether a model may read them: the host decided about the call that came here, and reads
//! nothing else.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outrigger_host::{Host, WeakHost};
use outrigger_servers::{Reading, Shelf};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The resources of a host that is made after its built-in servers.
#[derive(Clone, Default)]
pub(crate) struct HostShelf(Arc<Mutex<Option<WeakHost>>>);

impl HostShelf {
    /// It is this host's, and no earlier one's any more.
    pub(crate) fn of(&self, host: Host) -> Host {
        *self.host_now() = Some(host.downgrade());
        host
    }

    fn host_now(&self) -> MutexGuard<'_, Option<WeakHost>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn host(&self) -> Option<Host> {
        self.host_now().as_ref().and_then(WeakHost::upgrade)
    }
}

impl fmt::Debug for HostShelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostShelf")
    }
}

const GONE: &str = "the host is closing";

impl Shelf for HostShelf {
    fn list(&self, server: Option<String>) -> Reading<String> {
        let host = self.host();
        Box::pin(async move {
            let host = host.ok_or(GONE)?;
            host.resources_in_words(server.as_deref()).await
        })
    }

    fn read(
        &self,
        server: String,
        uri: String,
        cancelled: CancellationToken,
    ) -> Reading<Vec<Value>> {
        let host = self.host();
        Box::pin(async move {
            let host = host.ok_or(GONE)?;
            let read = host.read_resource_for_model(&server, &uri, cancelled).await;
            let read = read.map_err(|error| error.to_string())?;
            let mut answer: Value = serde_json::from_str(read.raw.get()).unwrap_or_default();
            match answer["contents"].take() {
                Value::Array(pieces) => Ok(pieces),
                _ => Ok(Vec::new()),
            }
        })
    }
}

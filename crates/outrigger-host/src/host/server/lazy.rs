//! A server that is started when it is wanted. Until then it is listed as it was last seen: its tools
//! as they were approved, from where pins keep them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outrigger_connect::{ServerName, ToolListing};
use tokio::sync::Notify;

use super::life::Life;
use super::{Launch, ServerState};
use crate::catalog::ServerCatalog;

/// Says that a server is wanted.
#[derive(Default)]
pub(in crate::host) struct Wanted {
    notify: Notify,
    said: AtomicBool,
}

impl Wanted {
    pub(super) fn say(&self) {
        self.said.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }

    pub(super) fn is_said(&self) -> bool {
        self.said.load(Ordering::Relaxed)
    }
}

impl Life {
    /// Lists what is known of the server. What follows is [`Life::run_when_wanted`].
    pub(super) fn wait_to_be_wanted(&self) {
        if let Some(catalog) = self.last_known() {
            self.publish(Some(Arc::new(catalog)));
        }
        self.state.send_replace(ServerState::Idle);
    }

    /// Waits until somebody wants the server, and then lives like any other.
    pub(super) async fn run_when_wanted(self, wanted: Arc<Wanted>) {
        tokio::select! {
            () = self.launch.stop.cancelled() => {
                self.state.send_replace(ServerState::Stopped);
                return;
            }
            () = wanted.notify.notified() => {}
        }
        self.state.send_replace(ServerState::Starting);
        let (launch, name) = (self.launch.clone(), self.spec.name.clone());
        self.run().await;
        withdraw(&launch, &name);
    }

    /// Waits until the run has an artifact to read, and then lives like any other.
    pub(super) async fn run_when_there_are_artifacts(self) {
        tokio::select! {
            () = self.launch.stop.cancelled() => return self.stopped(),
            () = self.launch.wanted.cancelled() => {}
        }
        self.run().await;
    }

    /// `None` when it was never seen, or nothing of it is left that may be used.
    fn last_known(&self) -> Option<ServerCatalog> {
        let identity = self.identity.as_ref()?;
        let listing = ToolListing {
            tools: self.launch.pins.last_known(identity),
            pages: 0,
            problems: Vec::new(),
            took: Duration::ZERO,
        };
        let mut catalog = ServerCatalog::read(&self.spec.name, self.standing, listing);
        catalog
            .tools
            .retain(|tool| self.filter.admits(&tool.raw_name));
        catalog.remembered = true;
        (!catalog.tools.is_empty()).then_some(catalog)
    }
}

/// Takes out what is still listed of a server that has ended for good.
fn withdraw(launch: &Launch, server: &ServerName) {
    let mut catalog = launch
        .catalog
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    if catalog.servers.remove(server).is_some() {
        catalog.revision += 1;
        launch.published.send_replace(catalog.revision);
    }
}

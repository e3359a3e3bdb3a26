//! A server that is started when it is wanted. Until then it is listed as it was last seen: its tools
//! as they were approved, from where pins keep them.

use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::ToolListing;
use tokio_util::sync::CancellationToken;

use super::life::Life;
use crate::catalog::ServerCatalog;

impl Life {
    /// Lists what is known of the server. What follows is [`Life::run_when_wanted`].
    pub(super) fn list_what_is_known(&self) {
        if let Some(catalog) = self.last_known() {
            self.running.publish(Some(Arc::new(catalog)));
        }
    }

    /// Waits until somebody wants the server, and then lives like any other.
    pub(super) async fn run_when_wanted(self) {
        // One that may run elsewhere waits for its lease as well.
        if !self.running.is_single() && !self.until_wanted().await {
            return self.stopped();
        }
        let running = Arc::clone(&self.running);
        self.run().await;
        // What is still listed of a server that has ended for good.
        running.publish(None);
    }

    /// Waits until the run has an artifact to read, and then lives like any other.
    pub(super) async fn run_after(self, artifacts: CancellationToken) {
        tokio::select! {
            () = self.running.stop.cancelled() => return self.stopped(),
            () = artifacts.cancelled() => {}
        }
        self.run().await;
    }

    /// `None` when it was never seen, or nothing of it is left that may be used.
    fn last_known(&self) -> Option<ServerCatalog> {
        let recipe = &self.running.recipe;
        let identity = recipe.identity.as_ref()?;
        let listing = ToolListing {
            tools: self.launch.pins.last_known(identity),
            pages: 0,
            problems: Vec::new(),
            took: Duration::ZERO,
        };
        let mut catalog = ServerCatalog::read(recipe.name(), recipe.standing, listing);
        catalog.tools.retain(|tool| recipe.filter.admits(tool));
        catalog.remembered = true;
        (!catalog.tools.is_empty()).then_some(catalog)
    }
}

//! Servers that were set aside, and may be better by now.

use outrigger_connect::ServerName;

use super::Host;
use super::server::ServerState;

impl Host {
    /// Starts a server once more that could not be started, or kept ending, unless that was tried a moment ago; waits
    /// until it is known what became of it. For hosts that live long: what was missing may be there by now.
    pub async fn revive(&self, server: &ServerName) {
        let Some(member) = self.shared.servers.get(server) else {
            return;
        };
        let mut state = member.state.clone();
        let is_unknown = || !self.catalog().servers.contains_key(server);
        if matches!(*state.borrow(), ServerState::Elsewhere(_)) && is_unknown() {
            // Whoever has it may have it for long, and its tools were never seen here.
            return self.started(server).await;
        }
        if !matches!(*state.borrow_and_update(), ServerState::Quarantined(_)) || !member.revive() {
            return;
        }
        // It begins, and comes to an end of one kind or another; an error means that its task is gone.
        if state.changed().await.is_ok() {
            drop(state.wait_for(|state| !state.is_starting()).await);
        }
    }
}

//! Servers that are started when they are wanted: by a person's command, by a model, or because a
//! tool of theirs is called.

use std::sync::Arc;

use outrigger_connect::ServerName;

use super::Host;
use super::server::{InUse, Ready, ServerState};
use crate::config::Decision;
use crate::discovery::Facility;
use crate::policy::Subject;
use crate::toolset::{KnownServer, ServerStanding};

impl Host {
    /// Starts the servers that wait to be wanted. `all`: those too whose tools are known from earlier.
    pub fn wake(&self, all: bool) {
        let catalog = self.catalog();
        for (name, member) in &self.shared.servers {
            if all || !catalog.servers.contains_key(name) {
                member.wake();
            }
        }
    }

    /// Starts a server if it waits to be wanted, and waits until it is known what became of it.
    pub(crate) async fn started(&self, server: &ServerName) {
        let Some(member) = self.shared.servers.get(server) else {
            return;
        };
        let mut state = member.state.clone();
        let waits = state.borrow().waits_to_be_wanted();
        // Somebody else may have wanted it a moment ago.
        if !waits && !state.borrow().is_starting() {
            return;
        }
        if waits {
            member.wake();
        }
        // An error means that the server's task is gone, and so is the waiting.
        drop(state.wait_for(|state| !member.is_unsettled(state)).await);
    }

    /// Keeps a server from being stopped for being idle while what this returns lives.
    pub(crate) fn using(&self, server: &ServerName) -> Option<InUse> {
        self.shared.servers.get(server)?.hold()
    }

    /// The connection that a server had, while it is stopped for being idle.
    pub(crate) fn resting(&self, server: &ServerName) -> Option<Arc<Ready>> {
        self.shared.servers.get(server)?.resting()
    }

    /// The servers as a model may know of them: not what is switched off, and nothing of why one fails.
    pub(super) fn known_servers(&self) -> Vec<KnownServer> {
        let known = self.shared.servers.iter().filter_map(|(name, member)| {
            let standing = match member.now() {
                ServerState::Ready(_) => ServerStanding::Ready,
                state if state.waits_to_be_wanted() && self.may_not_start(name) => return None,
                state if state.waits_to_be_wanted() => ServerStanding::Idle,
                ServerState::Disabled | ServerState::Stopped => return None,
                _ => ServerStanding::Unavailable,
            };
            Some(KnownServer {
                server: name.clone(),
                description: member.description.clone(),
                standing,
            })
        });
        known.collect()
    }

    /// Whether no model may ever start it.
    fn may_not_start(&self, server: &ServerName) -> bool {
        let Some(tool) = Facility::Connect.tool() else {
            return true;
        };
        let mut subject = Subject::from(&**tool);
        subject.server = server.as_str();
        self.policy().outlook(subject).verdict.decision == Decision::Deny
    }

    /// Whether any server is started only when it is wanted.
    pub(super) fn has_lazy(&self) -> bool {
        self.shared
            .servers
            .values()
            .any(super::server::Member::is_lazy)
    }
}

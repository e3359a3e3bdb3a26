//! What servers offered when they were last seen, for whoever shows tools before servers have started.

use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{ServerName, ToolListing};

use super::Host;
use crate::catalog::{CatalogTool, ServerCatalog};
use crate::config::Decision;

impl Host {
    /// The tools that a server had when it was last seen, by any program of this state folder, as they were
    /// approved; without those that policy denies whatever the arguments. Empty where it was never seen, and
    /// for one of ours. They may be shown; what may be called is the toolset's.
    pub fn last_seen(&self, server: &ServerName) -> Vec<Arc<CatalogTool>> {
        let member = self.shared.servers.get(server);
        let Some((member, identity)) = member.and_then(|it| Some((it, it.identity.as_ref()?)))
        else {
            return Vec::new();
        };
        let listing = ToolListing {
            tools: self.pins().last_known(identity),
            pages: 0,
            problems: Vec::new(),
            took: Duration::ZERO,
        };
        let seen = ServerCatalog::read(server, member.standing, listing);
        let shown = |tool: &Arc<CatalogTool>| member.admits(tool) && self.may_ever(tool);
        seen.tools.into_iter().filter(shown).collect()
    }

    /// Whether policy lets a tool be called with any arguments at all.
    pub(super) fn may_ever(&self, tool: &CatalogTool) -> bool {
        self.shared.policy.outlook(tool).verdict.decision != Decision::Deny
    }
}

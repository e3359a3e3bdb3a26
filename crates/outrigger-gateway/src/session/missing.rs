//! Where the name of a tool leads, and why nothing is there.
//!
//! Promises: a call to a server that is starting, or is being started again, waits for it, for a while; one
//! to a server that was set aside has it tried once more, if that was not tried a moment ago;
//! a name that nothing is known of leads to the server that it would be a tool of, so that whoever calls
//! learns what is wrong with that server.

use outrigger_connect::ServerName;
use outrigger_host::ServerState;
use outrigger_host::ToolName;
use outrigger_host::outcome::CallOutcome;
use outrigger_host::words::{self, Checks, Whose};

use super::{Session, Task};
use crate::answer::{self, Missing};
use crate::gateway::START;
use crate::view::Entry;
use crate::{names, reason};

impl Session {
    /// Where the name of a tool leads, once its server has started.
    pub(super) async fn lead(&self, task: &Task, name: &str) -> Option<Entry> {
        let core = &self.core;
        let entry = core.views.current().entry(name).cloned();
        let server = match &entry {
            Some(entry) => Some(entry.server.clone()),
            None => self.would_be_of(name),
        };
        if let Some((server, mut state)) =
            server.and_then(|it| Some((it.clone(), core.host().watch(&it)?)))
        {
            let coming = |state: &ServerState| {
                state.is_starting() || matches!(state, ServerState::Backoff(_))
            };
            let there = async {
                core.host().revive(&server).await;
                state.wait_for(|state| !coming(state)).await.map(drop)
            };
            tokio::select! {
                () = task.cancel.cancelled() => {}
                _ = tokio::time::timeout(START, there) => {}
            }
        } else if core.views.waits_for_the_unknown() {
            tokio::select! {
                () = task.cancel.cancelled() => {}
                () = core.first_listing() => {}
            }
        }
        if entry.is_none() {
            core.views.refresh();
            return core.views.current().entry(name).cloned();
        }
        entry
    }

    /// The server that a tool of this name would be of, where there is such a server.
    fn would_be_of(&self, name: &str) -> Option<ServerName> {
        let host = &self.core.host();
        let server = if self.core.own_names {
            let mut all = host.server_names().into_iter();
            all.next().filter(|_| all.next().is_none())?
        } else {
            ServerName::new(names::server_of(name)?).ok()?
        };
        host.watch(&server).map(|_| server)
    }

    /// Why there is no such tool now: of one that clients are shown, of a server that is not there, of one that
    /// is held back or set aside. `None`: nothing is known of it.
    pub(super) fn why_missing(&self, entry: Option<&Entry>, name: &str) -> Option<Missing> {
        let server = match entry {
            Some(entry) => entry.server.clone(),
            None => self.would_be_of(name)?,
        };
        let host = entry.map_or_else(|| format!("mcp__{name}"), |entry| entry.host.clone());
        let is_it = |own: &str| {
            let by_own_name = self.core.own_names && own == name;
            by_own_name || ToolName::new(&server, own).as_str() == host
        };
        let catalog = self.core.host().catalog();
        if let Some(offered) = catalog.servers.get(&server) {
            if offered.held.iter().any(|held| is_it(&held.tool.raw_name)) {
                return Some(Missing {
                    words: answer::HELD_BACK.to_owned(),
                    reason: "held_back",
                });
            }
            if let Some(aside) = offered.set_aside.iter().find(|aside| is_it(&aside.tool)) {
                let why = format!("the tool is set aside: {}", aside.reason);
                return Some(missing(&server, &why, "set_aside"));
            }
        }
        let gone = self.why_gone(&server);
        let known =
            entry.map(|_| missing(&server, "it no longer offers this tool", "unknown_tool"));
        gone.or(known)
    }

    /// Why a server is not there.
    fn why_gone(&self, server: &ServerName) -> Option<Missing> {
        let state = self.core.host().watch(server)?.borrow().clone();
        Some(missing(
            server,
            &state.why_missing()?,
            reason::of_state(&state),
        ))
    }
}

fn missing(server: &ServerName, why: &str, reason: &'static str) -> Missing {
    let outcome = CallOutcome::NotSent(why.to_owned());
    let server = Some(server.as_str());
    let words = words::for_model(&outcome, Whose::of_server(server), &Checks::default());
    let texts: Vec<_> = words.iter().filter_map(answer::text).collect();
    Missing {
        words: texts.join("\n"),
        reason,
    }
}

//! What clients are told of without asking: that a list has changed.
//!
//! Promises: a client hears of each list that is another one than when it was last told or asked; many
//! changes of a server in a short time are one. Leaves out: what `subscriptions/listen` tells
//! (`session/listen`).
//! Source: MCP, "List Changed Notification" of tools, prompts and resources.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{BoxFuture, select_all};
use outrigger_connect::{Offer, ServerName};
use outrigger_host::{Host, Ready, ServerState};
use tokio::sync::watch;

use crate::gateway::Core;
use crate::message;
use crate::outlet::Outlet;
use crate::renew::Present;
use crate::session::Session;

/// Changes within this time are one.
const COALESCE: Duration = Duration::from_millis(200);

pub(crate) const TOOLS: &str = "notifications/tools/list_changed";
pub(crate) const PROMPTS: &str = "notifications/prompts/list_changed";
pub(crate) const RESOURCES: &str = "notifications/resources/list_changed";

/// How often the lists of prompts and of resources have changed.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) prompts: watch::Sender<u64>,
    pub(crate) resources: watch::Sender<u64>,
}

/// A server that is there, and what it announces.
struct Heard {
    ready: Weak<Ready>,
    /// Whether it has prompts, and resources.
    has: (bool, bool),
    prompts: watch::Receiver<u64>,
    resources: watch::Receiver<u64>,
}

impl News {
    /// Counts what the servers of one host after the other announce, and that they come and go.
    pub(crate) async fn follow(&self, present: &Present) {
        let (mut present, mut heard) = (present.watch(), HashMap::new());
        loop {
            let states = states(&present.borrow_and_update().host);
            let gone = heard.extract_if(|name, _| !states.contains_key(name));
            for (_, Heard { has, .. }) in gone {
                self.come_or_gone(has);
            }
            tokio::select! {
                changed = present.changed() => if changed.is_err() { return },
                () = self.follow_one(states, &mut heard) => {}
            }
        }
    }

    fn come_or_gone(&self, (prompts, resources): (bool, bool)) {
        if prompts {
            count(&self.prompts);
        }
        if resources {
            count(&self.resources);
        }
    }

    /// Never ends by itself.
    async fn follow_one(&self, mut states: States, heard: &mut HashMap<ServerName, Heard>) {
        loop {
            for (name, state) in &mut states {
                let state = state.borrow_and_update().clone();
                self.come_or_gone(hear(heard, name, &state));
            }
            for server in heard.values_mut() {
                for (list, announced) in [
                    (&self.prompts, &mut server.prompts),
                    (&self.resources, &mut server.resources),
                ] {
                    if announced.has_changed().unwrap_or(false) {
                        announced.mark_unchanged();
                        count(list);
                    }
                }
            }
            let states = states.values_mut().map(next);
            let announced = heard
                .values_mut()
                .flat_map(|server| [unread(&mut server.prompts), unread(&mut server.resources)]);
            let all: Vec<_> = states.chain(announced).collect();
            if all.is_empty() {
                return std::future::pending().await;
            }
            select_all(all).await;
            tokio::time::sleep(COALESCE).await;
        }
    }
}

/// Where the servers of a host stand.
type States = HashMap<ServerName, watch::Receiver<ServerState>>;

fn states(host: &Host) -> States {
    let names = host.server_names().into_iter();
    names
        .filter_map(|name| Some((name.clone(), host.watch(&name)?)))
        .collect()
}

/// Takes in where a server stands; whether prompts, and resources, have come or gone by that.
fn hear(
    heard: &mut HashMap<ServerName, Heard>,
    name: &ServerName,
    state: &ServerState,
) -> (bool, bool) {
    // One that is stopped for being idle, or runs elsewhere, has what it had.
    if state.waits_to_be_wanted() {
        return (false, false);
    }
    let ServerState::Ready(ready) = state else {
        let gone = heard.remove(name);
        return gone.map_or((false, false), |gone| gone.has);
    };
    let is_it = |known: &Heard| known.ready.ptr_eq(&Arc::downgrade(ready));
    if heard.get(name).is_some_and(is_it) {
        return (false, false);
    }
    let has = (
        ready.connection.declares(Offer::Prompts),
        ready.connection.declares(Offer::Resources),
    );
    let now = Heard {
        ready: Arc::downgrade(ready),
        has,
        prompts: ready.connection.prompts_changed(),
        resources: ready.connection.resources_changed(),
    };
    let before = heard.insert(name.clone(), now);
    let before = before.map_or((false, false), |before| before.has);
    (has.0 || before.0, has.1 || before.1)
}

fn count(list: &watch::Sender<u64>) {
    list.send_modify(|count| *count += 1);
}

/// The next change; never, where nothing can change any more.
fn next<T: Send + Sync>(of: &mut watch::Receiver<T>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        if of.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// The next change, which counts as one that was not read.
fn unread<T: Send + Sync>(of: &mut watch::Receiver<T>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        next(of).await;
        of.mark_changed();
    })
}

/// Tells a client of the legacy era of lists that have changed, for as long as it listens. `known`: the
/// number of the view that it knows; `None` where it knows none.
pub(crate) async fn tell(core: &Core, session: &Session, outlet: &Outlet, mut known: Option<u64>) {
    let mut views = core.views.watch();
    let mut prompts = core.news.prompts.subscribe();
    let mut resources = core.news.resources.subscribe();
    loop {
        let now = views.borrow_and_update().number;
        let mut method = known
            .replace(now)
            .is_some_and(|known| known != now)
            .then_some(TOOLS);
        if method.is_none() {
            method = tokio::select! {
                () = next(&mut views) => None,
                () = next(&mut prompts) => Some(PROMPTS),
                () = next(&mut resources) => Some(RESOURCES),
            };
        }
        if let Some(method) = method.filter(|_| session.is_legacy()) {
            outlet.put(message::notification(method, "{}")).await;
        }
    }
}

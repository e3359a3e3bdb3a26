//! A server that runs for one host or for several: what it is, where it stands, what it offers, and who
//! holds it. It ends when the last of them lets go.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use outrigger_connect::{ServerName, ServerSpec};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::demand::Demand;
use super::revival::Revival;
use super::{Failure, Ready, ServerState};
use crate::catalog::{ServerCatalog, Standing, ToolFilter};
use crate::config::Repeating;
use crate::host::board::Board;
use crate::pins::ServerIdentity;
use crate::questions::Answers;

/// All that makes a server what it is, its secrets too. Hosts whose recipes are equal may share it.
#[derive(PartialEq)]
pub(in crate::host) struct Recipe {
    pub(super) spec: ServerSpec,
    pub(super) standing: Standing,
    pub(super) filter: ToolFilter,
    /// `None` for one of ours: it is what it is with this program.
    pub(super) identity: Option<ServerIdentity>,
    pub(super) answers: Answers,
    pub(super) repeating: Repeating,
    /// It may run in one place at a time.
    pub(super) single: bool,
}

impl Recipe {
    pub(in crate::host) fn name(&self) -> &ServerName {
        &self.spec.name
    }
}

/// A server from its start to its end, restarts included.
pub(in crate::host) struct Running {
    pub(super) recipe: Recipe,
    state: watch::Sender<ServerState>,
    desk: Mutex<Desk>,
    restarts: AtomicU64,
    /// It was told that it runs elsewhere.
    told: AtomicBool,
    /// Calls for it once more, where it was set aside.
    pub(super) revival: Revival,
    pub(super) demand: Demand,
    /// The last connection, closed, while it is put to rest.
    resting: Mutex<Option<Arc<Ready>>>,
    /// Cancelled when nobody holds it any more.
    pub(super) stop: CancellationToken,
    tasks: TaskTracker,
}

/// Who is told what it offers.
#[derive(Default)]
struct Desk {
    offered: Option<Arc<ServerCatalog>>,
    holders: Vec<Arc<Board>>,
    /// Everybody has let go.
    over: bool,
}

impl Running {
    pub(super) fn new(recipe: Recipe, state: ServerState) -> Self {
        Self {
            recipe,
            state: watch::Sender::new(state),
            desk: Mutex::default(),
            restarts: AtomicU64::new(0),
            told: AtomicBool::new(false),
            revival: Revival::default(),
            demand: Demand::default(),
            resting: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn name(&self) -> &ServerName {
        self.recipe.name()
    }

    pub(in crate::host) fn is_made_by(&self, recipe: &Recipe) -> bool {
        self.recipe == *recipe
    }

    /// Whether it may run in one place at a time.
    pub(in crate::host) fn is_single(&self) -> bool {
        self.recipe.single
    }

    /// Has it started, if it waits to be wanted.
    pub(in crate::host) fn wake(&self) {
        self.demand.say();
    }

    /// Lives in a task of its own. A fault of ours in it leads to what `failed` says of it: nobody looks after
    /// the server any more, and its state would be the last one for ever.
    pub(super) fn live(
        self: &Arc<Self>,
        life: impl Future<Output = ()> + Send + 'static,
        failed: impl FnOnce(Failure) -> ServerState + Send + 'static,
    ) {
        let running = Arc::clone(self);
        self.tasks.spawn(async move {
            // Nothing of it is used again.
            if AssertUnwindSafe(Box::pin(life))
                .catch_unwind()
                .await
                .is_err()
            {
                running.publish(None);
                running.is(failed(Failure::fault()));
            }
        });
        self.tasks.close();
    }

    pub(super) fn watch(&self) -> watch::Receiver<ServerState> {
        self.state.subscribe()
    }

    pub(super) fn is(&self, state: ServerState) {
        self.state.send_replace(state);
    }

    /// Is put to rest: stopped, with what it offered still listed, until it is wanted.
    pub(super) fn rest(&self) {
        let ready = match &*self.state.borrow() {
            ServerState::Ready(ready) => Some(Arc::clone(ready)),
            _ => None,
        };
        *lock(&self.resting) = ready;
        self.is(ServerState::Idle);
    }

    /// The connection that it had, while it is put to rest.
    pub(super) fn resting(&self) -> Option<Arc<Ready>> {
        let idle = self.state.borrow().waits_to_be_wanted();
        lock(&self.resting).clone().filter(|_| idle)
    }

    /// Is started again.
    pub(super) fn rises(&self) {
        self.is(ServerState::Starting);
        lock(&self.resting).take();
    }

    /// How often it was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(super) fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether anything is listed of it.
    pub(super) fn is_listed(&self) -> bool {
        self.desk().offered.is_some()
    }

    /// Whether it is to be told that it runs elsewhere: once.
    pub(super) fn is_told_first(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }

    /// Puts what it offers on the boards of all who hold it, before anybody can go on because of it.
    pub(super) fn publish(&self, offered: Option<Arc<ServerCatalog>>) {
        let mut desk = self.desk();
        desk.offered = offered;
        for board in &desk.holders {
            board.put(self.name(), desk.offered.as_ref());
        }
    }

    /// Is held for this board too. False when it has ended, or is about to.
    pub(in crate::host) fn join(&self, board: &Arc<Board>) -> bool {
        let mut desk = self.desk();
        if desk.over {
            return false;
        }
        if let Some(offered) = &desk.offered {
            board.put(self.name(), Some(offered));
        }
        desk.holders.push(Arc::clone(board));
        true
    }

    /// Is not held for this board any more. The last to leave ends it.
    pub(super) fn leave(&self, board: &Arc<Board>) {
        let mut desk = self.desk();
        let before = desk.holders.len();
        desk.holders.retain(|holder| !Arc::ptr_eq(holder, board));
        if desk.holders.len() == before {
            return;
        }
        board.put(self.name(), None);
        if desk.holders.is_empty() {
            desk.over = true;
            self.stop.cancel();
        }
    }

    /// Whether it was given up.
    pub(in crate::host) fn has_failed(&self) -> bool {
        matches!(*self.state.borrow(), ServerState::Quarantined(_))
    }

    /// Waits until it has ended, if it is to.
    pub(in crate::host) async fn gone(&self) {
        if self.stop.is_cancelled() {
            self.tasks.wait().await;
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        lock(&self.desk)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use outrigger_connect::{Deadlines, HttpSpec, Limits, Protocol, TransportSpec};
    use url::Url;

    use super::*;

    fn running() -> Arc<Running> {
        let place = Url::parse("http://127.0.0.1:1/mcp").unwrap();
        let recipe = Recipe {
            spec: ServerSpec {
                name: ServerName::new("lab").unwrap(),
                transport: TransportSpec::Http(HttpSpec::new(place)),
                protocol: Protocol::default(),
                versions: None,
                deadlines: Deadlines::default(),
                limits: Limits::default(),
            },
            standing: Standing::default(),
            filter: ToolFilter::default(),
            identity: None,
            answers: Answers::default(),
            repeating: Repeating::default(),
            single: false,
        };
        Arc::new(Running::new(recipe, ServerState::Starting))
    }

    #[tokio::test]
    async fn a_life_that_panics_leaves_its_server_set_aside() {
        let panicking = running();
        let failed = |failure| ServerState::Quarantined(Arc::new(failure));
        panicking.live(async { panic!("as a test has it") }, failed);
        panicking.tasks.wait().await;
        let state = panicking.watch().borrow().clone();
        let why = state.why_missing().unwrap();
        assert!(why.contains("a fault of its own"), "{why}");
        let ending = running();
        ending.live(async {}, failed);
        ending.tasks.wait().await;
        let state = ending.watch();
        assert!(matches!(*state.borrow(), ServerState::Starting));
    }
}

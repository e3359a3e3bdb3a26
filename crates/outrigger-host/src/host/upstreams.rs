//! Running servers, for one host or for several.
//!
//! Promises: hosts that want a server of the same configuration, secrets included, get the same one, and
//! it ends with the last of them; one that is configured otherwise is another server.
//! Leaves out: which servers may be shared; that is said in the configuration.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::join_all;
use outrigger_connect::{Connector, ServerName};
use outrigger_journal::{Leases, Redactor, Run};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::server::{Launch, Recipe, Running, When, start};
use super::upkeep::Upkeep;
use crate::pins::Pins;
use crate::questions::{CallRuns, Clerk, Questions};

/// Starts servers, and lends those that run to every host that wants the same; clones share them.
///
/// A host has its own. What a gateway makes besides, and gives to its hosts as
/// [`Parts::shared`](super::Parts::shared), lends them the servers that are configured as shared.
#[derive(Clone)]
pub struct Upstreams(Arc<Inner>);

struct Inner {
    launch: Launch,
    running: Mutex<HashMap<ServerName, Vec<Weak<Running>>>>,
}

impl Upstreams {
    /// `connector` makes connections; `questions` answer servers, by the call that each belongs to; `run`
    /// records what happens to servers, and has their secrets kept out of it; `pins` know what was
    /// approved; `upkeep` is the gateway's.
    pub fn new(
        connector: Connector,
        questions: Questions,
        run: Run,
        pins: Arc<Pins>,
        upkeep: Option<Upkeep>,
    ) -> Self {
        Self::of(Launch {
            connector,
            clerk: Clerk::new(questions, run.clone(), Arc::default()),
            redactor: run.redactor().clone(),
            run,
            pins,
            upkeep,
            leases: None,
        })
    }

    /// The same, with leases of servers that may run in one place at a time.
    #[must_use]
    pub fn with_leases(self, leases: Leases) -> Self {
        Self::of(Launch {
            leases: Some(leases),
            ..self.0.launch.clone()
        })
    }

    pub(super) fn of(launch: Launch) -> Self {
        Self(Arc::new(Inner {
            launch,
            running: Mutex::default(),
        }))
    }

    pub(super) fn launch(&self) -> &Launch {
        &self.0.launch
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.0.launch.redactor
    }

    /// Knows whose run each call of the servers belongs to.
    pub(super) fn runs(&self) -> &CallRuns {
        self.0.launch.clerk.runs()
    }

    /// Waits until those have ended that nobody holds any more.
    pub(super) async fn gone(&self) {
        let all: Vec<_> = {
            let all = self.0.running.lock();
            let all = all.unwrap_or_else(PoisonError::into_inner);
            let all = all.values().flatten();
            all.filter_map(Weak::upgrade).collect()
        };
        join_all(all.iter().map(|running| running.gone())).await;
    }

    /// Lends none any more that was given up; who wants such a server has another one started.
    pub(super) fn forget_failed(&self) {
        let mut all = self
            .0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for of_name in all.values_mut() {
            let failed = |running: &Arc<Running>| running.has_failed();
            of_name.retain(|running| !running.upgrade().is_some_and(|running| failed(&running)));
        }
    }

    /// A server made by this recipe, for this board: one that runs, or a new one.
    pub(super) fn take(
        &self,
        recipe: Recipe,
        (when, artifacts): (When, &CancellationToken),
        board: &Arc<Board>,
    ) -> Arc<Running> {
        let mut all = self
            .0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let of_name = all.entry(recipe.name().clone()).or_default();
        of_name.retain(|running| running.strong_count() > 0);
        let alike = of_name
            .iter()
            .filter_map(Weak::upgrade)
            .find(|running| running.is_made_by(&recipe) && running.join(board));
        if let Some(running) = alike {
            // One that may run elsewhere is not taken from there because somebody else comes here.
            if when == When::Now && !running.is_single() {
                running.wake();
            }
            return running;
        }
        let running = start(recipe, (when, artifacts), &self.0.launch);
        // Nobody can have let it go yet.
        running.join(board);
        of_name.push(Arc::downgrade(&running));
        running
    }
}

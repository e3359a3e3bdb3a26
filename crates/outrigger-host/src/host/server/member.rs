//! One server, as one host holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::plan::{Plan, Start, When};
use super::running::Running;
use super::{InUse, Ready, ServerState, failed};
use crate::catalog::{CatalogTool, Standing};
use crate::config::Repeating;
use crate::host::board::Board;
use crate::host::upstreams::Upstreams;
use crate::pins::ServerIdentity;
use crate::questions::CallRuns;

/// One server, as a host follows it. Dropped, it is let go.
pub(in crate::host) struct Member {
    pub(in crate::host) state: watch::Receiver<ServerState>,
    /// As pins know it; `None` for one of ours, and for one that is not started.
    pub(in crate::host) identity: Option<ServerIdentity>,
    /// Which of its calls may be made once more.
    pub(in crate::host) repeating: Repeating,
    /// How long a late answer is worth waiting for.
    pub(in crate::host) late: Duration,
    /// What local configuration says about it.
    pub(in crate::host) standing: Standing,
    /// What a person wrote that it is for.
    pub(in crate::host) description: Option<String>,
    /// Where it is shared: knows whose run each of its calls belongs to.
    pub(in crate::host) runs: Option<CallRuns>,
    lazy: bool,
    held: Option<Held>,
}

struct Held {
    running: Arc<Running>,
    board: Arc<Board>,
    /// Restarts that this host has been told of.
    told: AtomicU64,
    left: AtomicBool,
}

/// Where the servers of a host come from.
pub(in crate::host) struct Sources<'s> {
    /// Starts those that are this host's alone.
    pub(in crate::host) own: &'s Upstreams,
    /// Has those that other hosts use too.
    pub(in crate::host) shared: Option<&'s Upstreams>,
    pub(in crate::host) board: &'s Arc<Board>,
    /// Over when there is an artifact to read.
    pub(in crate::host) artifacts: &'s CancellationToken,
}

impl Member {
    /// Has the server started, or takes one that runs already.
    pub(in crate::host) fn of(plan: Plan, from: &Sources<'_>) -> Self {
        match plan.start {
            Start::Disabled => Self::without(ServerState::Disabled, plan.description),
            Start::SetAside(failure) => {
                let state = failed(&plan.name, failure, from.own.launch());
                Self::without(state, plan.description)
            }
            Start::Connect {
                recipe,
                when,
                shared,
            } => {
                let pool = from.shared.filter(|_| shared);
                let upstreams = pool.unwrap_or(from.own);
                let running = upstreams.take(*recipe, (when, from.artifacts), from.board);
                let recipe = &running.recipe;
                Self {
                    state: running.watch(),
                    identity: recipe.identity.clone(),
                    repeating: recipe.repeating.clone(),
                    late: recipe.spec.deadlines.late,
                    standing: recipe.standing,
                    description: plan.description,
                    runs: pool.map(|pool| pool.runs().clone()),
                    lazy: when == When::Wanted,
                    held: Some(Held {
                        told: AtomicU64::new(running.restarts()),
                        running,
                        board: Arc::clone(from.board),
                        left: AtomicBool::new(false),
                    }),
                }
            }
        }
    }

    /// One that does not run.
    fn without(state: ServerState, description: Option<String>) -> Self {
        Self {
            state: watch::Sender::new(state).subscribe(),
            identity: None,
            repeating: Repeating::default(),
            late: Duration::ZERO,
            standing: Standing::default(),
            description,
            runs: None,
            lazy: false,
            held: None,
        }
    }

    /// Whether both are the same process, or both are none for the same reason.
    pub(in crate::host) fn is_same(&self, other: &Self) -> bool {
        match (&self.held, &other.held) {
            (Some(held), Some(other)) => Arc::ptr_eq(&held.running, &other.running),
            (None, None) => {
                std::mem::discriminant(&self.now()) == std::mem::discriminant(&other.now())
            }
            _ => false,
        }
    }

    /// Where it stands, for this host.
    pub(in crate::host) fn now(&self) -> ServerState {
        match &self.held {
            Some(held) if held.left.load(Ordering::Relaxed) => ServerState::Stopped,
            _ => self.state.borrow().clone(),
        }
    }

    pub(in crate::host) fn is_lazy(&self) -> bool {
        self.lazy
    }

    /// Whether it is not yet known what becomes of it.
    pub(in crate::host) fn is_unsettled(&self, state: &ServerState) -> bool {
        let running = self.held.as_ref().map(|held| &held.running);
        let called = running.is_some_and(|running| running.demand.is_said());
        state.is_starting() || called && state.waits_to_be_wanted()
    }

    /// Has it stay as it is, and not be stopped for being idle, while what this returns lives.
    pub(in crate::host) fn hold(&self) -> Option<InUse> {
        self.held.as_ref().map(|held| held.running.demand.hold())
    }

    /// The connection that it had, while it is stopped for being idle.
    pub(in crate::host) fn resting(&self) -> Option<Arc<Ready>> {
        self.held.as_ref()?.running.resting()
    }

    /// Has it started, if it waits to be wanted.
    pub(in crate::host) fn wake(&self) {
        if let Some(held) = &self.held {
            held.running.wake();
        }
    }

    /// Calls for it once more, where it was set aside. False: that was not, or a moment ago.
    pub(in crate::host) fn revive(&self) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.running.revival.call())
    }

    /// Whether configuration lets this tool of it through.
    pub(in crate::host) fn admits(&self, tool: &CatalogTool) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.running.recipe.filter.admits(tool))
    }

    /// Whether it was started again since this host last asked.
    pub(in crate::host) fn take_restarted(&self) -> bool {
        self.held.as_ref().is_some_and(|held| {
            let restarts = held.running.restarts();
            held.told.swap(restarts, Ordering::Relaxed) < restarts
        })
    }

    /// Lets it go. It ends when nobody else holds it.
    pub(in crate::host) fn leave(&self) {
        if let Some(held) = &self.held {
            held.left.store(true, Ordering::Relaxed);
            held.running.leave(&held.board);
        }
    }

    /// Waits until it has ended, if nobody holds it any more.
    pub(in crate::host) async fn gone(&self) {
        if let Some(held) = &self.held {
            held.running.gone().await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

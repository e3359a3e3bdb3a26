//! The servers of a host: how each is started, and where it stands.

mod demand;
mod failure;
mod lazy;
mod lease;
mod life;
mod member;
mod plan;
mod restarts;
mod revival;
mod running;

use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{Connection, Connector, MaySend, ServerName};
use outrigger_journal::{Event, Leases, Redactor, Run};
use tokio_util::sync::CancellationToken;

pub use demand::InUse;
pub use failure::{Failure, FailureKind};
pub(crate) use lease::{LOST, Tenure};
use life::Life;
pub(super) use member::{Member, Sources};
pub(super) use plan::{Plan, When};
pub(super) use running::{Recipe, Running};

use super::upkeep::Upkeep;
use crate::pins::Pins;
use crate::questions::Clerk;

/// Where a server stands: `Idle` or `Elsewhere` where it waits to be wanted, `Starting`, then `Ready`, then any of the others.
#[derive(Debug, Clone)]
pub enum ServerState {
    /// Not started: it is, when it is wanted.
    Idle,
    /// Not yet connected or listed.
    Starting,
    /// Connected and listed.
    Ready(Arc<Ready>),
    /// It ended while it was in use, and is started again after a pause.
    Backoff(Arc<Failure>),
    /// It may run in one place at a time, and another one has it. A call asks for it.
    Elsewhere(Arc<Failure>),
    /// It wants to know who asks, from the start or all of a sudden. It is used again when somebody
    /// has signed in.
    AuthRequired(Arc<Failure>),
    /// Set aside: it could not be configured, connected or listed, or it kept ending.
    Quarantined(Arc<Failure>),
    /// Switched off in configuration.
    Disabled,
    /// Closed with the host.
    Stopped,
}

/// A connected server.
#[derive(Debug)]
pub struct Ready {
    /// The connection.
    pub connection: Connection,
    /// From start to listed.
    pub took: Duration,
    /// The lease that it runs under, where it needs one.
    pub(crate) tenure: Option<Arc<Tenure>>,
}

impl Ready {
    /// Whether another one may have the lease that it runs under.
    pub(crate) fn is_lost(&self) -> bool {
        self.tenure.as_ref().is_some_and(|tenure| !tenure.is_sure())
    }

    /// What is asked directly before anything leaves: the lease where there is one, and who sends it.
    pub(crate) fn last_look(&self, sender: Option<MaySend>) -> Option<MaySend> {
        let Some(tenure) = self.tenure.clone() else {
            return sender;
        };
        Some(Arc::new(move || {
            tenure.may_send() && sender.as_ref().is_none_or(|sender| sender())
        }))
    }
}

impl ServerState {
    /// Whether it is not yet known what becomes of it.
    pub fn is_starting(&self) -> bool {
        matches!(self, Self::Starting)
    }

    /// Whether it is not here, and is started when it is wanted, if that can be.
    pub fn waits_to_be_wanted(&self) -> bool {
        matches!(self, Self::Idle | Self::Elsewhere(_))
    }

    /// The state in one word, for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Ready(_) => "ready",
            Self::Backoff(_) => "backoff",
            Self::Elsewhere(_) => "elsewhere",
            Self::AuthRequired(_) => "auth_required",
            Self::Quarantined(failure) if failure.kind == FailureKind::NeedsTrust => {
                "needs_approval"
            }
            Self::Quarantined(_) => "quarantined",
            Self::Disabled => "disabled",
            Self::Stopped => "stopped",
        }
    }

    /// What went wrong, in those states where something did.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Backoff(failure)
            | Self::Elsewhere(failure)
            | Self::AuthRequired(failure)
            | Self::Quarantined(failure) => Some(failure),
            Self::Idle | Self::Starting | Self::Ready(_) | Self::Disabled | Self::Stopped => None,
        }
    }

    /// Why the server's tools are not there, in a few words; `None` when they are, or need not be.
    pub fn why_missing(&self) -> Option<String> {
        match self {
            Self::Ready(_) | Self::Disabled | Self::Idle => None,
            Self::Starting => Some("it is still starting".to_owned()),
            Self::Backoff(failure)
                if matches!(failure.kind, FailureKind::Busy | FailureKind::Elsewhere) =>
            {
                Some(failure.error.clone())
            }
            Self::Backoff(failure) => Some(format!("{}; it is being started again", failure.error)),
            Self::AuthRequired(failure) => {
                let parts = [&failure.error].into_iter().chain(&failure.hints);
                Some(parts.map(String::as_str).collect::<Vec<_>>().join("; "))
            }
            Self::Elsewhere(failure) | Self::Quarantined(failure) => Some(failure.error.clone()),
            Self::Stopped => Some("it was stopped".to_owned()),
        }
    }
}

/// What servers are started with, and tell what becomes of them.
#[derive(Clone)]
pub(super) struct Launch {
    pub(super) connector: Connector,
    pub(super) clerk: Clerk,
    pub(super) run: Run,
    pub(super) redactor: Redactor,
    pub(super) pins: Arc<Pins>,
    /// Stops those that nobody uses, and counts processes.
    pub(super) upkeep: Option<Upkeep>,
    /// Who has what may run in one place at a time; without it, such servers are set aside.
    pub(super) leases: Option<Leases>,
}

/// Begins one server's life. `artifacts`: over when there is one to read.
pub(super) fn start(
    recipe: Recipe,
    (when, artifacts): (When, &CancellationToken),
    launch: &Launch,
) -> Arc<Running> {
    let state = match when {
        When::Now => ServerState::Starting,
        When::Wanted => ServerState::Idle,
        When::Artifacts => ServerState::Disabled,
    };
    let mut launch = launch.clone();
    let handlers = launch.clerk.handlers(recipe.answers);
    launch.connector = launch.connector.with_handlers(handlers);
    let (name, told) = (recipe.name().clone(), launch.clone());
    let fault = move |failure| failed(&name, failure, &told);
    let running = Arc::new(Running::new(recipe, state));
    let life = Life {
        running: Arc::clone(&running),
        launch,
        eager: when == When::Now,
    };
    match when {
        When::Now => running.live(life.run(), fault),
        When::Wanted => {
            life.list_what_is_known();
            running.live(life.run_when_wanted(), fault);
        }
        When::Artifacts => running.live(life.run_after(artifacts.clone()), fault),
    }
    running
}

/// Records that a server failed; what that makes of it.
fn failed(server: &ServerName, failure: Failure, launch: &Launch) -> ServerState {
    let failure = failure.without(&launch.redactor);
    launch.run.record(Event::ServerFailed {
        server: server.to_string(),
        stage: failure.stage.clone(),
        error: failure.error.clone(),
        hints: failure.hints.clone(),
        stderr_tail: failure.stderr_tail.clone(),
    });
    let failure = Arc::new(failure);
    if failure.wants_sign_in() {
        ServerState::AuthRequired(failure)
    } else {
        ServerState::Quarantined(failure)
    }
}

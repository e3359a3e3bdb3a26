//! The servers of a host: how each is to be started, or why not, and where it stands.

mod failure;
mod lazy;
mod life;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use outrigger_connect::{
    Connection, Connector, InProcessSpec, Protocol, ServerName, ServerSpec, TransportSpec,
};
use outrigger_journal::{Event, Redactor, Run};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use failure::{Failure, FailureKind};
use lazy::Wanted;
use life::Life;

use super::Builtin;
use crate::catalog::{Catalog, Standing, ToolFilter};
use crate::config::{
    Config, EntryState, Layer, Repeating, ServerDefaults, ServerSettings, ServerStart,
};
use crate::pins::{Pins, ServerIdentity};
use crate::pipeline::Broken;
use crate::questions::{Answers, Clerk};

/// Where a server stands: `Idle` where it waits to be wanted, `Starting`, then `Ready`, then any of the others.
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
}

impl ServerState {
    /// Whether it is not yet known what becomes of it.
    pub fn is_starting(&self) -> bool {
        matches!(self, Self::Starting)
    }

    /// The state in one word, for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Ready(_) => "ready",
            Self::Backoff(_) => "backoff",
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
            Self::Backoff(failure) | Self::AuthRequired(failure) | Self::Quarantined(failure) => {
                Some(failure)
            }
            Self::Idle | Self::Starting | Self::Ready(_) | Self::Disabled | Self::Stopped => None,
        }
    }

    /// Why the server's tools are not there, in a few words; `None` when they are, or need not be.
    pub fn why_missing(&self) -> Option<String> {
        match self {
            Self::Ready(_) | Self::Disabled | Self::Idle => None,
            Self::Starting => Some("it is still starting".to_owned()),
            Self::Backoff(failure) => Some(format!("{}; it is being started again", failure.error)),
            Self::AuthRequired(failure) => {
                let parts = [&failure.error].into_iter().chain(&failure.hints);
                Some(parts.map(String::as_str).collect::<Vec<_>>().join("; "))
            }
            Self::Quarantined(failure) => Some(failure.error.clone()),
            Self::Stopped => Some("it was stopped".to_owned()),
        }
    }
}

/// What all servers of a host share.
#[derive(Clone)]
pub(super) struct Launch {
    pub(super) connector: Connector,
    pub(super) clerk: Clerk,
    pub(super) run: Run,
    pub(super) redactor: Redactor,
    pub(super) catalog: Arc<RwLock<Catalog>>,
    pub(super) pins: Arc<Pins>,
    /// Counts with [`Catalog::revision`].
    pub(super) published: watch::Sender<u64>,
    pub(super) stop: CancellationToken,
    /// Over when there is an artifact to read.
    pub(super) wanted: CancellationToken,
    pub(super) broken: Arc<Broken>,
}

/// One server as it is to be started, or not.
pub(super) struct Plan {
    name: ServerName,
    description: Option<String>,
    start: Start,
}

enum Start {
    Connect {
        spec: Box<ServerSpec>,
        standing: Standing,
        filter: ToolFilter,
        /// `None` for one of ours: it is what it is with this program.
        identity: Option<ServerIdentity>,
        answers: Answers,
        repeating: Repeating,
        /// Only once there is an artifact to read.
        on_demand: bool,
        lazy: bool,
    },
    SetAside(Failure),
    Disabled,
}

impl Plan {
    pub(super) fn all(config: &Config, builtins: &[Builtin]) -> Vec<Self> {
        let ours = builtins
            .iter()
            .filter(|builtin| !config.servers.contains_key(&builtin.name))
            .map(|builtin| Self::builtin(builtin, &config.defaults));
        let configured = config.servers.values().map(|entry| {
            let start = match &entry.state {
                EntryState::Disabled => Start::Disabled,
                EntryState::NeedsTrust(_) => Start::SetAside(Failure::needs_trust()),
                EntryState::Broken(problems) => {
                    let error = problems
                        .iter()
                        .map(|problem| format!("{}: {}", problem.place(), problem.message))
                        .collect::<Vec<_>>()
                        .join("; ");
                    let hints = problems
                        .iter()
                        .flat_map(|problem| problem.hints.clone())
                        .collect();
                    Start::SetAside(Failure::config(error, hints))
                }
                EntryState::Ready(settings) => Self::configured(settings, entry.origin.layer),
            };
            let description = match &entry.state {
                EntryState::Ready(settings) => settings.description.clone(),
                _ => None,
            };
            Self {
                name: entry.name.clone(),
                description,
                start,
            }
        });
        ours.chain(configured).collect()
    }

    fn builtin(builtin: &Builtin, defaults: &ServerDefaults) -> Self {
        let spec = ServerSpec {
            name: builtin.name.clone(),
            transport: TransportSpec::InProcess(InProcessSpec(Arc::clone(&builtin.pipe))),
            protocol: Protocol::Auto,
            versions: None,
            deadlines: defaults.deadlines,
            limits: defaults.limits,
        };
        let standing = Standing {
            builtin: true,
            ..Standing::default()
        };
        let start = Start::Connect {
            spec: Box::new(spec),
            standing,
            filter: ToolFilter::default(),
            identity: None,
            answers: Answers::default(),
            repeating: Repeating::default(),
            on_demand: builtin.on_demand,
            lazy: false,
        };
        Self {
            name: builtin.name.clone(),
            description: Some(builtin.description.clone()),
            start,
        }
    }

    fn configured(settings: &ServerSettings, layer: Layer) -> Start {
        let standing = Standing {
            builtin: false,
            read_only: settings.read_only && layer.may_loosen(),
            instructions: settings.instructions && layer.may_loosen(),
        };
        if let Some(gap) = settings.gaps.first() {
            let error = format!(
                "`{}` at {} needs a secret that was not fetched",
                gap.key,
                gap.place()
            );
            return Start::SetAside(Failure::config(error, Vec::new()));
        }
        match ToolFilter::new(settings.allowed_tools.as_deref(), &settings.disabled_tools) {
            Ok(filter) => Start::Connect {
                spec: Box::new(settings.spec.clone()),
                standing,
                filter,
                identity: Some(ServerIdentity {
                    name: settings.spec.name.clone(),
                    digest: settings.identity(),
                    of_project: matches!(layer, Layer::Project | Layer::TrustedProject),
                }),
                answers: settings.answers,
                repeating: if layer.may_loosen() {
                    settings.repeating.clone()
                } else {
                    Repeating::default()
                },
                on_demand: false,
                lazy: settings.start == ServerStart::Lazy,
            },
            Err(error) => Start::SetAside(Failure::config(error.to_string(), Vec::new())),
        }
    }
}

/// One server, as the host follows it.
pub(super) struct Member {
    pub(super) state: watch::Receiver<ServerState>,
    /// Set when the server was started again; whoever tells it takes it.
    pub(super) restarted: Arc<AtomicBool>,
    /// As pins know it; `None` for one of ours, and for one that is not started.
    pub(super) identity: Option<ServerIdentity>,
    /// Which of its calls may be made once more.
    pub(super) repeating: Repeating,
    /// How long a late answer is worth waiting for.
    pub(super) late: Duration,
    /// What local configuration says about it.
    pub(super) standing: Standing,
    /// What a person wrote that it is for.
    pub(super) description: Option<String>,
    /// Says that it is wanted, where it waits for that.
    wanted: Option<Arc<Wanted>>,
}

impl Member {
    pub(super) fn is_lazy(&self) -> bool {
        self.wanted.is_some()
    }

    /// Whether it is not yet known what becomes of it.
    pub(super) fn is_unsettled(&self, state: &ServerState) -> bool {
        let called = self.wanted.as_ref().is_some_and(|wanted| wanted.is_said());
        state.is_starting() || called && matches!(state, ServerState::Idle)
    }

    /// Has it started, if it waits to be wanted.
    pub(super) fn wake(&self) {
        if let Some(wanted) = &self.wanted {
            wanted.say();
        }
    }
}

/// Begins one server's life.
pub(super) fn spawn(plan: Plan, launch: &Launch, tasks: &TaskTracker) -> (ServerName, Member) {
    let (state, watched) = watch::channel(ServerState::Starting);
    let restarted = Arc::new(AtomicBool::new(false));
    let name = plan.name.clone();
    let mut member = Member {
        state: watched,
        restarted: Arc::clone(&restarted),
        identity: None,
        repeating: Repeating::default(),
        late: Duration::ZERO,
        standing: Standing::default(),
        description: plan.description,
        wanted: None,
    };
    match plan.start {
        Start::Disabled => drop(state.send_replace(ServerState::Disabled)),
        Start::SetAside(failure) => fail(&plan.name, failure, launch, &state),
        Start::Connect {
            spec,
            standing,
            filter,
            identity,
            answers,
            repeating,
            on_demand,
            lazy,
        } => {
            if on_demand {
                state.send_replace(ServerState::Disabled);
            }
            member.identity.clone_from(&identity);
            member.repeating.clone_from(&repeating);
            member.late = spec.deadlines.late;
            member.standing = standing;
            let mut launch = launch.clone();
            let handlers = launch.clerk.handlers(answers);
            launch.connector = launch.connector.with_handlers(handlers);
            let life = Life {
                spec,
                standing,
                filter,
                identity,
                repeating,
                launch,
                state,
                restarted,
            };
            if lazy {
                life.wait_to_be_wanted();
                let wanted = member.wanted.insert(Arc::default());
                tasks.spawn(Box::pin(life.run_when_wanted(Arc::clone(wanted))));
            } else if on_demand {
                tasks.spawn(Box::pin(life.run_when_there_are_artifacts()));
            } else {
                tasks.spawn(Box::pin(life.run()));
            }
        }
    }
    (name, member)
}

fn fail(
    server: &ServerName,
    failure: Failure,
    launch: &Launch,
    state: &watch::Sender<ServerState>,
) {
    let failure = failure.without(&launch.redactor);
    launch.run.record(Event::ServerFailed {
        server: server.to_string(),
        stage: failure.stage.clone(),
        error: failure.error.clone(),
        hints: failure.hints.clone(),
        stderr_tail: failure.stderr_tail.clone(),
    });
    let failure = Arc::new(failure);
    state.send_replace(if failure.wants_sign_in() {
        ServerState::AuthRequired(failure)
    } else {
        ServerState::Quarantined(failure)
    });
}

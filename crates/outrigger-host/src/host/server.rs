//! One server's life within a host: connect, list, stay in step with `list_changed`, end.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use outrigger_connect::{
    ConnectError, ConnectErrorKind, Connection, Connector, Deadlines, Era, InProcessSpec, Limits,
    ListError, Protocol, ServerName, ServerSpec, TransportSpec,
};
use outrigger_journal::{Event, Redactor, Run};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Builtin;
use crate::catalog::{Catalog, ServerCatalog, SetAside, Standing, ToolFilter};
use crate::config::{Config, EntryState, ServerSettings};

/// Announcements of changed tools within this time are one.
const COALESCE: Duration = Duration::from_millis(200);
/// The longest that a server which announces changes all the time is left alone.
const COALESCE_MOST: Duration = Duration::from_secs(5);

/// Where a server stands.
#[derive(Debug, Clone)]
pub enum ServerState {
    /// Not yet connected or listed.
    Starting,
    /// Connected and listed.
    Ready(Arc<Ready>),
    /// Set aside: it could not be configured, connected or listed, or it ended.
    Failed(Arc<Failure>),
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

/// Why a server was set aside.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// How far it came: `config`, `start`, `handshake`, `list`, `call`.
    pub stage: String,
    /// One sentence.
    pub error: String,
    /// What a person could do.
    pub hints: Vec<String>,
    /// Last lines of its standard error.
    pub stderr_tail: Vec<String>,
}

/// The kinds of [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The configuration of the server cannot be used.
    Config,
    /// It could not be connected to.
    Connect(ConnectErrorKind),
    /// It could not be listed.
    List,
    /// The connection ended.
    Ended,
}

impl ServerState {
    /// Why the server's tools are not there, in a few words; `None` when they are, or need not be.
    pub fn why_missing(&self) -> Option<String> {
        match self {
            Self::Ready(_) | Self::Disabled => None,
            Self::Starting => Some("it is still starting".to_owned()),
            Self::Failed(failure) => Some(failure.error.clone()),
            Self::Stopped => Some("it was stopped".to_owned()),
        }
    }
}

/// What all servers of a host share.
#[derive(Clone)]
pub(super) struct Launch {
    pub(super) connector: Connector,
    pub(super) run: Run,
    pub(super) redactor: Arc<Redactor>,
    pub(super) catalog: Arc<RwLock<Catalog>>,
    pub(super) stop: CancellationToken,
}

/// One server as it is to be started, or not.
pub(super) struct Plan {
    name: ServerName,
    start: Start,
}

enum Start {
    Connect {
        spec: Box<ServerSpec>,
        standing: Standing,
        filter: ToolFilter,
    },
    SetAside(Failure),
    Disabled,
}

impl Plan {
    pub(super) fn all(config: &Config, builtins: &[Builtin]) -> Vec<Self> {
        let ours = builtins
            .iter()
            .filter(|builtin| !config.servers.contains_key(&builtin.name))
            .map(Self::builtin);
        let configured = config.servers.values().map(|entry| {
            let start = match &entry.state {
                EntryState::Disabled => Start::Disabled,
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
                EntryState::Ready(settings) => {
                    Self::configured(settings, entry.origin.layer.may_loosen())
                }
            };
            Self {
                name: entry.name.clone(),
                start,
            }
        });
        ours.chain(configured).collect()
    }

    fn builtin(builtin: &Builtin) -> Self {
        let spec = ServerSpec {
            name: builtin.name.clone(),
            transport: TransportSpec::InProcess(InProcessSpec(Arc::clone(&builtin.pipe))),
            protocol: Protocol::Auto,
            deadlines: Deadlines::default(),
            limits: Limits::default(),
        };
        let standing = Standing {
            builtin: true,
            read_only: false,
        };
        let start = Start::Connect {
            spec: Box::new(spec),
            standing,
            filter: ToolFilter::default(),
        };
        Self {
            name: builtin.name.clone(),
            start,
        }
    }

    /// `trusted`: the entry stands in a file that may open what is shut.
    fn configured(settings: &ServerSettings, trusted: bool) -> Start {
        let standing = Standing {
            builtin: false,
            read_only: settings.read_only && trusted,
        };
        match ToolFilter::new(settings.allowed_tools.as_deref(), &settings.disabled_tools) {
            Ok(filter) => Start::Connect {
                spec: Box::new(settings.spec.clone()),
                standing,
                filter,
            },
            Err(error) => Start::SetAside(Failure::config(error.to_string(), Vec::new())),
        }
    }
}

/// Begins one server's life; the receiver follows it.
pub(super) fn spawn(
    plan: Plan,
    launch: &Launch,
    tasks: &TaskTracker,
) -> (ServerName, watch::Receiver<ServerState>) {
    let (state, watched) = watch::channel(ServerState::Starting);
    let name = plan.name.clone();
    match plan.start {
        Start::Disabled => drop(state.send_replace(ServerState::Disabled)),
        Start::SetAside(failure) => fail(&plan.name, failure, launch, &state),
        Start::Connect {
            spec,
            standing,
            filter,
        } => {
            let life = Life {
                spec,
                standing,
                filter,
                launch: launch.clone(),
                state,
            };
            tasks.spawn(Box::pin(life.run()));
        }
    }
    (name, watched)
}

struct Life {
    spec: Box<ServerSpec>,
    standing: Standing,
    filter: ToolFilter,
    launch: Launch,
    state: watch::Sender<ServerState>,
}

impl Life {
    async fn run(self) {
        let began = Instant::now();
        let connection = match self
            .launch
            .connector
            .connect(&self.spec, &self.launch.stop)
            .await
        {
            Ok(connection) => connection,
            Err(error) => {
                return fail(&self.spec.name, error.into(), &self.launch, &self.state);
            }
        };
        match self.list(&connection).await {
            Ok(catalog) => self.ready(&connection, &catalog, began),
            Err(error) => {
                let failure = Failure::list(&error, connection.log_tail(20));
                connection.close().await;
                return fail(&self.spec.name, failure, &self.launch, &self.state);
            }
        }
        let ended = self.follow(&connection).await;
        self.publish(None);
        connection.close().await;
        match ended {
            None => drop(self.state.send_replace(ServerState::Stopped)),
            Some(reason) => {
                let failure =
                    Failure::ended(&reason, connection.log_tail(20)).without(&self.launch.redactor);
                self.launch.run.record(Event::ServerEnded {
                    server: self.spec.name.to_string(),
                    reason,
                });
                self.state
                    .send_replace(ServerState::Failed(Arc::new(failure)));
            }
        }
    }

    async fn list(&self, connection: &Connection) -> Result<Arc<ServerCatalog>, ListError> {
        let mut listing = connection.list_tools().await?;
        for tool in &mut listing.tools {
            if let Cow::Owned(clean) = self.launch.redactor.redact_json(tool) {
                *tool = clean;
            }
        }
        let mut catalog = ServerCatalog::read(&self.spec.name, self.standing, listing);
        for stranger in self.filter.strangers(&catalog) {
            catalog.problems.push(format!(
                "configuration names the tool `{stranger}`, which the server does not have"
            ));
        }
        catalog
            .tools
            .retain(|tool| self.filter.admits(&tool.raw_name));
        for SetAside { tool, reason } in &catalog.set_aside {
            let (server, tool) = (self.spec.name.to_string(), tool.clone());
            self.launch.run.record(Event::ToolSetAside {
                server,
                tool,
                reason: reason.clone(),
            });
        }
        Ok(Arc::new(catalog))
    }

    fn ready(&self, connection: &Connection, catalog: &Arc<ServerCatalog>, began: Instant) {
        let (peer, took) = (connection.peer(), began.elapsed());
        self.publish(Some(Arc::clone(catalog)));
        self.state.send_replace(ServerState::Ready(Arc::new(Ready {
            connection: connection.clone(),
            took,
        })));
        let era = match peer.era {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        };
        self.launch.run.record(Event::ServerReady {
            server: self.spec.name.to_string(),
            era: era.to_owned(),
            protocol_version: peer.protocol_version.clone(),
            tools: catalog.tools.len() as u64,
            tokens: catalog.tokens(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// Keeps the catalog in step until the host stops (`None`) or the connection ends (why).
    async fn follow(&self, connection: &Connection) -> Option<String> {
        let (mut changed, mut ended) = (connection.tools_changed(), connection.ended());
        let mut pause = COALESCE;
        loop {
            tokio::select! {
                () = self.launch.stop.cancelled() => return None,
                reason = why_ended(&mut ended) => return Some(reason),
                Ok(()) = changed.changed() => {}
            }
            tokio::select! {
                () = self.launch.stop.cancelled() => return None,
                reason = why_ended(&mut ended) => return Some(reason),
                () = tokio::time::sleep(pause) => {}
            }
            changed.mark_unchanged();
            if let Ok(catalog) = self.list(connection).await {
                self.publish(Some(catalog));
            }
            // Twice as long after each change that follows at once, back to short after a quiet time.
            let quiet = tokio::time::timeout(pause, changed.changed())
                .await
                .is_err();
            pause = if quiet {
                COALESCE
            } else {
                (pause * 2).min(COALESCE_MOST)
            };
            if !quiet {
                changed.mark_changed();
            }
        }
    }

    fn publish(&self, tools: Option<Arc<ServerCatalog>>) {
        let mut catalog = self
            .launch
            .catalog
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        catalog.revision += 1;
        match tools {
            Some(tools) => catalog.servers.insert(self.spec.name.clone(), tools),
            None => catalog.servers.remove(&self.spec.name),
        };
    }
}

async fn why_ended(ended: &mut watch::Receiver<Option<String>>) -> String {
    match ended.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the connection is gone".to_owned(),
    }
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
    state.send_replace(ServerState::Failed(Arc::new(failure)));
}

impl Failure {
    /// A server that fails often says why with its secrets in it.
    fn without(mut self, secrets: &Redactor) -> Self {
        let texts = self.hints.iter_mut().chain(&mut self.stderr_tail);
        for text in texts.chain([&mut self.error]) {
            *text = secrets.redact(text).into_owned();
        }
        self
    }

    fn config(error: String, hints: Vec<String>) -> Self {
        Self {
            kind: FailureKind::Config,
            stage: "config".to_owned(),
            error,
            hints,
            stderr_tail: Vec::new(),
        }
    }

    fn list(error: &ListError, stderr_tail: Vec<String>) -> Self {
        let (kind, stage) = (FailureKind::List, "list".to_owned());
        Self {
            kind,
            stage,
            error: error.to_string(),
            hints: Vec::new(),
            stderr_tail,
        }
    }

    fn ended(reason: &str, stderr_tail: Vec<String>) -> Self {
        let (kind, stage) = (FailureKind::Ended, "call".to_owned());
        Self {
            kind,
            stage,
            error: format!("the connection ended: {reason}"),
            hints: Vec::new(),
            stderr_tail,
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self {
            kind: FailureKind::Connect(error.kind),
            stage: error.stage.to_string(),
            error: error.message,
            hints: error.hints,
            stderr_tail: error.stderr_tail,
        }
    }
}

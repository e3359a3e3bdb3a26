//! All servers of a run, and the catalog of what they offer.
//!
//! Starting returns at once; servers connect side by side, and one that is slow or broken holds up
//! nobody. What they offer is gathered in a catalog that changes between turns only: whoever works
//! with tools takes a frozen [`Toolset`].

pub(crate) mod person;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures::future::join_all;
use outrigger_connect::{Connection, Connector, ServePipe, ServerName};
use outrigger_journal::{Redactor, Run};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use server::{Failure, FailureKind, Ready, ServerState};

use crate::approve::Approver;
use crate::catalog::{Catalog, CatalogTool, ServerCatalog, Standing};
use crate::config::{Config, Decision};
use crate::hooks::Hooks;
use crate::host::person::Person;
use crate::host::server::{Launch, Member, Plan};
use crate::offers::{self, Shelf};
use crate::outcome::{CallOutcome, Rejection};
use crate::pins::{Pins, ServerIdentity};
use crate::pipeline::Sessions;
use crate::policy::{Origins, Policy};
use crate::questions::{Clerk, Questions};
use crate::review::{self, Flag};
use crate::toolset::{MissingServer, Toolset};
use crate::words::Checks;

/// How long a call waits for a listing that an announced change has made necessary.
const IN_STEP: Duration = Duration::from_secs(15);

/// What a host is made of, besides its configuration.
pub struct Parts {
    /// Makes connections.
    pub connector: Connector,
    /// Records what happens.
    pub run: Run,
    /// Servers in this process; one whose name is configured otherwise gives way.
    pub builtins: Vec<Builtin>,
    /// Answers the questions of policy.
    pub approver: Arc<dyn Approver>,
    /// Answers the questions of servers.
    pub questions: Questions,
    /// Decides.
    pub policy: Policy,
    /// Knows what was approved.
    pub pins: Pins,
    /// Have a say about calls.
    pub hooks: Arc<Hooks>,
}

/// A server in this process.
#[derive(Clone)]
pub struct Builtin {
    /// Its name.
    pub name: ServerName,
    /// What it is for.
    pub description: String,
    /// Serves it.
    pub pipe: Arc<dyn ServePipe>,
}

/// The servers of a run; clones share them.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

/// A host, as long as somebody else keeps it.
#[derive(Clone)]
pub struct WeakHost(Weak<Shared>);

impl WeakHost {
    /// The host, if it is still there.
    pub fn upgrade(&self) -> Option<Host> {
        self.0.upgrade().map(|shared| Host { shared })
    }
}

struct Shared {
    run: Run,
    redactor: Redactor,
    policy: Policy,
    approver: Arc<dyn Approver>,
    hooks: Arc<Hooks>,
    sessions: Sessions,
    person: Arc<Person>,
    calls: AtomicU32,
    /// Servers whose words have been shown in this run.
    origins: RwLock<Origins>,
    servers: BTreeMap<ServerName, Member>,
    /// All servers of the configuration, those that this host leaves out as well.
    names: BTreeSet<ServerName>,
    shelf: Shelf,
    catalog: Arc<RwLock<Catalog>>,
    pins: Arc<Pins>,
    published: watch::Sender<u64>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// One server, as `doctor` and `tools` show it.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// Its name.
    pub name: ServerName,
    /// Where it stands.
    pub state: ServerState,
    /// What it offers, once listed.
    pub catalog: Option<Arc<ServerCatalog>>,
    /// What a person should look at, in the light of the other servers.
    pub flags: Vec<Flag>,
}

impl Host {
    /// Starts all servers of the configuration and returns; see [`Host::settled`].
    pub fn start(config: &Config, parts: Parts) -> Self {
        let catalog = Arc::new(RwLock::new(Catalog::default()));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let pins = Arc::new(parts.pins);
        let published = watch::Sender::new(0);
        let redactor = parts.run.redactor().clone();
        redactor.learn(config.secrets());
        let person = Arc::new(Person::default());
        let clerk = Clerk::new(parts.questions, parts.run.clone(), Arc::clone(&person));
        let launch = Launch {
            pins: Arc::clone(&pins),
            published: published.clone(),
            connector: parts.connector,
            clerk,
            run: parts.run.clone(),
            redactor: redactor.clone(),
            catalog: Arc::clone(&catalog),
            stop: stop.clone(),
        };
        let mut servers = BTreeMap::new();
        for plan in Plan::all(config, &parts.builtins) {
            let (name, member) = server::spawn(plan, &launch, &tasks);
            servers.insert(name, member);
        }
        let names = servers.keys().chain(&config.left_out).cloned().collect();
        let shared = Shared {
            run: parts.run,
            redactor,
            policy: parts.policy,
            approver: parts.approver,
            hooks: parts.hooks,
            sessions: Sessions::default(),
            person,
            calls: AtomicU32::new(0),
            origins: RwLock::default(),
            servers,
            names,
            shelf: Shelf::default(),
            catalog,
            pins,
            published,
            stop,
            tasks,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Waits until no server is starting any more, or until `patience` is over. Returns the names of
    /// those that still are; they join a later toolset by themselves.
    pub async fn settled(&self, patience: Duration) -> Vec<ServerName> {
        let members = self.shared.servers.values();
        let wait = join_all(members.map(|member| {
            let mut state = member.state.clone();
            // An error means that the server's task is gone, and so is the waiting.
            async move { state.wait_for(|state| !state.is_starting()).await.is_ok() }
        }));
        tokio::time::timeout(patience, wait).await.ok();
        let members = self.shared.servers.iter();
        let starting = members.filter(|(_, member)| member.state.borrow().is_starting());
        starting.map(|(name, _)| name.clone()).collect()
    }

    /// All servers, by name.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let catalog = self.catalog();
        let mut flags = review::flags(&catalog, &self.shared.names);
        let status = |(name, member): (&ServerName, &Member)| ServerStatus {
            name: name.clone(),
            state: member.state.borrow().clone(),
            catalog: catalog.servers.get(name).cloned(),
            flags: flags.remove(name).unwrap_or_default(),
        };
        self.shared.servers.iter().map(status).collect()
    }

    /// The state of one server, to be waited on; `None` when there is no such server.
    pub fn watch(&self, server: &ServerName) -> Option<watch::Receiver<ServerState>> {
        let member = self.shared.servers.get(server)?;
        Some(member.state.clone())
    }

    /// What all connected servers offer, whoever may use it.
    pub fn catalog(&self) -> Catalog {
        self.shared
            .catalog
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The tools that may be used now, frozen.
    pub fn toolset(&self) -> Arc<Toolset> {
        let catalog = self.catalog();
        let resources = catalog.servers.values().any(|server| server.resources);
        let allowed = |tool: &&Arc<CatalogTool>| {
            // Where nobody has resources, tools to read them are of no use.
            if offers::reaches(tool) && !resources {
                return false;
            }
            let outlook = self.shared.policy.outlook(&***tool);
            outlook.verdict.decision != Decision::Deny
        };
        let tools = catalog.tools().filter(allowed).cloned().collect();
        let missing = self.shared.servers.iter().filter_map(|(name, member)| {
            let reason = member.state.borrow().why_missing()?;
            Some(MissingServer {
                server: name.clone(),
                reason,
            })
        });
        let instructions = catalog.servers.iter().filter_map(|(name, server)| {
            let instructions = server.instructions.clone()?;
            Some((name.clone(), instructions))
        });
        let toolset = Toolset::new(catalog.revision, tools, missing.collect());
        Arc::new(toolset.with_instructions(instructions))
    }

    /// What was approved of the servers' tools.
    pub fn pins(&self) -> &Pins {
        &self.shared.pins
    }

    /// A server as pins know it; `None` for one of ours.
    pub fn identity(&self, server: &ServerName) -> Option<ServerIdentity> {
        self.shared.servers.get(server)?.identity.clone()
    }

    /// The rules in force.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Where the data that was shown in this run so far came from.
    pub fn origins(&self) -> Origins {
        let origins = self.shared.origins.read();
        origins.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Words of this server are about to be shown.
    pub(crate) fn came_from(&self, server: &str) {
        let origins = self.shared.origins.write();
        let mut origins = origins.unwrap_or_else(PoisonError::into_inner);
        origins.add_server(server);
    }

    /// Ends all connections, side by side, each within its own bound.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    pub(crate) fn run(&self) -> &Run {
        &self.shared.run
    }

    /// Keeps what configuration calls secret out of what models and people read: a server knows its
    /// own secrets, and may tell them.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.shared.redactor
    }

    pub(crate) fn approver(&self) -> &dyn Approver {
        &*self.shared.approver
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.shared.hooks
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.shared.sessions
    }

    /// Prompts and resources that have been listed.
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shared.shelf
    }

    /// The servers of this host, by name.
    pub(crate) fn server_names(&self) -> Vec<ServerName> {
        self.shared.servers.keys().cloned().collect()
    }

    /// Where a server stands; `None` when there is no such server.
    pub(crate) fn state_of(&self, server: &ServerName) -> Option<ServerState> {
        let member = self.shared.servers.get(server)?;
        Some(member.state.borrow().clone())
    }

    /// What local configuration says about a server; `None` when there is no such server.
    pub(crate) fn standing_of(&self, server: &ServerName) -> Option<Standing> {
        Some(self.shared.servers.get(server)?.standing)
    }

    /// A host that does not keep its servers: for what belongs to one of them.
    pub fn downgrade(&self) -> WeakHost {
        WeakHost(Arc::downgrade(&self.shared))
    }

    /// How long questions to a person have been open in all; whoever keeps a clock takes it off.
    pub fn waited_for_person(&self) -> Duration {
        self.shared.person.waited()
    }

    pub(crate) fn person(&self) -> &Person {
        &self.shared.person
    }

    pub(crate) fn next_call(&self) -> u32 {
        self.shared.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits until the catalog knows what a server has announced by now. False when it does not come
    /// to know it in time.
    pub(crate) async fn in_step(&self, server: &ServerName, connection: &Connection) -> bool {
        let announced = *connection.tools_changed().borrow();
        let mut published = self.shared.published.subscribe();
        let behind = || {
            let catalog = self.catalog();
            let known = catalog.servers.get(server);
            known.is_some_and(|known| known.as_of < announced)
        };
        let wait = async {
            while behind() {
                if published.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(IN_STEP, wait).await.is_ok()
    }

    /// The live connection of a tool, if the tool is still what was shown.
    pub(crate) fn connection_for(&self, tool: &CatalogTool) -> Result<Connection, CallOutcome> {
        let state = self
            .shared
            .servers
            .get(&tool.server)
            .map(|member| member.state.borrow().clone());
        let connection = match state {
            Some(ServerState::Ready(ready)) => ready.connection.clone(),
            Some(other) => {
                return Err(CallOutcome::NotSent(
                    other.why_missing().unwrap_or_default(),
                ));
            }
            None => return Err(CallOutcome::NotSent("it is not configured".to_owned())),
        };
        let catalog = self.catalog();
        match catalog.find(tool.name.as_str()) {
            Some(now) if now.digest == tool.digest => Ok(connection),
            Some(_) => Err(CallOutcome::Rejected(Rejection::Changed)),
            None if catalog.is_held(tool) => Err(CallOutcome::Rejected(Rejection::HeldBack)),
            None => Err(CallOutcome::NotSent(
                "it no longer offers this tool".to_owned(),
            )),
        }
    }

    /// Whether the server was started again since this was last asked.
    pub(crate) fn take_restarted(&self, server: &ServerName) -> bool {
        let member = self.shared.servers.get(server);
        member.is_some_and(|member| member.restarted.swap(false, Ordering::Relaxed))
    }

    /// Tools with which the outcome of a call to `tool` could be checked.
    pub(crate) fn checks(&self, toolset: &Toolset, tool: &str) -> Checks {
        const TOLD: usize = 3;
        let Some(tool) = toolset.get(tool) else {
            return Checks::default();
        };
        let others = toolset
            .tools()
            .iter()
            .filter(|other| other.server == tool.server && other.name != tool.name);
        let (trusted, rest): (Vec<_>, Vec<_>) =
            others.partition(|other| self.shared.policy.only_reads(other));
        let names = |tools: Vec<&Arc<CatalogTool>>| {
            tools
                .iter()
                .take(TOLD)
                .map(|tool| tool.name.to_string())
                .collect()
        };
        let claimed = rest
            .into_iter()
            .filter(|other| other.annotations.read_only == Some(true))
            .collect();
        Checks {
            trusted: names(trusted),
            claimed: names(claimed),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

//! All servers of a run, and the catalog of what they offer.
//!
//! Starting returns at once; servers connect side by side, and one that is slow or broken holds up
//! nobody. What they offer is gathered in a catalog that changes between turns only: whoever works
//! with tools takes a frozen [`Toolset`].

mod artifacts;
mod board;
pub(crate) mod person;
mod revive;
mod seen;
mod server;
mod succession;
mod upkeep;
mod upstreams;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use outrigger_connect::{Connection, Connector, ServePipe, ServerName};
use outrigger_journal::{Leases, Redactor, Run};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use server::LOST;
pub use server::{Failure, FailureKind, InUse, Ready, ServerState};
pub use succession::{Succeeded, Successor};
pub use upkeep::Upkeep;
pub use upstreams::Upstreams;

use crate::approve::Approver;
use crate::artifact::Artifacts;
use crate::catalog::{Catalog, CatalogTool, ServerCatalog, Standing};
use crate::config::{Config, DiscoverySettings, EntryState, ResultSettings, ServerEntry};
use crate::discovery::{Always, Finder};
use crate::hooks::Hooks;
pub(crate) use crate::host::board::Board;
use crate::host::person::Person;
use crate::host::server::{Member, Plan, Sources};
use crate::host::succession::Lasting;
use crate::offers::{self, Shelf};
use crate::outcome::{CallOutcome, Rejection};
use crate::pins::{Pins, ServerIdentity};
use crate::pipeline::{Sessions, Unknowns};
use crate::policy::{Origins, Policy, glob};
use crate::questions::{CallRun, Questions};
use crate::review::{self, Flag};
use crate::tokens::Scale;
use crate::toolset::{MissingServer, Toolset};
use crate::traces::Traces;
use crate::words::Checks;

/// How long a call waits for a listing that an announced change has made necessary.
const IN_STEP: Duration = Duration::from_secs(15);

/// How long the end of a connection may take to be noticed.
const NOTICED: Duration = Duration::from_secs(1);

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
    pub pins: Arc<Pins>,
    /// Lends the servers that are configured as shared; without it, this host has its own.
    pub shared: Option<Upstreams>,
    /// Stops servers that nobody uses, and bounds how many run; without it, all stay.
    pub upkeep: Option<Upkeep>,
    /// Who has the servers that may run in one place at a time; without it, those are set aside.
    pub leases: Option<Leases>,
    /// Have a say about calls.
    pub hooks: Arc<Hooks>,
    /// Keeps what is too large or no text to be shown or recorded; without it, that is cut off.
    pub artifacts: Option<Artifacts>,
    /// Knows the trace that the run belongs to, where there is one.
    pub traces: Option<Arc<dyn Traces>>,
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
    /// It reads artifacts, and is started when there is one to read. Its results are data of the
    /// servers that these came from.
    pub on_demand: bool,
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
    policy: Policy,
    hooks: Arc<Hooks>,
    /// The server that reads artifacts.
    reader: Option<ServerName>,
    results: ResultSettings,
    servers: BTreeMap<ServerName, Member>,
    /// All servers of the configuration, those that this host leaves out as well.
    names: BTreeSet<ServerName>,
    board: Arc<Board>,
    discovery: DiscoverySettings,
    /// [`Scale`] of the model of the run.
    scale: AtomicU32,
    always: Arc<Always>,
    finder: Arc<Finder>,
    /// Work beside the calls, and what ends it.
    tasks: TaskTracker,
    stop: CancellationToken,
    /// What a host that takes this one's place goes on with.
    lasting: Arc<Lasting>,
}

impl Drop for Shared {
    /// Work beside the calls does not keep a host whose place another one took.
    fn drop(&mut self) {
        self.stop.cancel();
    }
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
        let (lasting, rest) = Lasting::of(parts);
        Self::under(config, rest, Arc::new(lasting))
    }

    fn under(config: &Config, with: Successor, lasting: Arc<Lasting>) -> Self {
        lasting.learn(config);
        let board = Arc::<Board>::default();
        let sources = Sources {
            own: &lasting.own,
            shared: lasting.lent.as_ref(),
            board: &board,
            artifacts: &lasting.wanted,
        };
        let plans = Plan::all(config, &with.builtins).into_iter();
        let members = plans.map(|plan| (plan.name.clone(), Member::of(plan, &sources)));
        let servers: BTreeMap<_, _> = members.collect();
        let names = servers.keys().chain(&config.left_out).cloned().collect();
        let shared = Shared {
            policy: with.policy,
            hooks: with.hooks,
            reader: reader(config, &with.builtins),
            results: config.results.clone(),
            servers,
            names,
            board,
            discovery: config.discovery.clone(),
            scale: AtomicU32::new(Scale::NONE.in_thousandths()),
            always: Arc::new(always(config)),
            finder: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            lasting,
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
            async move {
                state
                    .wait_for(|state| !member.is_unsettled(state))
                    .await
                    .is_ok()
            }
        }));
        tokio::time::timeout(patience, wait).await.ok();
        let members = self.shared.servers.iter();
        let starting = members.filter(|(_, member)| member.is_unsettled(&member.now()));
        starting.map(|(name, _)| name.clone()).collect()
    }

    /// All servers, by name.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let catalog = self.catalog();
        let mut flags = review::flags(&catalog, &self.shared.names);
        let status = |(name, member): (&ServerName, &Member)| ServerStatus {
            name: name.clone(),
            state: member.now(),
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

    /// The catalog's revision, to be waited on.
    pub fn published(&self) -> watch::Receiver<u64> {
        self.shared.board.published()
    }

    /// What all connected servers offer, whoever may use it.
    pub fn catalog(&self) -> Catalog {
        self.shared.board.catalog()
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
            self.may_ever(tool)
        };
        // What comes to a conversation later stands last: what was there stays where it was.
        let (last, first): (Vec<_>, Vec<_>) = catalog
            .tools()
            .filter(allowed)
            .cloned()
            .partition(|tool| self.reads_artifacts(tool));
        let tools = [first, last].concat();
        let missing = self.shared.servers.iter().filter_map(|(name, member)| {
            let state = member.now();
            // Its tools can be called.
            let known = || catalog.servers.contains_key(name);
            if matches!(state, ServerState::Elsewhere(_)) && known() {
                return None;
            }
            let reason = state.why_missing()?;
            Some(MissingServer {
                server: name.clone(),
                reason,
            })
        });
        let missing: Vec<_> = missing.collect();
        let instructions = catalog.servers.iter().filter_map(|(name, server)| {
            let instructions = server.instructions.clone()?;
            Some((name.clone(), instructions))
        });
        let instructions: Vec<_> = instructions.collect();
        let toolset = Toolset::new(catalog, tools, missing)
            .with_instructions(instructions)
            .with_discovery(
                self.shared.discovery.clone(),
                Arc::clone(&self.shared.always),
            )
            .with_servers(self.known_servers(), self.has_lazy());
        Arc::new(toolset)
    }

    /// What was approved of the servers' tools.
    pub fn pins(&self) -> &Pins {
        &self.shared.lasting.pins
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
        let origins = self.shared.lasting.origins.read();
        origins.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Words of this server are about to be shown.
    pub(crate) fn came_from(&self, server: &str) {
        let origins = self.shared.lasting.origins.write();
        let mut origins = origins.unwrap_or_else(PoisonError::into_inner);
        origins.add_server(server);
    }

    /// Lets go of all servers. Those that no other host holds are ended, side by side, each within its
    /// own bound.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        let members = self.shared.servers.values();
        members.clone().for_each(Member::leave);
        join_all(members.map(Member::gone)).await;
        self.shared.tasks.wait().await;
        // Those of a host whose place this one took.
        self.shared.lasting.own.gone().await;
    }

    /// Finds tools by words.
    pub(crate) fn finder(&self) -> &Arc<Finder> {
        &self.shared.finder
    }

    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.shared.board
    }

    /// Cancelled when the host closes.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.shared.stop
    }

    /// Work that closing waits for.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn(work);
    }

    pub(crate) fn run(&self) -> &Run {
        &self.shared.lasting.run
    }

    /// Keeps what configuration calls secret out of what models and people read: a server knows its
    /// own secrets, and may tell them.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.shared.lasting.redactor
    }

    pub(crate) fn approver(&self) -> &dyn Approver {
        &*self.shared.lasting.approver
    }

    pub(crate) fn traces(&self) -> Option<&Arc<dyn Traces>> {
        self.shared.lasting.traces.as_ref()
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.shared.hooks
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.shared.lasting.sessions
    }

    pub(crate) fn unknowns(&self) -> &Arc<Unknowns> {
        &self.shared.lasting.unknowns
    }

    /// How often a call of this tool may be made again by itself; `None`: it must not be made twice.
    pub(crate) fn retries(&self, tool: &CatalogTool) -> Option<u32> {
        let repeating = &self.shared.servers.get(&tool.server)?.repeating;
        let twice = self.shared.policy.only_reads(tool) || repeating.is_idempotent(&tool.raw_name);
        twice.then_some(repeating.retries)
    }

    /// The argument that holds the idempotency key of this tool, where configuration names one and the
    /// tool's schema has it.
    pub(crate) fn idempotency_key<'s>(&'s self, tool: &'s CatalogTool) -> Option<&'s str> {
        let member = self.shared.servers.get(&tool.server)?;
        let key = member.repeating.idempotency_key(&tool.raw_name)?;
        tool.input_schema.get("properties")?.get(key).map(|_| key)
    }

    /// How long a late answer of a server is worth waiting for.
    pub(crate) fn patience(&self, server: &ServerName) -> Duration {
        let member = self.shared.servers.get(server);
        member.map_or(Duration::ZERO, |member| member.late)
    }

    /// Has questions of a server that belong to this call written into the run of this host, where the
    /// server works for others too, until what this returns is dropped.
    pub(crate) fn asks_for(&self, server: &ServerName, caller: Option<u64>) -> Option<CallRun> {
        let runs = self.shared.servers.get(server)?.runs.as_ref()?;
        Some(runs.enter(caller?, self.run()))
    }

    /// Prompts and resources that have been listed.
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shared.lasting.shelf
    }

    /// The servers of this host, by name.
    pub fn server_names(&self) -> Vec<ServerName> {
        self.shared.servers.keys().cloned().collect()
    }

    /// Where a server stands; `None` when there is no such server.
    pub(crate) fn state_of(&self, server: &ServerName) -> Option<ServerState> {
        let member = self.shared.servers.get(server)?;
        Some(member.now())
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
        self.shared.lasting.person.waited()
    }

    pub(crate) fn person(&self) -> &Person {
        &self.shared.lasting.person
    }

    pub(crate) fn next_call(&self) -> u32 {
        self.shared.lasting.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits until the catalog knows what a server has announced by now. False when it does not come
    /// to know it in time.
    pub(crate) async fn in_step(&self, server: &ServerName, connection: &Connection) -> bool {
        let announced = *connection.tools_changed().borrow();
        let mut published = self.shared.board.published();
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
    pub(crate) fn connection_for(&self, tool: &CatalogTool) -> Result<Arc<Ready>, CallOutcome> {
        let state = self.shared.servers.get(&tool.server).map(Member::now);
        let ready = match state {
            Some(ServerState::Ready(ready)) => ready,
            Some(other) => {
                return Err(CallOutcome::NotSent(
                    other.why_missing().unwrap_or_default(),
                ));
            }
            None => return Err(CallOutcome::NotSent("it is not configured".to_owned())),
        };
        let catalog = self.catalog();
        match catalog.find(tool.name.as_str()) {
            Some(now) if now.digest == tool.digest => Ok(ready),
            Some(_) => Err(CallOutcome::Rejected(Rejection::Changed)),
            None if catalog.is_held(tool) => Err(CallOutcome::Rejected(Rejection::HeldBack)),
            None => Err(CallOutcome::NotSent(
                "it no longer offers this tool".to_owned(),
            )),
        }
    }

    /// Waits, for a moment, until it is known here that a connection has ended: the turn that follows a
    /// lost call is not to be offered tools that nobody has.
    pub(crate) async fn ended(&self, server: &ServerName, connection: &Connection) {
        let Some(member) = self.shared.servers.get(server) else {
            return;
        };
        let (mut ended, mut state) = (connection.ended(), member.state.clone());
        let noticed = async {
            ended.wait_for(Option::is_some).await.ok();
            let gone = |state: &ServerState| match state {
                ServerState::Ready(ready) => ready.connection.ended().borrow().is_none(),
                _ => true,
            };
            state.wait_for(gone).await.ok();
        };
        tokio::time::timeout(NOTICED, noticed).await.ok();
    }

    /// Whether the server was started again since this was last asked.
    pub(crate) fn take_restarted(&self, server: &ServerName) -> bool {
        let member = self.shared.servers.get(server);
        member.is_some_and(Member::take_restarted)
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
            sent: None,
            trusted: names(trusted),
            claimed: names(claimed),
        }
    }
}

/// Which tools are declared to models however many there are. A glob that cannot be read was reported
/// with the configuration.
fn always(config: &Config) -> Always {
    let of_server = |(name, entry): (&ServerName, &ServerEntry)| {
        let EntryState::Ready(settings) = &entry.state else {
            return None;
        };
        let globs = settings.always.iter();
        let globs: Vec<_> = globs.filter_map(|text| glob(text).ok()).collect();
        (!globs.is_empty()).then(|| (name.clone(), globs))
    };
    config.servers.iter().filter_map(of_server).collect()
}

/// The built-in server that reads artifacts, unless a configured one stands in its place.
fn reader(config: &Config, builtins: &[Builtin]) -> Option<ServerName> {
    let mut builtins = builtins.iter();
    let reader = builtins.find(|builtin| builtin.on_demand)?;
    (!config.servers.contains_key(&reader.name)).then(|| reader.name.clone())
}

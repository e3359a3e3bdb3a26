//! What all clients of a principal share, what all principals share, and how both begin and end.
//!
//! Promises: stopping ends every listener, listing and call within a bound; a call that is cut short is
//! written down as such, and then hosts are ended by whoever made them.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use hyper::header::HeaderValue;
use jiff::Timestamp;
use outrigger_connect::ServerName;
use outrigger_connect::wire::quote;
use outrigger_host::Host;
use outrigger_host::config::GatewaySettings;
use outrigger_journal::{Journal, Run};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::Activity;
use crate::auth::{Access, Admitted, Pass};
use crate::changes::News;
use crate::clients::Clients;
use crate::http::Sessions;
use crate::listen::{self, Listener, TurnedAway};
use crate::message::{self, Fault};
use crate::parked::Parked;
use crate::pipe;
use crate::renew::Present;
use crate::room::{Place, Room};
use crate::session::{Made, Session, busy};
use crate::slots::{Slot, Slots};
use crate::tasks::Tasks;
use crate::tenant::{Identity, Keeper, Tenants};
use crate::view::Views;
use crate::web::Door;

/// How long a listing waits for servers of which nothing is known from before. Hosts wait for 10 s.
pub(crate) const FIRST_LISTING: Duration = Duration::from_secs(8);

/// How long calls that were given up may take to be written down.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// How clients see tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// `SERVER__TOOL`.
    #[default]
    ServerAndTool,
    /// As their server calls them; for one server alone.
    Own,
}

/// How a gateway serves.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Of this program.
    pub version: String,
    /// How clients see tools.
    pub naming: Naming,
    /// Who may connect, and how much each may do.
    pub access: GatewaySettings,
    /// An observer of the runs of all principals, for pages and metrics.
    pub activity: Arc<Activity>,
    /// The folder where it is kept who may decide on the page; without it nobody may.
    pub keys: Option<PathBuf>,
}

/// Where the calls of a principal are recorded.
#[derive(Clone, Default)]
pub struct Record {
    /// The journal.
    pub journal: Option<Journal>,
    /// The run in it.
    pub run: Option<Run>,
}

/// How long a call waits for its server to start.
pub(crate) const START: Duration = Duration::from_secs(60);

/// Requests of one client at one time that take their time, unless configuration says otherwise.
const REQUESTS: usize = 128;
/// Clients of one principal that have begun a session over HTTP, the same.
const SESSIONS: usize = 1024;
/// Connections of one principal over HTTP, the same.
const CONNECTIONS: usize = 1024;

/// What all principals share.
pub(crate) struct Shared {
    pub(crate) tenants: Tenants,
    pub(crate) access: Arc<Access>,
    /// By the names of servers.
    rooms: Rooms,
    naming: Naming,
    /// `serverInfo` as JSON.
    info: String,
    /// A permit for each connection.
    pub(crate) slots: Arc<Slots>,
    /// Connections for which there was none.
    pub(crate) turned_away: TurnedAway,
    /// One for each session.
    session_slots: Arc<Slots>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) door: Door,
    pub(crate) began: Timestamp,
    /// No new calls are taken; everything else is answered.
    pub(crate) drain: CancellationToken,
    /// Nothing new is taken.
    pub(crate) stop: CancellationToken,
    /// Calls are given up.
    abort: CancellationToken,
    /// Connections, and what looks after principals.
    pub(crate) tasks: TaskTracker,
}

/// What all clients of one principal share.
pub(crate) struct Core {
    pub(crate) who: Identity,
    pub(crate) record: Record,
    pub(crate) present: Arc<Present>,
    pub(crate) clients: Clients,
    pub(crate) views: Arc<Views>,
    pub(crate) parked: Parked<Made>,
    /// Calls that have become tasks.
    pub(crate) kept_tasks: Tasks,
    /// What is told of lists besides that of tools.
    pub(crate) news: Arc<News>,
    pub(crate) sessions: Sessions,
    pub(crate) access: Arc<Access>,
    /// A place for each of its connections over HTTP.
    pub(crate) connections: Arc<Slots>,
    /// One for each of its sessions.
    own_session_slots: Arc<Slots>,
    /// For the sessions of all principals.
    session_slots: Arc<Slots>,
    /// For the calls of its clients.
    room: Arc<Room>,
    /// By the names of servers, for the calls of all principals.
    rooms: Rooms,
    /// `serverInfo` as JSON.
    pub(crate) info: String,
    /// Names are those of the one server.
    pub(crate) own_names: bool,
    /// No new calls are taken.
    drain: CancellationToken,
    /// Nothing new is taken.
    pub(crate) stop: CancellationToken,
    /// Calls are given up.
    pub(crate) abort: CancellationToken,
    /// What is under way for its clients.
    pub(crate) tasks: TaskTracker,
}

/// A governed catalog that is served.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) shared: Arc<Shared>,
}

impl Gateway {
    /// Serves what `keeper` opens for each principal. Must be called within a runtime.
    pub fn start(keeper: Arc<dyn Keeper>, settings: Settings) -> Self {
        let info = format!(
            "{{\"name\":\"outrigger\",\"title\":\"Outrigger\",\"version\":{}}}",
            quote(&settings.version)
        );
        let rooms = Rooms::default();
        rooms.allow(&settings.access);
        let slots = Slots::new(settings.access.max_connections.value);
        let session_slots = Slots::new(settings.access.max_sessions.value);
        let access = Access::new(settings.access);
        let shared = Arc::new(Shared {
            tenants: Tenants::new(keeper, Arc::clone(&access)),
            access,
            rooms,
            naming: settings.naming,
            info,
            slots,
            turned_away: TurnedAway::default(),
            session_slots,
            activity: settings.activity,
            door: Door::new(settings.keys),
            began: Timestamp::now(),
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let tidied = Arc::clone(&shared);
        shared.tasks.spawn(async move {
            tokio::select! {
                () = tidied.stop.cancelled() => {}
                () = tidied.tenants.tidy() => {}
            }
        });
        Self { shared }
    }

    /// Opens what belongs to whoever runs the gateway, before anybody asks for it. An error says why
    /// that cannot be.
    pub async fn open_local(&self) -> Result<(), String> {
        let opened = self
            .shared
            .tenants
            .of(&self.shared, &Admitted::local())
            .await;
        opened.map(drop).map_err(|unserved| unserved.to_string())
    }

    /// Serves one client over a pair of streams, a message a line, until its side is closed or the
    /// gateway is stopped. It is taken for whoever runs the gateway.
    pub async fn serve_pipe(
        &self,
        reader: impl AsyncRead + Unpin + Send,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) {
        self.shared.access.has_private_way();
        pipe::serve(&self.shared, reader, writer).await;
    }

    /// The address of the pages that a listener will have, which can be opened from now on.
    pub fn page(&self, listener: &Listener) -> Option<String> {
        let (url, port) = listener.page()?;
        if let Err(error) = self.shared.door.opens(&url, port) {
            tracing::warn!(%error, "nobody can decide on the page: its key cannot be kept");
        }
        Some(url)
    }

    /// Serves whoever connects, until the gateway is stopped.
    pub async fn serve(&self, listener: Listener) {
        listen::serve(&self.shared, listener).await;
    }

    /// Takes no new calls, and waits for at most `grace` for those that are under way. Whoever looks is
    /// told that it is not ready any more.
    pub async fn drain(&self, grace: Duration) {
        let shared = &self.shared;
        shared.drain.cancel();
        let cores = shared.tenants.cores_under_way();
        let ended = join_all(cores.iter().map(|core| core.idle()));
        tokio::time::timeout(grace, ended).await.ok();
    }

    /// Takes nothing new, waits for at most `grace` for what is under way, gives up the rest, and ends
    /// what was opened.
    pub async fn stop(&self, grace: Duration) {
        let shared = &self.shared;
        shared.drain.cancel();
        shared.stop.cancel();
        shared.tasks.close();
        let cores = shared.tenants.cores_under_way();
        join_all(cores.iter().map(|core| core.finish(grace))).await;
        tokio::time::timeout(GIVEN_UP, shared.tasks.wait())
            .await
            .ok();
        shared.tenants.end().await;
    }
}

/// Rooms by the names of servers. Clones are the same ones.
#[derive(Clone, Default)]
struct Rooms(Arc<Mutex<HashMap<String, Arc<Room>>>>);

impl Rooms {
    /// Those that settings name, with what they say.
    fn allow(&self, settings: &GatewaySettings) {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|name, _| settings.servers.contains_key(name));
        for (name, limits) in &settings.servers {
            if let Some(room) = rooms.get(name) {
                room.allow(*limits);
            } else {
                let whose = format!("all clients of the server `{name}`");
                rooms.insert(name.clone(), Room::new(whose, *limits));
            }
        }
    }

    fn of(&self, server: &ServerName) -> Option<Arc<Room>> {
        let rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.get(server.as_str()).cloned()
    }
}

/// A principal in a sentence.
fn whose(who: &Identity) -> String {
    match who.name() {
        Some(name) => format!("`{name}`"),
        None => "whoever runs the gateway".to_owned(),
    }
}

/// What is refused because of how many there are. `key`, below `gateway`, says how many there may be;
/// `limit` is what clients are told it is called.
fn too_many(words: &str, (key, limit): (&str, &str)) -> Fault {
    let mut fault = busy(&format!("{words} (`gateway.{key}`)"));
    fault.data = Some(json!({ "limit": limit }));
    fault
}

impl Shared {
    /// Other limits hold for what comes from now on.
    pub(crate) fn allow(&self, settings: &GatewaySettings) {
        self.rooms.allow(settings);
        self.slots.resize(settings.max_connections.value);
        self.session_slots.resize(settings.max_sessions.value);
        for core in self.tenants.cores() {
            let limits = settings.limits_of(core.who.name());
            core.room.allow(limits);
            let connections = limits.connections.unwrap_or(CONNECTIONS);
            core.connections.resize(connections);
            let sessions = limits.sessions.unwrap_or(SESSIONS);
            core.own_session_slots.resize(sessions);
        }
    }
}

impl Core {
    /// Lets a call through, to this server where it leads to one. What is given is to be kept until it
    /// has ended.
    pub(crate) async fn enter(
        &self,
        server: Option<&ServerName>,
        (cancel, pass): (&CancellationToken, &Pass),
    ) -> Result<[Option<Place>; 2], Fault> {
        if self.drain.is_cancelled() {
            return Err(busy("the gateway is ending"));
        }
        let given_up = async || {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = pass.over() => {}
            }
        };
        let own = self.room.enter(given_up()).await?;
        let of_server = match server.and_then(|server| self.rooms.of(server)) {
            Some(room) => Some(room.enter(given_up()).await?),
            None => None,
        };
        if pass.is_over() {
            let words = "whoever makes the call is not known here any more";
            return Err(Fault::new(message::INVALID_REQUEST, words));
        }
        Ok([Some(own), of_server])
    }

    /// Keeps a session; its id.
    pub(crate) fn keep(&self, session: Arc<Session>) -> Result<HeaderValue, Fault> {
        self.sessions.make_room();
        let Some(own) = self.own_session_slots.try_take() else {
            let limits = self.access.now().settings.limits_of(self.who.name());
            let most = limits.sessions.unwrap_or(SESSIONS);
            let words = format!("{most} sessions of {} are open", self.whose());
            return Err(too_many(&words, ("limits.sessions", "sessions")));
        };
        let Some(of_all) = self.session_slots.try_take() else {
            return Err(too_many(
                "too many sessions of all clients are open",
                ("max_sessions", "max_sessions"),
            ));
        };
        let kept = self.sessions.add(session, [own, of_all]);
        kept.ok_or_else(|| busy("there is no randomness for a session"))
    }

    /// How many requests of one client may be under way.
    pub(crate) fn requests(&self) -> usize {
        let limits = self.access.now().settings.limits_of(self.who.name());
        limits.requests.unwrap_or(REQUESTS)
    }

    /// A place for a connection.
    pub(crate) fn connect(&self) -> Result<Slot, Fault> {
        self.connections.try_take().ok_or_else(|| {
            let words = format!("too many connections of {} are open", self.whose());
            too_many(&words, ("limits.connections", "connections"))
        })
    }

    /// The principal in a sentence.
    fn whose(&self) -> String {
        whose(&self.who)
    }

    /// Begins to serve the tools of `host`, whose questions `clients` answer.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        (who, record): (&Identity, Record),
        (host, clients): (Host, Clients),
        kept: Option<PathBuf>,
    ) -> Arc<Self> {
        let limits = shared.access.now().settings.limits_of(who.name());
        let room = Room::new(whose(who), limits);
        let own = shared.naming == Naming::Own;
        let present = Present::new(host);
        let info = shared.info.clone();
        let views = Arc::new(Views::new(Arc::clone(&present), own, kept, info.clone()));
        let news = Arc::new(News::default());
        let followed = Arc::clone(&present);
        let core = Arc::new(Self {
            who: who.clone(),
            record,
            present,
            clients,
            views: Arc::clone(&views),
            parked: Parked::default(),
            kept_tasks: Tasks::default(),
            news: Arc::clone(&news),
            sessions: Sessions::default(),
            access: Arc::clone(&shared.access),
            connections: Slots::new(limits.connections.unwrap_or(CONNECTIONS)),
            own_session_slots: Slots::new(limits.sessions.unwrap_or(SESSIONS)),
            session_slots: Arc::clone(&shared.session_slots),
            room,
            rooms: shared.rooms.clone(),
            info,
            own_names: own,
            drain: shared.drain.clone(),
            stop: shared.stop.child_token(),
            abort: shared.abort.child_token(),
            tasks: TaskTracker::new(),
        });
        let stop = core.stop.clone();
        shared.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = Box::pin(views.follow()) => {}
                () = Box::pin(news.follow(&followed)) => {}
            }
        });
        core
    }

    /// Waits until no call is under way.
    async fn idle(&self) {
        self.room.empty().await;
    }

    /// Takes nothing new, and waits until what is under way has ended. What waits for somebody who is
    /// not known any more is given up.
    pub(crate) async fn retire(&self) {
        self.stop.cancel();
        self.parked.clear();
        self.kept_tasks.give_up_asking();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Waits for at most `grace` for what is under way, and gives up the rest. Nothing new is taken
    /// already.
    pub(crate) async fn finish(&self, grace: Duration) {
        self.parked.clear();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait())
            .await
            .is_err()
        {
            self.abort.cancel();
            tokio::time::timeout(GIVEN_UP, self.tasks.wait()).await.ok();
        }
    }

    /// Waits until servers of which nothing is known have started, for a while.
    pub(crate) async fn first_listing(&self) {
        let known = async {
            let (host, mut views) = (self.host(), self.views.watch());
            while self.views.waits_for_the_unknown() {
                tokio::select! {
                    _ = host.settled(FIRST_LISTING) => return,
                    Ok(()) = views.changed() => {}
                }
            }
        };
        tokio::select! {
            () = known => {}
            () = tokio::time::sleep(FIRST_LISTING) => {}
            () = self.stop.cancelled() => {}
        }
        self.views.refresh();
    }

    /// What a model may read about all of this.
    pub(crate) fn instructions(&self) -> String {
        let view = self.views.current();
        let servers: BTreeSet<&str> = view.servers().collect();
        let mut text = if servers.is_empty() {
            "No tools are known yet.".to_owned()
        } else {
            let servers: Vec<_> = servers.into_iter().collect();
            format!("Tools of these servers: {}.", servers.join(", "))
        };
        for (server, instructions) in self.views.toolset().instructions() {
            let _ = write!(
                text,
                "\n\nThe server `{server}` says about its tools:\n{}",
                instructions.text
            );
        }
        text
    }
}

//! What all clients share, and how it begins and ends.
//!
//! Promises: stopping ends every listener, listing and call within a bound; a call that is cut short is
//! written down as such. Ending the host and its servers is left to whoever made it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_connect::wire::quote;
use outrigger_host::Host;
use outrigger_journal::{Journal, Run};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::Activity;
use crate::changes::News;
use crate::clients::Clients;
use crate::http::Sessions;
use crate::listen::{self, Listener};
use crate::message::Fault;
use crate::parked::Parked;
use crate::pipe;
use crate::session::{Made, busy};
use crate::tasks::Tasks;
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
    /// The file where it is kept what was last known of the tools; one for each configuration.
    pub kept: Option<PathBuf>,
    /// What is seen of the run, for pages and metrics.
    pub record: Record,
    /// The folder where it is kept who may decide on the page; without it nobody may.
    pub keys: Option<PathBuf>,
}

/// What is seen of the run.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// An observer of the run.
    pub activity: Arc<Activity>,
    /// Where it is recorded.
    pub journal: Option<Journal>,
    /// The run.
    pub run: Option<Run>,
}

/// Bounds on what clients may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Calls of all clients at one time.
    pub(crate) calls: usize,
    /// Requests of one client at one time that take their time.
    pub(crate) per_client: usize,
    /// How long a call waits for its server to start.
    pub(crate) start: Duration,
    /// Bytes of one message of a client.
    pub(crate) message: usize,
    /// Clients that have begun a session, over HTTP.
    pub(crate) sessions: usize,
    /// Connections at one time.
    pub(crate) connections: usize,
}

const LIMITS: Limits = Limits {
    calls: 256,
    per_client: 128,
    start: Duration::from_secs(60),
    message: 16 << 20,
    sessions: 1024,
    connections: 1024,
};

/// What all clients share.
pub(crate) struct Core {
    pub(crate) host: Host,
    pub(crate) clients: Clients,
    pub(crate) views: Arc<Views>,
    pub(crate) parked: Parked<Made>,
    /// Calls that have become tasks.
    pub(crate) kept_tasks: Tasks,
    /// What is told of lists besides that of tools.
    pub(crate) news: Arc<News>,
    pub(crate) sessions: Sessions,
    pub(crate) limits: Limits,
    /// A permit for each call.
    pub(crate) room: Arc<Semaphore>,
    /// A permit for each connection.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) record: Record,
    pub(crate) door: Door,
    pub(crate) began: Timestamp,
    /// `serverInfo` as JSON.
    pub(crate) info: String,
    /// Names are those of the one server.
    pub(crate) own_names: bool,
    /// No new calls are taken; everything else is answered.
    pub(crate) drain: CancellationToken,
    /// Nothing new is taken.
    pub(crate) stop: CancellationToken,
    /// Calls are given up.
    pub(crate) abort: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// A governed catalog that is served.
#[derive(Clone)]
pub struct Gateway {
    core: Arc<Core>,
}

impl Gateway {
    /// Serves the tools of `host`, whose questions `clients` answer. Must be called within a runtime.
    pub fn start(host: Host, clients: Clients, settings: Settings) -> Self {
        let info = format!(
            "{{\"name\":\"outrigger\",\"title\":\"Outrigger\",\"version\":{}}}",
            quote(&settings.version)
        );
        let own = settings.naming == Naming::Own;
        let views = Arc::new(Views::new(host.clone(), own, settings.kept, info.clone()));
        let news = Arc::new(News::default());
        let followed = host.clone();
        let core = Arc::new(Core {
            host,
            clients,
            views: Arc::clone(&views),
            parked: Parked::default(),
            kept_tasks: Tasks::default(),
            news: Arc::clone(&news),
            sessions: Sessions::default(),
            limits: LIMITS,
            room: Arc::new(Semaphore::new(LIMITS.calls)),
            slots: Arc::new(Semaphore::new(LIMITS.connections)),
            record: settings.record,
            door: Door::new(settings.keys),
            began: Timestamp::now(),
            drain: CancellationToken::new(),
            info,
            own_names: own,
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let stop = core.stop.clone();
        core.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = Box::pin(views.follow()) => {}
                () = Box::pin(news.follow(&followed)) => {}
            }
        });
        Self { core }
    }

    /// Serves one client over a pair of streams, a message a line, until its side is closed or the
    /// gateway is stopped.
    pub async fn serve_pipe(
        &self,
        reader: impl AsyncRead + Unpin + Send,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) {
        pipe::serve(&self.core, reader, writer).await;
    }

    /// Serves whoever connects, until the gateway is stopped.
    pub async fn serve(&self, listener: Listener) {
        listen::serve(&self.core, listener).await;
    }

    /// Takes no new calls, and waits for at most `grace` for those that are under way. Whoever looks is
    /// told that it is not ready any more.
    pub async fn drain(&self, grace: Duration) {
        let core = &self.core;
        core.drain.cancel();
        let all = u32::try_from(core.limits.calls).unwrap_or(u32::MAX);
        let ended = core.room.acquire_many(all);
        tokio::time::timeout(grace, ended).await.ok();
    }

    /// Takes nothing new, waits for at most `grace` for what is under way, and gives up the rest.
    pub async fn stop(&self, grace: Duration) {
        let core = &self.core;
        core.drain.cancel();
        core.stop.cancel();
        core.parked.clear();
        core.tasks.close();
        if tokio::time::timeout(grace, core.tasks.wait())
            .await
            .is_err()
        {
            core.abort.cancel();
            tokio::time::timeout(GIVEN_UP, core.tasks.wait()).await.ok();
        }
    }
}

impl Core {
    /// Room for one more call.
    pub(crate) fn slot(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if self.drain.is_cancelled() {
            return Err(busy("the gateway is ending"));
        }
        let slot = Arc::clone(&self.room).try_acquire_owned();
        slot.map_err(|_| busy(&format!("{} calls are under way", self.limits.calls)))
    }

    /// Connections of clients.
    pub(crate) fn connections(&self) -> usize {
        self.limits.connections - self.slots.available_permits()
    }

    /// Waits until servers of which nothing is known have started, for a while.
    pub(crate) async fn first_listing(&self) {
        let known = async {
            let mut views = self.views.watch();
            while self.views.waits_for_the_unknown() {
                tokio::select! {
                    _ = self.host.settled(FIRST_LISTING) => return,
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

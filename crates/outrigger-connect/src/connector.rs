//! From a specification to a live connection.
//!
//! Promises: it ends by the start deadline; a server that dies of the probe is started again without
//! it; whatever was started for an attempt that failed is gone when the error is returned.
//! Leaves out: trying again later, which is the host's.

mod explain;

use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use outrigger_sandbox::SpawnError;
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::connection::Era;
use crate::connection::{Inner, PeerInfo, Timings};
use crate::desk::Desk;
use crate::eras::{EraCache, Eras};
use crate::handlers::Handlers;
use crate::handshake::{self, Handshake, HandshakeError, Identity, Peer, Versions};
use crate::link::http::events::Events;
use crate::link::http::{BadHttpSpec, Clients, Http};
use crate::link::pipe::Pipe;
use crate::link::stdio::Stdio;
use crate::link::websocket::WebSocket;
use crate::link::{Ends, Inbox, Link};
use crate::listening::Listening;
use crate::oauth::{Authorizer, LoginMark};
use crate::rpc::{Failure, Rpc};
use crate::subscribing::Followers;
use crate::tap::{self, Tap, Taps};
use crate::{
    ConnectError, Connection, HttpSpec, InProcessSpec, OAuth, Protocol, ServePipe, ServerName,
    ServerSpec, TransportSpec,
};

/// Messages that may wait to be taken by a server that does not read.
const QUEUE: usize = 256;

/// How long an attempt that failed may take to clean up.
const CLEAN_UP: Duration = Duration::from_millis(1500);

/// Makes connections. Holds what they share: the client's name, the supervisor program, HTTP pools.
#[derive(Debug, Clone)]
pub struct Connector {
    supervisor: Option<Vec<OsString>>,
    clients: Clients,
    oauth: Option<OAuth>,
    /// `clientInfo` as JSON.
    client: Arc<str>,
    handlers: Handlers,
    eras: Option<Eras>,
    taps: Option<Taps>,
    stand_ins: Option<StandIns>,
}

/// Names who serves in the place of a server.
type Casting = dyn Fn(&ServerName) -> Arc<dyn ServePipe> + Send + Sync;

#[derive(Clone)]
struct StandIns(Arc<Casting>);

impl fmt::Debug for StandIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandIns")
    }
}

impl Connector {
    /// `supervisor`: program and leading arguments that run [`outrigger_sandbox`]'s supervisor
    /// (normally this binary and its hidden subcommand); without it children are started directly.
    pub fn new(client_version: &str, supervisor: Option<Vec<OsString>>) -> Self {
        Self {
            supervisor,
            clients: Clients::new(&format!("outrigger/{client_version}")),
            client: handshake::client_info(client_version).into(),
            oauth: None,
            handlers: Handlers::default(),
            eras: None,
            taps: None,
            stand_ins: None,
        }
    }

    /// The connections made from now on answer the servers' questions with `handlers`.
    #[must_use]
    pub fn with_handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = handlers;
        self
    }

    /// Remembers in `cache` which era each server speaks, and begins with that.
    #[must_use]
    pub fn with_eras(mut self, cache: Arc<dyn EraCache>) -> Self {
        self.eras = Some(Eras(cache));
        self
    }

    /// Shows `tap` what crosses the wire of the connections made from now on.
    #[must_use]
    pub fn with_tap(mut self, tap: Arc<dyn Tap>) -> Self {
        self.taps = Some(Taps::new(tap));
        self
    }

    /// Whatever a specification says about reaching a server, what `casting` gives for its name is
    /// connected to, in this process: nothing is started, and nothing goes over a network.
    #[must_use]
    pub fn with_stand_ins(
        mut self,
        casting: impl Fn(&ServerName) -> Arc<dyn ServePipe> + Send + Sync + 'static,
    ) -> Self {
        self.stand_ins = Some(StandIns(Arc::new(casting)));
        self
    }

    fn cast(&self, spec: &ServerSpec) -> Option<ServerSpec> {
        let StandIns(casting) = self.stand_ins.as_ref()?;
        let mut spec = spec.clone();
        spec.transport = TransportSpec::InProcess(InProcessSpec(casting(&spec.name)));
        Some(spec)
    }

    /// Servers over HTTP that want a token are sent one.
    #[must_use]
    pub fn with_oauth(mut self, oauth: OAuth) -> Self {
        self.oauth = Some(oauth);
        self
    }

    /// Stands for the login that is kept for this server: another mark, another login. `None`: there
    /// is none, and never will be for a server that is not asked for over HTTP.
    pub async fn login_mark(&self, spec: &ServerSpec) -> Option<LoginMark> {
        match &spec.transport {
            TransportSpec::Http(http) | TransportSpec::Sse(http) => {
                self.oauth.as_ref()?.mark(http).await
            }
            TransportSpec::WebSocket(_) | TransportSpec::Stdio(_) | TransportSpec::InProcess(_) => {
                None
            }
        }
    }

    /// Connects, agrees on an era, and returns a connection that is ready to list.
    pub async fn connect(
        &self,
        spec: &ServerSpec,
        cancel: &CancellationToken,
    ) -> Result<Connection, ConnectError> {
        let cast = self.cast(spec);
        let spec = cast.as_ref().unwrap_or(spec);
        let mut attempt = Attempt::new(self, spec);
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Trouble::Cancelled),
            outcome = tokio::time::timeout(spec.deadlines.start, Box::pin(attempt.run())) => {
                outcome.unwrap_or(Err(Trouble::Timeout))
            }
        };
        match outcome {
            Ok(peer) => {
                // What was agreed on under a restriction says little about the server.
                if attempt.protocol == Protocol::Auto {
                    attempt.remember(Some(peer.agreed.era));
                }
                attempt
                    .connection(peer)
                    .ok_or_else(|| explain::cancelled(spec))
            }
            Err(trouble) => {
                if !matches!(trouble, Trouble::Cancelled) {
                    attempt.remember(None);
                }
                Err(Box::pin(attempt.explain(trouble)).await)
            }
        }
    }
}

/// Why an attempt failed.
#[derive(Debug)]
enum Trouble {
    Spawn(SpawnError),
    Http(BadHttpSpec),
    Handshake(HandshakeError),
    Timeout,
    Cancelled,
}

/// One attempt to connect.
struct Attempt<'a> {
    connector: &'a Connector,
    spec: &'a ServerSpec,
    authorizer: Option<Arc<Authorizer>>,
    open: Option<Open>,
    begun: Instant,
    timings: Timings,
    /// The method that is waited for.
    waiting_for: Mutex<&'static str>,
    /// Times that the server was started.
    starts: u32,
    identity: Identity,
    /// The eras that may be spoken.
    protocol: Protocol,
    /// What the server spoke when it was last connected to.
    remembered: Option<Era>,
    /// The same, until it does not hold any more.
    expected: Option<Era>,
}

/// Which of the ways to a server is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Configured,
    /// HTTP+SSE, where Streamable HTTP was refused.
    Events,
}

/// A failure that is more than "there is no such event stream".
fn tells_more(failure: &Failure) -> bool {
    match failure {
        Failure::Http(answer) => answer.redirect || answer.wants_credentials(),
        Failure::Rpc(_) | Failure::Malformed(_) => true,
        _ => false,
    }
}

/// Who answers when the server wants a token. All links of an attempt share it.
fn authorizer(connector: &Connector, spec: &ServerSpec) -> Option<Arc<Authorizer>> {
    let oauth = connector.oauth.as_ref()?;
    match &spec.transport {
        TransportSpec::Http(http) | TransportSpec::Sse(http) => {
            Authorizer::new(oauth, &spec.name, http).map(Arc::new)
        }
        TransportSpec::WebSocket(_) | TransportSpec::Stdio(_) | TransportSpec::InProcess(_) => None,
    }
}

/// A link and who waits on it.
struct Open {
    link: Box<dyn Link>,
    rpc: Arc<Rpc>,
}

impl<'a> Attempt<'a> {
    fn new(connector: &'a Connector, spec: &'a ServerSpec) -> Self {
        let eras = connector.eras.as_ref();
        let remembered = eras.and_then(|eras| eras.0.get(&spec.key()?));
        Self {
            connector,
            spec,
            authorizer: authorizer(connector, spec),
            open: None,
            begun: Instant::now(),
            timings: Timings::default(),
            waiting_for: Mutex::new("initialize"),
            starts: 0,
            identity: Identity {
                info: connector.client.clone(),
                capabilities: connector.handlers.capabilities().into(),
                versions: Versions::allowed(spec.versions.as_deref()),
            },
            protocol: match spec.transport {
                TransportSpec::Sse(_) => Protocol::Legacy,
                _ => spec.protocol,
            },
            remembered,
            expected: remembered,
        }
    }

    async fn run(&mut self) -> Result<Peer, Trouble> {
        let not_allowed = Trouble::Handshake(HandshakeError::NotAllowed);
        let narrowed = self.identity.versions.narrow(self.protocol);
        self.protocol = narrowed.ok_or(not_allowed)?;
        self.open(Way::Configured)?;
        self.timings.start = self.begun.elapsed();
        if self.protocol != Protocol::Auto || self.expected != Some(Era::Legacy) {
            return self.try_ways(self.protocol).await;
        }
        match self.try_ways(Protocol::Legacy).await {
            // It does not do as it did: what was remembered does not hold any more.
            Err(Trouble::Handshake(error)) if error.may_be_of_another_era() => {
                tracing::debug!(server = %self.spec.name, "not the era that was remembered; probing it");
                self.clean_up().await;
                self.expected = None;
                self.open(Way::Configured)?;
                self.try_ways(Protocol::Auto).await
            }
            outcome => outcome,
        }
    }

    fn remember(&self, era: Option<Era>) {
        if let (Some(eras), Some(key)) = (&self.connector.eras, self.spec.key())
            && self.remembered != era
        {
            eras.0.put(&key, era);
        }
    }

    /// Agrees on the link that is open, else on another that the same server may offer.
    async fn try_ways(&mut self, protocol: Protocol) -> Result<Peer, Trouble> {
        let first = self.agree(protocol).await;
        match &first {
            Err(Trouble::Handshake(HandshakeError::EndedOnProbe(failure)))
                if protocol == Protocol::Auto && self.may_have_died_of(failure) =>
            {
                tracing::debug!(server = %self.spec.name, "ended on the probe; starting it again without");
                self.clean_up().await;
                self.open(Way::Configured)?;
                self.agree(Protocol::Legacy).await
            }
            Err(Trouble::Handshake(error)) if self.may_be_older(error) => {
                tracing::debug!(server = %self.spec.name, "refused; trying HTTP+SSE");
                self.clean_up().await;
                self.open(Way::Events)?;
                match self.agree(Protocol::Legacy).await {
                    // It does not offer that either, so what it said first is what counts.
                    Err(Trouble::Handshake(HandshakeError::Failed { failure, .. }))
                        if !tells_more(&failure) =>
                    {
                        first
                    }
                    second => second,
                }
            }
            _ => first,
        }
    }

    /// Whether the end of a connection may be the probe's fault. Of a process that has ended it cannot
    /// be told whether the probe had reached it.
    fn may_have_died_of(&self, failure: &Failure) -> bool {
        matches!(failure, Failure::Closed(_))
            || matches!(self.spec.transport, TransportSpec::Stdio(_))
    }

    /// Whether this refusal is one that a server of 2024-11-05 gives, which has another endpoint to
    /// post to (MCP 2025-03-26, "Transports", "Backwards Compatibility").
    fn may_be_older(&self, error: &HandshakeError) -> bool {
        let HandshakeError::Failed {
            method: "initialize",
            failure: Failure::Http(answer),
        } = error
        else {
            return false;
        };
        matches!(self.spec.transport, TransportSpec::Http(_))
            && self.spec.protocol != Protocol::Modern
            && !answer.redirect
            && matches!(answer.status, 400 | 404 | 405 | 406 | 415)
    }

    async fn agree(&self, protocol: Protocol) -> Result<Peer, Trouble> {
        let Some(open) = &self.open else {
            return Err(Trouble::Cancelled);
        };
        let handshake = Handshake {
            rpc: &open.rpc,
            link: open.link.as_ref(),
            client: &self.identity,
            // Half of the time at least is left for what comes after a probe that is not answered.
            probe: match self.expected {
                Some(_) => self.spec.deadlines.start / 2,
                None => self.spec.deadlines.probe.min(self.spec.deadlines.start / 2),
            },
            separate_exchanges: self.over_http(),
            doubtful: self.protocol == Protocol::Auto && self.expected == Some(Era::Legacy),
            waiting_for: &self.waiting_for,
        };
        handshake.run(protocol).await.map_err(Trouble::Handshake)
    }

    fn over_http(&self) -> bool {
        matches!(
            self.spec.transport,
            TransportSpec::Http(_) | TransportSpec::Sse(_)
        )
    }

    fn open(&mut self, way: Way) -> Result<(), Trouble> {
        let limits = &self.spec.limits;
        let (sender, queue) = mpsc::channel(QUEUE.max(limits.concurrent_calls * 2));
        let handlers = self.connector.handlers.clone();
        let desk = Desk::new(
            self.spec.name.clone(),
            handlers,
            self.spec.deadlines.call_hard,
        );
        let rpc = Rpc::new(sender, Arc::new(desk), limits.notifications_per_second);
        let inbox: Arc<dyn Inbox> = rpc.clone();
        let transport = match way {
            Way::Events => "sse",
            Way::Configured => tap::name_of(&self.spec.transport),
        };
        let taps = self.connector.taps.as_ref();
        let watch = taps.map(|taps| taps.watch(&self.spec.name, transport));
        let ends = Ends {
            queue,
            inbox,
            watch: watch.unwrap_or_default(),
        };
        let clients = &self.connector.clients;
        let link: Box<dyn Link> = match &self.spec.transport {
            TransportSpec::Sse(spec) => self.events(spec, ends)?,
            TransportSpec::Http(spec) if way == Way::Events => self.events(spec, ends)?,
            TransportSpec::WebSocket(spec) => {
                Box::new(WebSocket::open(spec, limits, ends).map_err(Trouble::Http)?)
            }
            TransportSpec::Stdio(spec) => {
                let supervisor = self.connector.supervisor.clone();
                Box::new(Stdio::open(spec, supervisor, limits, ends).map_err(Trouble::Spawn)?)
            }
            TransportSpec::Http(spec) => {
                let means = (clients, self.authorizer.clone());
                Box::new(Http::open(spec, means, limits, ends).map_err(Trouble::Http)?)
            }
            TransportSpec::InProcess(spec) => Box::new(Pipe::open(spec, limits, ends)),
        };
        self.open = Some(Open { link, rpc });
        self.starts += 1;
        Ok(())
    }

    fn events(&self, spec: &HttpSpec, ends: Ends) -> Result<Box<dyn Link>, Trouble> {
        let bounds = (&self.spec.limits, self.spec.deadlines.probe);
        let means = (&self.connector.clients, self.authorizer.clone());
        let link = Events::open(spec, means, bounds, ends).map_err(Trouble::Http)?;
        Ok(Box::new(link))
    }

    /// Ends what is open and leaves it to be asked how it ended.
    async fn clean_up(&self) {
        if let Some(open) = &self.open {
            open.rpc.end("it could not be used");
            open.link.close(CLEAN_UP).await;
        }
    }

    fn connection(mut self, peer: Peer) -> Option<Connection> {
        let Open { link, rpc } = self.open.take()?;
        self.timings.handshake = self.begun.elapsed().saturating_sub(self.timings.start);
        let Timings { start, handshake } = self.timings;
        tracing::debug!(server = %self.spec.name, agreed = ?peer.agreed, ?start, ?handshake, "connected");
        let peer = PeerInfo {
            era: peer.agreed.era,
            protocol_version: peer.agreed.version,
            name: peer.name,
            version: peer.version,
            instructions: peer.instructions,
            capabilities: peer.capabilities,
            timings: self.timings,
        };
        let inner = Inner {
            server: self.spec.name.clone(),
            peer,
            rpc,
            link,
            deadlines: self.spec.deadlines,
            limits: self.spec.limits,
            client: self.identity.clone(),
            listening: Once::new(),
            listens_for: Listening::default(),
            followers: Followers::default(),
            slots: Semaphore::new(
                self.spec
                    .limits
                    .concurrent_calls
                    .min(Semaphore::MAX_PERMITS),
            ),
            mirrors: Mutex::default(),
            as_tasks: Mutex::default(),
            session: tokio::sync::Mutex::default(),
            session_number: AtomicU64::new(0),
            closed: OnceCell::new(),
        };
        Some(Connection {
            inner: Arc::new(inner),
        })
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.rpc.end("it was dropped");
            open.link.abort();
        }
    }
}

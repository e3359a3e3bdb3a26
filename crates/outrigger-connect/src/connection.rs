//! One live connection: what a caller holds.
//!
//! Promises: clones share it; it ends, with everything that belongs to it, when it is closed or
//! when the last clone is dropped. Leaves out: how it came to be (`connector`), and how listings
//! and calls are made (`listing`, `call`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use outrigger_sandbox::Process;
use serde_json::value::RawValue;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::handshake::{Handshake, Identity};
use crate::link::Link;
use crate::link::http::mirror::Mirror;
use crate::listening::Listening;
use crate::rpc::Rpc;
use crate::subscribing::Followers;
use crate::{CallError, Deadlines, Limits, ListError, Protocol, ServerName, TraceContext};

/// The two generations of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28 and later.
    Modern,
    /// 2025-11-25 and earlier.
    Legacy,
}

/// What the server said about itself.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// The generation that was agreed on.
    pub era: Era,
    /// The version that was agreed on, as a date.
    pub protocol_version: String,
    /// `serverInfo.name`, where given.
    pub name: Option<String>,
    /// `serverInfo.version`, where given.
    pub version: Option<String>,
    /// What the server says about how it is used. Not to be trusted.
    pub instructions: Option<String>,
    /// The capabilities object as it came.
    pub capabilities: Option<Box<RawValue>>,
    /// How long it took.
    pub timings: Timings,
}

/// How long the stages of connecting took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    /// Starting the process, or preparing the connection.
    pub start: Duration,
    /// Agreeing, which for a process includes its own start-up.
    pub handshake: Duration,
}

/// All pages of `tools/list`, each tool as it came.
#[derive(Debug)]
pub struct ToolListing {
    /// The tools in the server's order; equal names only once.
    pub tools: Vec<Box<RawValue>>,
    /// How many pages were read.
    pub pages: usize,
    /// Why the listing is not whole (limit reached, cursor repeated), for a person.
    pub problems: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// What a server may offer besides tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    ResourceTemplates,
    /// `prompts/list`.
    Prompts,
}

/// All pages of a listing, each entry as it came.
#[derive(Debug, Default)]
pub struct Listing {
    /// The entries in the server's order, at most as many as it may have tools.
    pub entries: Vec<Box<RawValue>>,
    /// How many pages were read.
    pub pages: usize,
    /// Why the listing is not whole, for a person.
    pub problems: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// A progress notification of a call.
#[derive(Debug, Clone)]
pub struct Progress {
    /// How far, in the server's own unit.
    pub progress: f64,
    /// How far it will go, where known.
    pub total: Option<f64>,
    /// The server's words.
    pub message: Option<String>,
}

/// How one call is to be made.
pub struct CallOptions {
    /// Gives the call up; the server is told.
    pub cancel: CancellationToken,
    /// Overrides the server's deadline.
    pub deadline: Option<Duration>,
    /// Who makes it, as a number of the caller's choice; [`Asker::caller`](crate::Asker) has it.
    pub caller: Option<u64>,
    /// Called for each report, on the connection's own task: it must return quickly.
    pub on_progress: Option<OnProgress>,
    /// Called once with the answer to a call that was given up on (deadline, cancel), if it still comes.
    pub on_late: Option<OnLate>,
    /// Where the call stands in a trace; the server is told, with each request that is part of it.
    pub trace: Option<TraceContext>,
    /// Told the id of each `tools/call` that is sent for it, on the caller's own task.
    pub on_sent: Option<OnSent>,
    /// Asked directly before each request that has the server do something: the call itself, each time
    /// that it is sent, and what a task of it is answered. After a no nothing is sent.
    pub may_send: Option<MaySend>,
}

/// Told of each progress report of a call.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Given the late answer to a call that was given up.
pub type OnLate = Box<dyn FnOnce(Result<Box<RawValue>, CallError>) + Send>;

/// Whether a request may still be sent; must return quickly.
pub type MaySend = Arc<dyn Fn() -> bool + Send + Sync>;

/// Told the JSON-RPC id of a request.
pub type OnSent = Box<dyn Fn(&str) + Send + Sync>;

/// How a connection ended.
#[derive(Debug, Clone)]
pub struct CloseReport {
    /// How long closing took.
    pub took: Duration,
    /// Exit status or signal of the process, in words.
    pub exit: Option<String>,
    /// Steps beyond closing its input that were needed: `terminated`, `killed`, `stopped` (a server
    /// in this process), `abandoned` (something could not be ended).
    pub forced: Option<&'static str>,
}

/// A server that answers nothing until somebody signs in or gives it another token (401).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedOff {
    /// What it answered, or why no token could be had.
    pub message: String,
    /// What a person could do, where that is known: `outrigger login NAME`.
    pub hint: Option<String>,
}

/// A live connection; clones share it.
#[derive(Debug, Clone)]
pub struct Connection {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) server: ServerName,
    pub(crate) peer: PeerInfo,
    pub(crate) rpc: Arc<Rpc>,
    pub(crate) link: Box<dyn Link>,
    pub(crate) deadlines: Deadlines,
    pub(crate) limits: Limits,
    pub(crate) client: Identity,
    /// Changes of what the server offers are listened for.
    pub(crate) listening: Once,
    pub(crate) listens_for: Listening,
    pub(crate) followers: Followers,
    /// One permit for each call that may be under way.
    pub(crate) slots: Semaphore,
    /// Arguments to repeat in headers, by tool.
    pub(crate) mirrors: Mutex<HashMap<String, Mirror>>,
    /// Tools that the server runs as tasks only, in the legacy era.
    pub(crate) as_tasks: Mutex<HashSet<String>>,
    /// Counts sessions; the lock is held while one is made.
    pub(crate) session: tokio::sync::Mutex<()>,
    pub(crate) session_number: AtomicU64,
    pub(crate) closed: OnceCell<CloseReport>,
}

impl Connection {
    /// Its configured name.
    pub fn server(&self) -> &ServerName {
        &self.inner.server
    }

    /// What the server said about itself.
    pub fn peer(&self) -> &PeerInfo {
        &self.inner.peer
    }

    /// All pages of `tools/list`, within the list deadline.
    pub async fn list_tools(&self) -> Result<ToolListing, ListError> {
        self.inner.list_tools().await
    }

    /// All pages of a listing, within the list deadline. `None`: the server does not declare the
    /// capability, and was not asked.
    pub async fn list(&self, offer: Offer) -> Result<Option<Listing>, ListError> {
        if !self.inner.declares(offer.capability()) {
            return Ok(None);
        }
        self.inner.list(offer).await.map(Some)
    }

    /// The processes of the server, parents before their children, its supervisor first. Empty for
    /// a server that is none of this machine's, and where processes cannot be looked at.
    pub fn processes(&self) -> Vec<Process> {
        self.inner.link.processes()
    }

    /// Sends one `tools/call`, once. `arguments` go out byte for byte, save line breaks between
    /// tokens, which become spaces; `null` goes out as `{}`. The result comes back byte for byte,
    /// save bytes and escapes that are no Unicode, which become U+FFFD.
    pub async fn call_tool(
        &self,
        tool: &str,
        arguments: &RawValue,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        self.inner.call_tool(tool, arguments, options).await
    }

    /// Counts up whenever the server says that its tools have changed.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.inner.rpc.news().tools.subscribe()
    }

    /// Counts up whenever the server says that its prompts have changed.
    pub fn prompts_changed(&self) -> watch::Receiver<u64> {
        self.inner.rpc.news().prompts.subscribe()
    }

    /// Counts up whenever the server says that its resources, or their templates, have changed.
    pub fn resources_changed(&self) -> watch::Receiver<u64> {
        self.inner.rpc.news().resources.subscribe()
    }

    /// `None` while the connection lives, then why it ended.
    pub fn ended(&self) -> watch::Receiver<Option<String>> {
        self.inner.rpc.ended()
    }

    /// The last lines of the server's standard error and of what else it printed: at most `lines`,
    /// half of them at least from standard error where it has as many.
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        log_tail(self.inner.link.as_ref(), &self.inner.rpc, lines)
    }

    /// What the server sent that was of no use, in words: noise, stray answers, floods.
    pub fn remarks(&self) -> Vec<String> {
        self.inner.rpc.log().remarks()
    }

    /// `None` until the server refuses whatever it is sent to know us by, in the middle of it all.
    pub fn signed_off(&self) -> watch::Receiver<Option<SignedOff>> {
        self.inner.rpc.signed_off().subscribe()
    }

    /// Somebody has signed in since: the next request tells whether that is enough.
    pub fn forget_signed_off(&self) {
        self.inner.rpc.signed_off().send_replace(None);
        // A stream that listened has ended with the login.
        self.inner.link.listen();
    }

    /// `None` until there is something that a person should be warned of: a flood of notifications.
    pub fn warning(&self) -> watch::Receiver<Option<String>> {
        self.inner.rpc.log().warning()
    }

    /// Ends the connection in order, within the close deadline whatever the server does. Idempotent.
    pub async fn close(&self) -> CloseReport {
        let inner = &self.inner;
        let close = || async {
            inner.rpc.end("it was closed");
            inner.link.close(inner.deadlines.close).await
        };
        inner.closed.get_or_init(close).await.clone()
    }
}

/// Standard error has at least half of the room, and all that the rest leaves.
pub(crate) fn log_tail(link: &dyn Link, rpc: &Rpc, lines: usize) -> Vec<String> {
    let said = rpc.log().tail(lines);
    let half = lines.div_ceil(2);
    let stderr = link.stderr_tail(half.max(lines.saturating_sub(said.len())));
    let room = lines.saturating_sub(stderr.len());
    let kept = said.len().saturating_sub(room);
    said.into_iter().skip(kept).chain(stderr).collect()
}

impl Inner {
    /// Makes a new session after the server has forgotten session `known`. Only one caller does it;
    /// the others find it done.
    pub(crate) async fn renew_session(&self, known: u64) -> bool {
        let _guard = self.session.lock().await;
        if self.session_number.load(Ordering::Acquire) != known {
            return true;
        }
        let waiting_for = Mutex::new("initialize");
        let handshake = Handshake {
            rpc: &self.rpc,
            link: self.link.as_ref(),
            client: &self.client,
            probe: self.deadlines.probe,
            separate_exchanges: true,
            doubtful: false,
            waiting_for: &waiting_for,
        };
        let made = handshake.run(Protocol::Legacy).await.is_ok();
        if made {
            self.session_number.fetch_add(1, Ordering::AcqRel);
            self.follow_again();
        }
        made
    }

    pub(crate) fn session_number(&self) -> u64 {
        self.session_number.load(Ordering::Acquire)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.rpc.end("it was dropped");
        self.link.abort();
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("server", &self.server)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Default for CallOptions {
    /// The server's own deadline, nobody to cancel, nobody to tell.
    fn default() -> Self {
        Self {
            cancel: CancellationToken::new(),
            deadline: None,
            caller: None,
            on_progress: None,
            on_late: None,
            trace: None,
            on_sent: None,
            may_send: None,
        }
    }
}

/// Time left until `end`.
pub(crate) fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

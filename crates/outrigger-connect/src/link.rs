//! A link moves whole messages between this process and one server. It knows nothing of requests
//! that wait, of eras, or of what a message says.
//!
//! Promises: each outgoing message is taken up once ([`Ticket::begin`]) or not at all; each incoming
//! one goes to the [`Inbox`] in order; `close` always ends. Every task of a link ends with its
//! [`Tasks`]. Leaves out: correlation, which is `rpc`'s.

pub(crate) mod http;
pub(crate) mod pipe;
pub(crate) mod stdio;
mod stream;
pub(crate) mod tls;
mod tunnel;
pub(crate) mod websocket;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use outrigger_sandbox::Process;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::TraceContext;
use crate::connection::{CloseReport, Era};
use crate::frame::Unusable;
use crate::rpc::Failure;
use crate::tap::Watch;

/// A message on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    pub(crate) purpose: Purpose,
    pub(crate) ticket: Arc<Ticket>,
}

/// What an outgoing message is. Links that speak HTTP name it in headers.
#[derive(Debug)]
pub(crate) enum Purpose {
    Request(Head),
    Notification(&'static str),
    /// The answer to a request of the server.
    Reply,
}

/// What a link may know of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    /// The tool, for `tools/call`.
    pub(crate) name: Option<String>,
    /// Arguments that the tool's schema wants mirrored: header name and value.
    pub(crate) mirrored: Vec<(String, String)>,
    pub(crate) trace: Option<TraceContext>,
}

/// What came in.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A candidate for a message; `of` is the request in whose exchange it came, where that is known.
    Frame { text: Bytes, of: Option<u64> },
    /// Something that was no message.
    Noise(String),
    /// A message that cannot be used.
    Unusable { what: Unusable, of: Option<u64> },
    /// The exchange of one request ended without an answer.
    Failed { request: u64, failure: Failure },
    /// The link is gone, and why.
    Ended(String),
}

/// Where a link puts what came in. Called from the link's own tasks; must not block.
pub(crate) trait Inbox: Send + Sync {
    fn receive(&self, event: LinkEvent);

    /// Whether an answer to this request would still be of use.
    fn wants(&self, request: u64) -> bool;
}

/// What a link works between.
pub(crate) struct Ends {
    /// What it is to send.
    pub(crate) queue: mpsc::Receiver<Outgoing>,
    /// Where it puts what came.
    pub(crate) inbox: Arc<dyn Inbox>,
    /// Who watches.
    pub(crate) watch: Watch,
}

/// The fate of one outgoing message, shared by who sends it and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    state: AtomicU8,
    abandoned: CancellationToken,
    handed_over: CancellationToken,
}

const QUEUED: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Ticket {
    /// The link is about to hand the first byte over. `false`: it was withdrawn, do not send.
    pub(crate) fn begin(&self) -> bool {
        self.state
            .compare_exchange(QUEUED, BEGUN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Takes the message back. `true`: nothing of it has left, and nothing will.
    pub(crate) fn withdraw(&self) -> bool {
        let before =
            self.state
                .compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok() || before == Err(WITHDRAWN)
    }

    /// The operating system took nothing of it after all.
    pub(crate) fn returned(&self) {
        self.state.store(WITHDRAWN, Ordering::Release);
    }

    /// The link is done with sending it, whatever came of it.
    pub(crate) fn handed_over(&self) {
        self.handed_over.cancel();
    }

    pub(crate) async fn until_handed_over(&self) {
        self.handed_over.cancelled().await;
    }

    /// Nobody waits for the answer any more.
    pub(crate) fn abandon(&self) {
        self.abandoned.cancel();
    }

    pub(crate) async fn until_abandoned(&self) {
        self.abandoned.cancelled().await;
    }
}

/// The tasks of one link. They run until they end or until [`Tasks::stop`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Runs `work` until it ends or the link is stopped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled(work).await;
        });
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until all tasks have ended by themselves. `false`: not within `limit`.
    pub(crate) async fn finished(&self, limit: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait())
            .await
            .is_ok()
    }

    /// Stops all tasks and waits until they are gone.
    pub(crate) async fn finish(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// One live link.
pub(crate) trait Link: Send + Sync {
    /// An era and a version were agreed on, or (`None`) are to be agreed on anew.
    fn agreed(&self, agreed: Option<Agreed>);

    /// The handshake is over: messages that belong to no request may be asked for.
    fn listen(&self) {}

    /// Cancelling a request means ending its exchange, not sending a notification.
    fn cancels_by_hanging_up(&self) -> bool {
        false
    }

    /// Arguments are mirrored in headers where a tool's schema says so.
    fn mirrors_arguments(&self) -> bool {
        false
    }

    /// The last lines of the server's standard error.
    fn stderr_tail(&self, lines: usize) -> Vec<String> {
        let _ = lines;
        Vec::new()
    }

    /// The processes of the server, where it has some.
    fn processes(&self) -> Vec<Process> {
        Vec::new()
    }

    /// How the process ended, if there is one and it has.
    fn exit(&self) -> Option<String> {
        None
    }

    /// Ends the link within about `limit`, whatever the server does.
    fn close(&self, limit: Duration) -> BoxFuture<'_, CloseReport>;

    /// Ends everything at once, without good manners.
    fn abort(&self);
}

/// What both sides speak.
#[derive(Debug, Clone)]
pub(crate) struct Agreed {
    pub(crate) era: Era,
    pub(crate) version: String,
    /// The server may speak without being asked: of changes of its tools, or to ask something.
    pub(crate) speaks_first: bool,
}

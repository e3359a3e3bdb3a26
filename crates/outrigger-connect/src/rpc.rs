//! Requests that wait for their answers, over any link.
//!
//! Promises: each request ends exactly once, with the server's bytes or with a [`Failure`] that
//! tells the truth about whether it left; nothing a server sends makes this grow without bound.
//! Leaves out: deadlines (the callers'), eras (`handshake`), and how messages travel (`link`).

mod failure;
mod incoming;
mod log;
pub(crate) mod message;
mod news;
mod pending;
mod question;
mod request;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::connection::{OnLate, SignedOff};
use crate::desk::Desk;
use crate::link::{Outgoing, Purpose, Tasks, Ticket};

pub(crate) use failure::{Failure, HttpAnswer, RpcError};
pub(crate) use log::ServerLog;
pub(crate) use news::News;
pub use news::Updates;
pub(crate) use pending::Scope;
pub(crate) use request::Request;

use pending::{Entry, Late, Pending};
use question::Questions;

/// The end of a request: the result as it came, or why there is none.
pub(crate) type Answer = Result<Box<RawValue>, Failure>;

/// Our ids are decimal strings from here on: a server that turns them into numbers still matches,
/// and a log line `{"id":1,…}` does not.
const FIRST_ID: u64 = 1_000_001;

/// The client side of one link.
#[derive(Debug)]
pub(crate) struct Rpc {
    outgoing: mpsc::Sender<Outgoing>,
    next_id: AtomicU64,
    pending: Mutex<Pending>,
    /// The members of `_meta` that every request of the modern era carries, as JSON without braces.
    envelope: Mutex<Option<Arc<str>>>,
    cancels_by_hanging_up: AtomicBool,
    news: News,
    ended: watch::Sender<Option<String>>,
    /// What the server said when it refused what it was sent to know us by.
    signed_off: watch::Sender<Option<SignedOff>>,
    log: ServerLog,
    questions: Questions,
    /// The server has confirmed that it will tell of changes.
    subscribed: AtomicBool,
    /// What runs beside the requests; it ends with the connection.
    tasks: Tasks,
    me: Weak<Self>,
}

/// A request that has not been answered to yet. Dropping it gives the request up.
#[derive(Debug)]
pub(crate) struct InFlight {
    rpc: Arc<Rpc>,
    id: u64,
    answer: oneshot::Receiver<Answer>,
    progress: Arc<Notify>,
    cancellable: bool,
    done: bool,
}

/// What became of a request that was given up.
#[derive(Debug)]
pub(crate) enum GivenUp {
    /// It had been answered in the same moment.
    Answered(Answer),
    /// Nothing of it left the process.
    NotSent,
    /// It was sent; the server has been told to stop, as far as the protocol allows.
    Sent,
}

/// A question whose answer did not come.
#[derive(Debug)]
pub(crate) enum AskError {
    Timeout,
    Failed(Failure),
}

impl Rpc {
    /// A client that writes to `outgoing` and answers the server's questions at `desk`. Of the
    /// server's notifications, `notifications` a second are kept.
    pub(crate) fn new(
        outgoing: mpsc::Sender<Outgoing>,
        desk: Arc<Desk>,
        notifications: u32,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            outgoing,
            next_id: AtomicU64::new(FIRST_ID),
            pending: Mutex::new(Pending::default()),
            envelope: Mutex::new(None),
            cancels_by_hanging_up: AtomicBool::new(false),
            news: News::default(),
            ended: watch::Sender::new(None),
            signed_off: watch::Sender::new(None),
            log: ServerLog::new(notifications),
            questions: Questions::new(desk),
            subscribed: AtomicBool::new(false),
            tasks: Tasks::default(),
            me: me.clone(),
        })
    }

    /// Runs beside the requests, until it ends or the connection does.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Who answers the server's questions.
    pub(crate) fn desk(&self) -> &Arc<Desk> {
        self.questions.desk()
    }

    /// What the server tells of its own accord about what it offers.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// Whether a subscription has been confirmed since this was asked last.
    pub(crate) fn take_subscribed(&self) -> bool {
        self.subscribed.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn set_envelope(&self, members: Option<String>) {
        *lock(&self.envelope) = members.map(Into::into);
    }

    pub(crate) fn set_cancels_by_hanging_up(&self, yes: bool) {
        self.cancels_by_hanging_up.store(yes, Ordering::Relaxed);
    }

    pub(crate) fn signed_off(&self) -> &watch::Sender<Option<SignedOff>> {
        &self.signed_off
    }

    pub(crate) fn ended(&self) -> watch::Receiver<Option<String>> {
        self.ended.subscribe()
    }

    pub(crate) fn log(&self) -> &ServerLog {
        &self.log
    }

    /// Sends a request and returns what waits for its answer.
    pub(crate) fn start(self: &Arc<Self>, request: Request<'_>) -> InFlight {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let envelope = lock(&self.envelope).clone();
        let body = request.body(id, envelope.as_deref());
        let ticket = Arc::new(Ticket::default());
        let (answered, answer) = oneshot::channel();
        let progress = Arc::new(Notify::new());
        let cancellable = request.cancellable();
        let entry = Entry {
            answered,
            ticket: ticket.clone(),
            on_progress: request.on_progress.clone(),
            progressed: progress.clone(),
            scope: request.scope.clone(),
            standing: request.standing,
        };
        let purpose = Purpose::Request(request.into_head(id));
        match lock(&self.pending).insert(id, entry) {
            Ok(()) => {
                if let Err(error) = self.outgoing.try_send(Outgoing {
                    body,
                    purpose,
                    ticket,
                }) {
                    self.complete(id, Err(Failure::NotSent(not_taken(&error))));
                }
            }
            Err((entry, reason)) => {
                let _ = entry.answered.send(Err(Failure::NotSent(format!(
                    "the connection has ended: {reason}"
                ))));
            }
        }
        InFlight {
            rpc: self.clone(),
            id,
            answer,
            progress,
            cancellable,
            done: false,
        }
    }

    /// Sends a request and waits at most `limit` for its answer.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        request: Request<'_>,
        limit: Duration,
    ) -> Result<Box<RawValue>, AskError> {
        let mut flight = self.start(request);
        match tokio::time::timeout(limit, flight.answer()).await {
            Ok(answer) => answer.map_err(AskError::Failed),
            Err(_) => match flight.give_up(None) {
                GivenUp::Answered(answer) => answer.map_err(AskError::Failed),
                GivenUp::NotSent | GivenUp::Sent => Err(AskError::Timeout),
            },
        }
    }

    /// Sends a notification and waits, for a moment, until it has been handed over.
    pub(crate) async fn notify_first(&self, method: &'static str, patience: Duration) {
        if let Some(ticket) = self.notify(method, "") {
            // A server that accepts a notification and does not say so holds nothing up for long.
            let _ = tokio::time::timeout(patience, ticket.until_handed_over()).await;
        }
    }

    /// Sends a notification if there is room for it. `params` are members as JSON without braces.
    pub(crate) fn notify(&self, method: &'static str, params: &str) -> Option<Arc<Ticket>> {
        let meta = lock(&self.envelope)
            .as_deref()
            .map(|members| format!("\"_meta\":{{{members}}}"));
        let members: Vec<&str> = [
            Some(params).filter(|text| !text.is_empty()),
            meta.as_deref(),
        ]
        .into_iter()
        .flatten()
        .collect();
        let params = if members.is_empty() {
            String::new()
        } else {
            format!(",\"params\":{{{}}}", members.join(","))
        };
        let body = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"{params}}}");
        self.post(body, Purpose::Notification(method))
    }

    /// Sends something that has no answer. A server that does not read loses it.
    fn post(&self, body: String, purpose: Purpose) -> Option<Arc<Ticket>> {
        let ticket = Arc::new(Ticket::default());
        if self
            .outgoing
            .try_send(Outgoing {
                body: body.into(),
                purpose,
                ticket: ticket.clone(),
            })
            .is_err()
        {
            self.log.count_lost();
            return None;
        }
        Some(ticket)
    }

    /// Ends one request.
    fn complete(&self, id: u64, answer: Answer) {
        if let Err(Failure::Http(refusal)) = &answer
            && refusal.wants_sign_in()
        {
            self.signed_off.send_replace(Some(SignedOff {
                message: refusal.message.clone(),
                hint: refusal.hint.clone(),
            }));
        }
        let late = {
            let mut pending = lock(&self.pending);
            if let Some(entry) = pending.take(id) {
                let _ = entry.answered.send(answer);
                return;
            }
            pending.take_late(id)
        };
        match late {
            // The callback is the caller's code and must not run under our lock.
            Some(Late {
                on_late: Some(on_late),
                ..
            }) => on_late(answer.map_err(Into::into)),
            Some(_) => {}
            None => self.log.count_stray(),
        }
    }

    /// Ends every request and takes no more.
    pub(crate) fn end(&self, reason: &str) {
        let Some(open) = lock(&self.pending).end(reason) else {
            return;
        };
        self.tasks.stop();
        for entry in open {
            let failure = if entry.ticket.withdraw() {
                Failure::NotSent(format!("the connection has ended: {reason}"))
            } else {
                Failure::Closed(reason.to_owned())
            };
            entry.ticket.abandon();
            let _ = entry.answered.send(Err(failure));
        }
        self.ended.send_replace(Some(reason.to_owned()));
    }

    fn give_up(&self, flight: &mut InFlight, on_late: Option<OnLate>) -> GivenUp {
        flight.done = true;
        let mut pending = lock(&self.pending);
        // Under the lock no answer can slip between this look and the removal.
        if let Ok(answer) = flight.answer.try_recv() {
            return GivenUp::Answered(answer);
        }
        let Some(entry) = pending.take(flight.id) else {
            return GivenUp::Sent;
        };
        if entry.ticket.withdraw() {
            entry.ticket.abandon();
            return GivenUp::NotSent;
        }
        if self.cancels_by_hanging_up.load(Ordering::Relaxed) || !flight.cancellable {
            entry.ticket.abandon();
            return GivenUp::Sent;
        }
        pending.keep_late(
            flight.id,
            Late {
                on_late,
                ticket: entry.ticket,
            },
        );
        drop(pending);
        let params = format!(
            "\"requestId\":\"{}\",\"reason\":\"the caller gave up\"",
            flight.id
        );
        self.notify("notifications/cancelled", &params);
        GivenUp::Sent
    }
}

impl InFlight {
    /// The answer. Cancel-safe.
    pub(crate) async fn answer(&mut self) -> Answer {
        let answer = (&mut self.answer).await;
        self.done = true;
        answer.unwrap_or_else(|_| Err(Failure::Closed("the connection was dropped".to_owned())))
    }

    /// The answer, for who waits for nothing else.
    pub(crate) async fn answer_owned(mut self) -> Answer {
        self.answer().await
    }

    /// Its id, as it stands in the request.
    pub(crate) fn id(&self) -> String {
        self.id.to_string()
    }

    /// Told whenever the server reports progress; several reports may count as one.
    pub(crate) fn progress(&self) -> Arc<Notify> {
        self.progress.clone()
    }

    /// Lets it go on without anybody who waits; its answer is taken in and dropped.
    pub(crate) fn leave(mut self) {
        self.done = true;
        let mut pending = lock(&self.rpc.pending);
        if let Some(entry) = pending.take(self.id) {
            let ticket = entry.ticket;
            let on_late = None;
            pending.keep_late(self.id, Late { on_late, ticket });
        }
    }

    /// Waits no longer. If the answer still comes, `on_late` gets it.
    pub(crate) fn give_up(mut self, on_late: Option<OnLate>) -> GivenUp {
        let rpc = self.rpc.clone();
        rpc.give_up(&mut self, on_late)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.done {
            let rpc = self.rpc.clone();
            rpc.give_up(self, None);
        }
    }
}

fn not_taken(error: &mpsc::error::TrySendError<Outgoing>) -> String {
    match error {
        mpsc::error::TrySendError::Full(_) => {
            "too many messages wait for the server to read them".to_owned()
        }
        mpsc::error::TrySendError::Closed(_) => "the connection has ended".to_owned(),
    }
}

/// A panic while a lock is held leaves nothing half-done here, so the lock stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! One client, from its first message to its last: its requests, what it is asked, what it cancels.
//!
//! Promises: both eras are served beside one another, and each request by its own era's rules; every
//! request is answered once, unless its client has cancelled it; what is cancelled and not known is
//! ignored. Leaves out: how messages travel (`pipe`, `http`).

mod call;
mod fetch;
mod handshake;
mod listen;
mod missing;
mod offers;
mod tasks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outrigger_connect::wire::Message;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use call::Made;

use crate::auth::{Access, Pass};
use crate::client::{Client, Level, Meta};
use crate::gateway::Core;
use crate::message::{self, Fault};
use crate::outlet::Outlet;

/// Sessions that there were so far.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// What a client answered, or why it did not.
type Answer = Result<Box<RawValue>, String>;

/// A client.
pub(crate) struct Session {
    core: Arc<Core>,
    /// What its client was let in by.
    pass: Pass,
    /// Which one it is.
    number: u64,
    /// It stands for one request of the modern era, which begins no session.
    single: bool,
    /// Who has said `initialize`.
    client: Mutex<Option<Arc<Client>>>,
    level: Mutex<Level>,
    /// The number of the view that was listed last.
    listed: AtomicU64,
    /// Requests that can be cancelled, by id as JSON.
    running: Mutex<HashMap<String, CancellationToken>>,
    /// Questions to the client, by id as JSON.
    asked: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    questions: AtomicU64,
    /// Where the client hears of what belongs to no request.
    standing: Mutex<Option<Outlet>>,
    /// Resources that the client follows.
    followed: Mutex<HashMap<String, CancellationToken>>,
    tasks: TaskTracker,
    /// It has ended.
    over: CancellationToken,
}

/// A request to be answered.
pub(crate) struct Asked<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a RawValue>,
    /// Where the answer goes, and what belongs to it.
    pub(crate) outlet: Outlet,
    /// Its client does not wait any more.
    pub(crate) cancel: CancellationToken,
}

/// A request that is answered by a task of its own.
struct Task {
    id: Box<RawValue>,
    method: String,
    params: Option<Box<RawValue>>,
    client: Arc<Client>,
    outlet: Outlet,
    cancel: CancellationToken,
}

impl Session {
    pub(crate) fn new(core: &Arc<Core>, pass: &Pass) -> Arc<Self> {
        Arc::new(Self::of(core, pass, false))
    }

    /// For one request of the modern era.
    pub(crate) fn single(core: &Arc<Core>, pass: &Pass) -> Arc<Self> {
        Arc::new(Self::of(core, pass, true))
    }

    fn of(core: &Arc<Core>, pass: &Pass, single: bool) -> Self {
        Self {
            core: Arc::clone(core),
            pass: pass.clone(),
            number: SESSIONS.fetch_add(1, Ordering::Relaxed),
            single,
            client: Mutex::default(),
            level: Mutex::new(Level::Debug),
            listed: AtomicU64::new(0),
            running: Mutex::default(),
            asked: Mutex::default(),
            questions: AtomicU64::new(0),
            standing: Mutex::default(),
            followed: Mutex::default(),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
        }
    }

    /// It has begun with `initialize`.
    pub(crate) fn is_legacy(&self) -> bool {
        lock(&self.client).is_some()
    }

    /// The least level of log messages that the client wants to hear.
    pub(crate) fn level(&self) -> Level {
        *lock(&self.level)
    }

    /// From here on the client hears of what belongs to no request.
    pub(crate) fn stands(&self, outlet: &Outlet) {
        *lock(&self.standing) = Some(outlet.clone());
    }

    /// The number of the view that the client has listed; `None` where it has not.
    pub(crate) fn listed(&self) -> Option<u64> {
        Some(self.listed.load(Ordering::Relaxed)).filter(|number| *number > 0)
    }

    /// Answers a request, or begins to.
    pub(crate) async fn request(self: &Arc<Self>, asked: Asked<'_>) {
        let meta = Meta::of(asked.params).unwrap_or_default();
        let modern = self.single
            || meta.is_modern()
            || matches!(asked.method, "server/discover" | "subscriptions/listen");
        let client = if modern {
            match meta.client() {
                Ok(client) => Arc::new(client),
                Err(fault) => return asked.outlet.end(fault.reply(Some(asked.id))).await,
            }
        } else {
            lock(&self.client).clone().unwrap_or_default()
        };
        let reply = match (asked.method, modern) {
            ("server/discover", true) => Ok(self.discover()),
            ("initialize", false) => self.initialize(asked.params),
            ("ping", false) => Ok("{}".to_owned()),
            ("logging/setLevel", false) => self.set_level(asked.params),
            ("tools/list", _) if !self.core.views.waits_for_the_unknown() => {
                let reply = self.listing(asked.id, modern, asked.params);
                return asked.outlet.end(reply).await;
            }
            (
                "tools/list"
                | "tools/call"
                | "prompts/list"
                | "prompts/get"
                | "resources/list"
                | "resources/templates/list"
                | "resources/read"
                | "completion/complete"
                | "tasks/get"
                | "tasks/cancel",
                _,
            )
            | ("subscriptions/listen" | "tasks/update", true)
            | (
                "tasks/result" | "tasks/list" | "resources/subscribe" | "resources/unsubscribe",
                false,
            ) => {
                return self.begin(&asked, client).await;
            }
            (method, _) => Err(Fault::no_method(method)),
        };
        let reply = match reply {
            Ok(result) => message::result(asked.id, &result),
            Err(fault) => fault.reply(Some(asked.id)),
        };
        asked.outlet.end(reply).await;
    }

    /// Leaves a request to a task of its own, if its client has not too many of them.
    async fn begin(self: &Arc<Self>, asked: &Asked<'_>, client: Arc<Client>) {
        let key = asked.id.get().to_owned();
        let most = self.core.requests();
        let fault = {
            let mut running = lock(&self.running);
            if running.len() >= most {
                Some(busy(&format!(
                    "{most} requests of this client are under way (`gateway.limits.requests`)"
                )))
            } else if running.contains_key(&key) {
                let words = "a request with this id is under way";
                Some(Fault::new(message::INVALID_REQUEST, words))
            } else {
                running.insert(key.clone(), asked.cancel.clone());
                None
            }
        };
        if let Some(fault) = fault {
            return asked.outlet.end(fault.reply(Some(asked.id))).await;
        }
        let task = Task {
            id: asked.id.to_owned(),
            method: asked.method.to_owned(),
            params: asked.params.map(ToOwned::to_owned),
            client,
            outlet: asked.outlet.clone(),
            cancel: asked.cancel.clone(),
        };
        let session = Arc::clone(self);
        self.tasks.spawn(async move {
            match task.method.as_str() {
                "tools/list" => Box::pin(session.list_later(task)).await,
                "tools/call" => Box::pin(session.call(task)).await,
                "subscriptions/listen" => Box::pin(session.listen(task)).await,
                method if method.starts_with("tasks/") => {
                    Box::pin(session.about_tasks(task)).await;
                }
                _ => Box::pin(session.offer(task)).await,
            }
            lock(&session.running).remove(&key);
        });
    }

    /// Takes a notification.
    pub(crate) fn notification(&self, method: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(rename = "requestId", borrow)]
            id: &'a RawValue,
        }
        if method != "notifications/cancelled" {
            return;
        }
        let params = params.and_then(|raw| serde_json::from_str::<Cancelled<'_>>(raw.get()).ok());
        // Some hosts cancel every request that has ended.
        if let Some(Cancelled { id }) = params
            && let Some(cancel) = lock(&self.running).get(id.get())
        {
            cancel.cancel();
        }
    }

    /// Takes the answer to a question.
    pub(crate) fn answered(&self, message: &Message<'_>) {
        let Some(id) = message.id else { return };
        let Some(waiting) = lock(&self.asked).remove(id.get()) else {
            return;
        };
        let answer = match (message.result, message.error) {
            (Some(result), _) => Ok(result.to_owned()),
            (None, Some(error)) => Err(format!("the client refused: {}", why(error))),
            (None, None) => Err("the client's answer is empty".to_owned()),
        };
        // Whoever asked may not wait any more.
        let _ = waiting.send(answer);
    }

    /// Asks the client; the error says why there is no answer, worded for who asked.
    pub(crate) async fn ask(
        &self,
        outlet: &Outlet,
        method: &str,
        params: &str,
    ) -> Result<Box<RawValue>, String> {
        let number = self.questions.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("\"outrigger-{number}\"");
        let (answer, answered) = oneshot::channel();
        lock(&self.asked).insert(id.clone(), answer);
        let open = Open {
            session: self,
            outlet,
            id: &id,
        };
        let gone = || "the client that made the call is not there any more".to_owned();
        if !outlet.put(message::request(&id, method, params)).await {
            return Err(gone());
        }
        let answer = tokio::select! {
            biased;
            answer = answered => answer.unwrap_or_else(|_| Err(gone())),
            () = outlet.closed() => Err(gone()),
        };
        drop(open);
        answer
    }

    /// Who lets in.
    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.core.access)
    }

    /// What its client was let in by.
    pub(crate) fn pass(&self) -> &Pass {
        &self.pass
    }

    /// Something is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.running).is_empty()
    }

    /// Waits until the client has ended it.
    pub(crate) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Waits until nothing is under way.
    pub(crate) async fn idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Nothing is told to its client any more, and nothing asked. What is under way goes on.
    pub(crate) fn leave(&self) {
        self.over.cancel();
        lock(&self.standing).take();
        lock(&self.asked).clear();
    }

    /// Gives up all that is under way.
    pub(crate) fn cancel(&self) {
        self.leave();
        for cancel in lock(&self.running).values() {
            cancel.cancel();
        }
    }
}

impl Drop for Session {
    /// Whoever is gone follows nothing any more.
    fn drop(&mut self) {
        self.over.cancel();
    }
}

/// A question that has not been answered yet. Dropped, it is taken back.
struct Open<'a> {
    session: &'a Session,
    outlet: &'a Outlet,
    id: &'a str,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if lock(&self.session.asked).remove(self.id).is_some() {
            let params = format!("{{\"requestId\":{}}}", self.id);
            self.outlet
                .hint(message::notification("notifications/cancelled", &params));
        }
    }
}

fn why(error: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Shape {
        message: String,
    }
    let words = serde_json::from_str::<Shape>(error.get()).map(|shape| shape.message);
    words
        .unwrap_or_else(|_| error.get().to_owned())
        .chars()
        .filter(|c| !c.is_control())
        .take(300)
        .collect()
}

pub(crate) fn busy(why: &str) -> Fault {
    Fault::new(message::BUSY, format!("busy: {why}; try again later"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

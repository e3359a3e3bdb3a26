//! One call of a client while it is under way, and how its client is reached meanwhile.
//!
//! Promises: what belongs to a call goes to the client that made it and to nobody else. Progress and
//! log messages may be lost to a client that does not read; questions are not.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use outrigger_connect::{Progress, wire};
use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::auth::{Access, Auth, Pass};
use crate::client::{Client, Level};
use crate::message;
use crate::outlet::Outlet;
use crate::session::Session;
use crate::tasks::Kept;

/// A call under way.
pub(crate) struct Flight {
    pub(crate) client: Arc<Client>,
    /// The session that it belongs to.
    session: Weak<Session>,
    /// What its client was let in by, and who lets in.
    pass: Pass,
    access: Arc<Access>,
    /// Where its questions go, if they do not go to the client as requests.
    asks: Option<mpsc::Sender<Ask>>,
    line: Mutex<Line>,
    /// What it has become.
    task: OnceLock<Arc<Kept>>,
    /// What its client would have had to be able to, for a question that was put to nobody.
    lacks: OnceLock<&'static str>,
}

/// Where a client hears of its call.
struct Line {
    outlet: Outlet,
    /// What it wants progress to be called by.
    progress: Option<Box<RawValue>>,
    /// What it was told last: progress only grows.
    told: f64,
}

/// A question for the next round.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    /// What its server calls it, where it does.
    pub(crate) name: Option<String>,
    /// JSON object.
    pub(crate) params: String,
    pub(crate) answer: oneshot::Sender<Box<RawValue>>,
}

impl Flight {
    /// A call of this session's client, who is asked by requests.
    pub(crate) fn of_session(
        session: &Arc<Session>,
        client: Arc<Client>,
        outlet: Outlet,
        progress: Option<&RawValue>,
    ) -> Self {
        Self {
            client,
            session: Arc::downgrade(session),
            pass: session.pass().clone(),
            access: session.access(),
            asks: None,
            line: Mutex::new(Line::new(outlet, progress)),
            task: OnceLock::new(),
            lacks: OnceLock::new(),
        }
    }

    /// The same, where questions come out of the receiver: they are put to the client in results.
    pub(crate) fn of_rounds(
        session: &Arc<Session>,
        client: Arc<Client>,
        outlet: Outlet,
        progress: Option<&RawValue>,
    ) -> (Self, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(16);
        let mut flight = Self::of_session(session, client, outlet, progress);
        flight.asks = Some(asks);
        (flight, asked)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its client has come back for the next round.
    pub(crate) fn goes_on(&self, outlet: Outlet, progress: Option<&RawValue>) {
        *self.line() = Line::new(outlet, progress);
    }

    /// It has become a task: what it says of how far it is, is said of the task.
    pub(crate) fn becomes(&self, task: &Arc<Kept>) {
        // A call becomes one task at the most.
        let _ = self.task.set(Arc::clone(task));
    }

    pub(crate) fn progressed(&self, progress: &Progress) {
        if let (Some(task), Some(words)) = (self.task.get(), &progress.message) {
            task.said(words);
        }
        let mut line = self.line();
        let Some(token) = &line.progress else { return };
        if progress.progress <= line.told {
            return;
        }
        let mut params = format!(
            "{{\"progressToken\":{},\"progress\":{}",
            token.get(),
            number(progress.progress)
        );
        if let Some(total) = progress.total {
            let _ = write!(params, ",\"total\":{}", number(total));
        }
        if let Some(words) = &progress.message {
            let _ = write!(params, ",\"message\":{}", wire::quote(words));
        }
        params.push('}');
        line.told = progress.progress;
        line.outlet
            .hint(message::notification("notifications/progress", &params));
    }

    /// What is configured for it now.
    pub(crate) fn access(&self) -> Arc<Auth> {
        self.access.now()
    }

    /// When nobody reads any more what belongs to it, or may.
    pub(crate) async fn abandoned(&self) {
        let outlet = self.line().outlet.clone();
        tokio::select! {
            () = outlet.closed() => {}
            () = self.pass.over() => return,
        }
        if self.task.get().is_some() {
            // Its client comes back and asks for it.
            std::future::pending::<()>().await;
        }
    }

    /// Passes a log message on, if its client wants to hear it.
    pub(crate) fn logged(&self, params: &RawValue) {
        #[derive(Deserialize)]
        struct Shape {
            level: Level,
        }
        let least = if self.client.modern {
            self.client.level
        } else {
            self.session.upgrade().map(|session| session.level())
        };
        let level = serde_json::from_str::<Shape>(params.get()).map(|shape| shape.level);
        if let (Some(least), Ok(level)) = (least, level)
            && level >= least
        {
            self.line()
                .outlet
                .hint(message::notification("notifications/message", params.get()));
        }
    }

    /// Its client cannot be asked something.
    pub(crate) fn lacked(&self, capability: &'static str) {
        // The first one is told.
        let _ = self.lacks.set(capability);
    }

    /// The capability whose lack kept a question from its client.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        self.lacks.get().copied()
    }

    /// Asks its client; the error says why there is no answer, worded for who asked.
    pub(crate) async fn ask(
        &self,
        method: &'static str,
        params: String,
        name: Option<&str>,
    ) -> Result<Box<RawValue>, String> {
        tokio::select! {
            biased;
            () = self.pass.over() => Err(gone()),
            answer = self.answer(method, params, name) => answer,
        }
    }

    async fn answer(
        &self,
        method: &'static str,
        params: String,
        name: Option<&str>,
    ) -> Result<Box<RawValue>, String> {
        let Some(asks) = &self.asks else {
            let Some(session) = self.session.upgrade() else {
                return Err(gone());
            };
            let outlet = self.line().outlet.clone();
            return session.ask(&outlet, method, &params).await;
        };
        let (answer, answered) = oneshot::channel();
        let ask = Ask {
            method,
            name: name.map(ToOwned::to_owned),
            params,
            answer,
        };
        asks.send(ask).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

impl Line {
    fn new(outlet: Outlet, progress: Option<&RawValue>) -> Self {
        Self {
            outlet,
            progress: progress.map(ToOwned::to_owned),
            told: f64::NEG_INFINITY,
        }
    }
}

fn gone() -> String {
    "the client that made the call is not there any more".to_owned()
}

/// Whole numbers without a fraction, as most servers write them.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the range is checked before"
)]
fn number(value: f64) -> Number {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return (value as i64).into();
    }
    Number::from_f64(value).unwrap_or_else(|| 0.into())
}

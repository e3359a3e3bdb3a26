//! Requests of the server (the legacy era; the modern one asks in its results).
//!
//! Promises: each is answered once, or was withdrawn by the server; what is not offered is refused
//! politely, so that it does not wait. A question ends with the calls it may belong to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{Rpc, Scope, lock};
use crate::desk::{Declined, Desk, QUESTIONS, ROOTS, not_offered};
use crate::handlers::Asker;
use crate::link::Purpose;
use crate::text::quote;

/// Questions that are answered at one time.
const AT_ONCE: usize = 8;

/// Questions outside of any call, in the life of a connection. Naming folders is not counted.
const OUTSIDE: u32 = 64;

/// The server's questions that are being answered.
#[derive(Debug)]
pub(super) struct Questions {
    desk: Arc<Desk>,
    outside: AtomicU32,
    /// By the server's id, as JSON.
    open: Mutex<HashMap<String, CancellationToken>>,
}

/// A question whose answer is owed.
struct Question {
    id: String,
    method: String,
    params: Option<Box<RawValue>>,
    scopes: Vec<Scope>,
    withdrawn: CancellationToken,
}

impl Questions {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self {
            desk,
            outside: AtomicU32::new(0),
            open: Mutex::default(),
        }
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// The server does not want the answer any more.
    pub(super) fn withdraw(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(rename = "requestId", borrow)]
            id: &'a RawValue,
        }
        let shape = params.and_then(|params| serde_json::from_str::<Shape<'_>>(params.get()).ok());
        let open = shape.and_then(|shape| lock(&self.open).remove(shape.id.get()));
        if let Some(withdrawn) = open {
            withdrawn.cancel();
        }
    }

    /// Takes a question on, unless there are too many.
    fn admit(&self, question: &Question) -> Result<(), Declined> {
        let too_many = |where_: &str, limit: u32| {
            Err(Declined::Refused(format!(
                "more than {limit} questions {where_}"
            )))
        };
        let asked_too_much =
            |scope: &Scope| scope.asked.fetch_add(1, Ordering::Relaxed) >= QUESTIONS;
        // Which call it belongs to is not always known; it must fit into one of them.
        let calls = &question.scopes;
        if !calls.is_empty() && calls.iter().all(asked_too_much) {
            return too_many("in one call", QUESTIONS);
        }
        if calls.is_empty()
            && question.method != ROOTS
            && self.outside.fetch_add(1, Ordering::Relaxed) >= OUTSIDE
        {
            return too_many("outside of any call", OUTSIDE);
        }
        let mut open = lock(&self.open);
        if open.len() >= AT_ONCE {
            return Err(Declined::Refused(format!(
                "more than {AT_ONCE} questions at one time"
            )));
        }
        open.insert(question.id.clone(), question.withdrawn.clone());
        Ok(())
    }
}

impl Rpc {
    /// A request of the server, which came in the exchange of our request `of` where that is known.
    pub(super) fn request(
        &self,
        (method, id): (&str, &RawValue),
        params: Option<&RawValue>,
        of: Option<u64>,
    ) {
        if method == "ping" {
            return self.reply(id.get(), Ok("{}"));
        }
        let modern = lock(&self.envelope).is_some();
        let Some(me) = self
            .me
            .upgrade()
            .filter(|_| !modern && self.desk().offers(method))
        else {
            let declined = not_offered(method);
            let scopes = lock(&self.pending).scopes(of);
            self.desk().refused(&self.asker(&scopes), method, &declined);
            return self.reply(id.get(), Err(&declined));
        };
        let question = Question {
            id: id.get().to_owned(),
            method: method.to_owned(),
            params: params.map(ToOwned::to_owned),
            scopes: lock(&self.pending).scopes(of),
            withdrawn: CancellationToken::new(),
        };
        match self.questions.admit(&question) {
            Ok(()) => self.spawn(async move { me.answer(question).await }),
            Err(declined) => {
                let asker = self.asker(&question.scopes);
                self.desk().refused(&asker, method, &declined);
                self.reply(id.get(), Err(&declined));
            }
        }
    }

    /// Who asks, or says something, during one of these calls.
    pub(super) fn asker(&self, scopes: &[Scope]) -> Asker {
        Asker {
            server: self.desk().server().clone(),
            tool: match scopes {
                [scope] => Some(scope.tool.to_string()),
                _ => None,
            },
            name: None,
            caller: caller(scopes),
            trace: None,
            cancel: CancellationToken::new(),
        }
    }

    async fn answer(&self, question: Question) {
        for scope in &question.scopes {
            scope.open.fetch_add(1, Ordering::AcqRel);
        }
        let asker = self.asker(&question.scopes);
        let desk = self.desk().clone();
        let outcome = tokio::select! {
            biased;
            () = question.withdrawn.cancelled() => None,
            () = all_over(&question.scopes) => Some(Err(Declined::Refused("the call that it belongs to has ended".to_owned()))),
            outcome = desk.answer(&question.method, question.params.as_deref(), asker) => Some(outcome),
        };
        for scope in &question.scopes {
            scope.open.fetch_sub(1, Ordering::AcqRel);
        }
        lock(&self.questions.open).remove(&question.id);
        match &outcome {
            Some(Ok(result)) => self.reply(&question.id, Ok(result)),
            Some(Err(declined)) => self.reply(&question.id, Err(declined)),
            None => {}
        }
    }

    fn reply(&self, id: &str, answer: Result<&str, &Declined>) {
        let answer = match answer {
            Ok(result) => format!("\"result\":{result}"),
            Err(declined) => format!(
                "\"error\":{{\"code\":{},\"message\":{}}}",
                declined.code(),
                quote(declined.words())
            ),
        };
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}");
        // What stands on several lines would be several messages on stdio.
        self.post(body.replace(['\n', '\r'], " "), Purpose::Reply);
    }
}

/// Who makes all of these calls, if that is one.
pub(super) fn caller(scopes: &[Scope]) -> Option<u64> {
    let first = scopes.first()?.caller;
    let same = scopes.iter().all(|scope| scope.caller == first);
    first.filter(|_| same)
}

/// When the last of the calls has ended; never for a question outside of any.
async fn all_over(scopes: &[Scope]) {
    if scopes.is_empty() {
        std::future::pending::<()>().await;
    }
    for scope in scopes {
        scope.over.cancelled().await;
    }
}

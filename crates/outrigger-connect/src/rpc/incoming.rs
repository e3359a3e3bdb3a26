//! What came in, and whom it concerns.
//!
//! Promises: tolerant as the table in DESIGN.md says: `result` beside `error: null`, no `jsonrpc`,
//! ids in any shape, batches, answers that cannot be read. What concerns nobody is kept as a log
//! line or counted. Runs on the link's task and never blocks.

use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::{self, Message};
use super::news::count;
use super::{Failure, Rpc, RpcError, lock};
use crate::connection::Progress;
use crate::frame::{Unusable, find_ids};
use crate::link::{Inbox, LinkEvent};
use crate::text::excerpt;

impl Inbox for Rpc {
    fn receive(&self, event: LinkEvent) {
        match event {
            LinkEvent::Frame { text, of } => self.frame(&text, of),
            LinkEvent::Noise(line) => self.log.noise(&line),
            LinkEvent::Unusable { what, of } => self.unusable(&what, of),
            LinkEvent::Failed { request, failure } => {
                if self.wants(request) {
                    self.complete(request, Err(failure));
                }
            }
            LinkEvent::Ended(reason) => self.end(&reason),
        }
    }

    fn wants(&self, request: u64) -> bool {
        lock(&self.pending).knows(request)
    }
}

impl Rpc {
    fn frame(&self, text: &[u8], of: Option<u64>) {
        let parsed = str::from_utf8(text)
            .map_err(|error| error.to_string())
            .and_then(|text| message::parse(text).map_err(|error| error.to_string()));
        match parsed {
            Ok(messages) if messages.is_empty() => self.log.noise(&excerpt(text, 200)),
            Ok(messages) => {
                for message in &messages {
                    self.message(message, text, of);
                }
            }
            Err(error) if of.is_some() || memchr::memmem::find(text, b"\"jsonrpc\"").is_some() => {
                let reason = format!("it is not valid JSON ({error}): {}", excerpt(text, 120));
                self.unusable(&Unusable::of(text, reason), of);
            }
            Err(_) => self.log.noise(&excerpt(text, 200)),
        }
    }

    fn message(&self, message: &Message<'_>, text: &[u8], of: Option<u64>) {
        let own = message.id.and_then(|id| message::own_id(id.get()));
        let answers = message.result.is_some() || message.error.is_some();
        if answers && let Some(id) = own.filter(|id| lock(&self.pending).knows(*id)) {
            return self.complete(id, outcome(message));
        }
        match (&message.method, message.id) {
            (Some(method), Some(id)) => self.request((method, id), message.params, of),
            (Some(method), None) => self.notification(method, message.params, of),
            (None, _) => self.unmatched(message, text, (own, of)),
        }
    }

    /// An answer without a known id, or an answer without content.
    fn unmatched(&self, message: &Message<'_>, text: &[u8], (own, of): (Option<u64>, Option<u64>)) {
        let (waiting, only) = {
            let pending = lock(&self.pending);
            let own = own.filter(|id| pending.waits(*id));
            (own.or(of.filter(|id| pending.waits(*id))), pending.only())
        };
        if let Some(error) = message.error {
            // An error that names no request, or one in the request's own exchange, is meant for it.
            let nameless = message.id.is_none().then_some(only).flatten();
            return match waiting.or(nameless) {
                Some(id) => self.complete(id, Err(Failure::Rpc(rpc_error(error)))),
                None => self.log.noise(&format!(
                    "error without a request: {}",
                    excerpt(error.get().as_bytes(), 200)
                )),
            };
        }
        match waiting {
            Some(id) if message.result.is_some() => {
                let foreign = message.id.map_or("no id", RawValue::get);
                let reason = format!(
                    "it carries another request's id ({})",
                    excerpt(foreign.as_bytes(), 60)
                );
                self.complete(id, Err(Failure::Malformed(reason)));
            }
            Some(id) => {
                let reason = format!(
                    "it has neither `result` nor `error`: {}",
                    excerpt(text, 120)
                );
                self.complete(id, Err(Failure::Malformed(reason)));
            }
            None if message.result.is_some() && own.is_some_and(|id| id >= super::FIRST_ID) => {
                self.log.count_stray();
            }
            None => self.log.noise(&excerpt(text, 200)),
        }
    }

    /// Something that cannot be used fails the request that it names, else the one in whose exchange
    /// it came, else the only one that waits.
    fn unusable(&self, what: &Unusable, of: Option<u64>) {
        let id = {
            let pending = lock(&self.pending);
            let named = find_ids(&what.head)
                .chain(find_ids(&what.tail))
                .filter_map(message::own_id);
            let method = memchr::memmem::find(&what.head, b"\"method\"");
            let result = memchr::memmem::find(&what.head, b"\"result\"");
            let from_server = method.is_some_and(|at| result.is_none_or(|result| at < result));
            let only = if from_server { None } else { pending.only() };
            let found = named.into_iter().find(|id| pending.knows(*id));
            found.or(of).or(only)
        };
        match id {
            Some(id) => self.complete(id, Err(Failure::Malformed(what.reason.clone()))),
            None => self
                .log
                .noise(&format!("{}: {}", what.reason, excerpt(&what.head, 100))),
        }
    }

    /// What only has to be noted is taken in at any rate; what has to be kept or handed on is not.
    fn notification(&self, method: &str, params: Option<&RawValue>, of: Option<u64>) {
        let admitted = self.log.admits();
        match method {
            "notifications/tools/list_changed" => count(&self.news.tools),
            "notifications/prompts/list_changed" => count(&self.news.prompts),
            "notifications/resources/list_changed" => count(&self.news.resources),
            "notifications/resources/updated" => self.news.updated(params),
            "notifications/subscriptions/acknowledged" => {
                self.news.confirmed(params);
                self.subscribed.store(true, Ordering::Release);
            }
            "notifications/cancelled" => self.questions.withdraw(params),
            "notifications/progress" => self.progress(params, admitted),
            "notifications/message" if admitted => {
                let said = params.map(log_line).unwrap_or_default();
                self.log.push(said);
                if let Some(params) = params.filter(|_| self.desk().hears_logs()) {
                    let scopes = lock(&self.pending).scopes(of);
                    self.desk().logged(&self.asker(&scopes), params);
                }
            }
            _ => {}
        }
    }

    fn progress(&self, params: Option<&RawValue>, admitted: bool) {
        let Some(Ok(params)) =
            params.map(|params| serde_json::from_str::<ProgressParams<'_>>(params.get()))
        else {
            return;
        };
        let Some(id) = message::own_id(params.progress_token.get()) else {
            return;
        };
        let Some((progressed, on_progress)) = lock(&self.pending).progress(id) else {
            return;
        };
        progressed.notify_one();
        if let Some(on_progress) = on_progress.filter(|_| admitted) {
            on_progress(Progress {
                progress: params
                    .progress
                    .and_then(|raw| raw.get().parse().ok())
                    .unwrap_or(0.0),
                total: params.total.and_then(|raw| raw.get().parse().ok()),
                message: params
                    .message
                    .and_then(|raw| serde_json::from_str(raw.get()).ok()),
            });
        }
    }
}

#[derive(Deserialize)]
struct ProgressParams<'a> {
    #[serde(rename = "progressToken", borrow)]
    progress_token: &'a RawValue,
    #[serde(borrow, default)]
    progress: Option<&'a RawValue>,
    #[serde(borrow, default)]
    total: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

fn outcome(message: &Message<'_>) -> super::Answer {
    match (message.result, message.error) {
        (Some(result), _) => Ok(result.to_owned()),
        (None, Some(error)) => Err(Failure::Rpc(rpc_error(error))),
        (None, None) => Err(Failure::Malformed(
            "it has neither `result` nor `error`".to_owned(),
        )),
    }
}

/// An error in any shape: the standard object, a string, something else.
fn rpc_error(raw: &RawValue) -> RpcError {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow, default)]
        code: Option<&'a RawValue>,
        #[serde(borrow, default)]
        message: Option<&'a RawValue>,
        #[serde(default)]
        data: Option<Box<RawValue>>,
    }
    let Ok(shape) = serde_json::from_str::<Shape<'_>>(raw.get()) else {
        let message =
            serde_json::from_str(raw.get()).unwrap_or_else(|_| excerpt(raw.get().as_bytes(), 300));
        return RpcError {
            code: 0,
            message,
            data: None,
        };
    };
    let code = shape
        .code
        .and_then(|code| message_code(code.get()))
        .unwrap_or(0);
    let text = shape
        .message
        .map(|text| serde_json::from_str(text.get()).unwrap_or_else(|_| text.get().to_owned()));
    RpcError {
        code,
        message: text.unwrap_or_else(|| "no message".to_owned()),
        data: shape.data,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a code that is no integer is cut, not trusted"
)]
fn message_code(raw: &str) -> Option<i64> {
    let text = raw.trim_matches('"');
    text.parse()
        .ok()
        .or_else(|| text.parse::<f64>().ok().map(|code| code as i64))
}

/// A `notifications/message` as one line.
fn log_line(params: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(default)]
        level: Option<String>,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let Ok(shape) = serde_json::from_str::<Shape<'_>>(params.get()) else {
        return excerpt(params.get().as_bytes(), 300);
    };
    let data = shape.data.map_or("", RawValue::get);
    let text: String = serde_json::from_str(data).unwrap_or_else(|_| data.to_owned());
    let level = shape.level.unwrap_or_else(|| "log".to_owned());
    format!(
        "{}: {}",
        excerpt(level.as_bytes(), 20),
        excerpt(text.as_bytes(), 400)
    )
}

//! One `tools/call`, and what goes the same way: `prompts/get` and `resources/read`.
//!
//! Promises: it is sent at most once, save as a server asks for it again with its questions answered
//! (`rounds`); it ends by its soft deadline, which progress moves, or by its hard one, which nothing
//! moves; it is asked once more whether it may be sent directly before that; the error says whether
//! anything left the process.
//! Leaves out: permission, schemas and what the result means.

mod clock;
mod fetch;
mod rounds;
pub(crate) mod task;

pub use fetch::{Completions, Reference};

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::SemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::CallError;
use crate::connection::{CallOptions, Era, Inner, OnLate};
use crate::error::Seconds;
use crate::rpc::{Answer, Failure, GivenUp, Request, Rpc, Scope};

use clock::Clock;
use rounds::{Reply, Said};

/// What is asked for, as it goes out.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    method: &'static str,
    /// The member of `params` that says what it is about, and its value.
    subject: (&'static str, &'a str),
    arguments: Option<&'a str>,
}

/// A call under way.
struct Call<'a> {
    inner: &'a Inner,
    wanted: Wanted<'a>,
    options: CallOptions,
    clock: Clock,
    scope: Scope,
    /// The server has had the call and answered with something that is no result.
    begun: bool,
    /// Times that the server's questions were answered.
    rounds: u32,
}

impl Inner {
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: &RawValue,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        let arguments = match arguments.get() {
            "null" => "{}",
            arguments => arguments,
        };
        let wanted = Wanted {
            method: "tools/call",
            subject: ("name", tool),
            arguments: Some(arguments),
        };
        self.make(wanted, options).await
    }

    async fn make(
        &self,
        wanted: Wanted<'_>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        let clock = Clock::start(
            options.deadline.unwrap_or(self.deadlines.call),
            self.deadlines.call_hard,
        );
        let _slot = self.slot(&options.cancel, &clock).await?;
        let scope = Scope::of(wanted.subject.1, options.caller);
        let _over = scope.over.clone().drop_guard();
        let mut call = Call {
            inner: self,
            wanted,
            options,
            clock,
            scope,
            begun: false,
            rounds: 0,
        };
        Box::pin(call.run()).await
    }

    /// Waits for one of the server's slots; a call that gets none was not sent.
    async fn slot(
        &self,
        cancel: &CancellationToken,
        clock: &Clock,
    ) -> Result<SemaphorePermit<'_>, CallError> {
        let mut ended = self.rpc.ended();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(CallError::NotSent("cancelled before it was sent".to_owned())),
            slot = self.slots.acquire() => slot.map_err(|_| CallError::NotSent("the connection has ended".to_owned())),
            Ok(reason) = ended.wait_for(Option::is_some) => {
                let reason = reason.as_deref().unwrap_or_default();
                Err(CallError::NotSent(format!("the connection has ended: {reason}")))
            }
            () = tokio::time::sleep_until(clock.end()) => Err(CallError::NotSent(format!(
                "all {} calls that the server may run at one time were still under way after {} (concurrent_calls)",
                self.limits.concurrent_calls, Seconds(clock.soft)
            ))),
        }
    }

    /// The headers that the tool's schema asks for.
    fn mirrored(&self, wanted: Wanted<'_>) -> Vec<(String, String)> {
        let ("tools/call", Some(arguments)) = (wanted.method, wanted.arguments) else {
            return Vec::new();
        };
        let mirrors = self
            .mirrors
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(mirror) = mirrors.get(wanted.subject.1) else {
            return Vec::new();
        };
        serde_json::from_str(arguments)
            .map(|arguments| mirror.headers(&arguments))
            .unwrap_or_default()
    }
}

impl Call<'_> {
    async fn run(&mut self) -> Result<Box<RawValue>, CallError> {
        let mut result = self.first().await?;
        if self.inner.peer.era == Era::Legacy {
            if !self.is_task() {
                return Ok(result);
            }
            self.begun = true;
            return self.follow_older(&result).await;
        }
        loop {
            let reply = match Said::of(&result)? {
                Said::Result => return Ok(result),
                Said::Task(task) => {
                    self.begun = true;
                    return self.follow(task).await;
                }
                Said::Questions(questions) => {
                    self.begun = true;
                    self.reply(questions).await?
                }
            };
            result = self
                .send(&reply)
                .await?
                .map_err(|error| self.failed(error.into()))?;
        }
    }

    async fn first(&mut self) -> Result<Box<RawValue>, CallError> {
        let session = self.inner.session_number();
        let mut answer = self.send(&Reply::default()).await?;
        if let Err(Failure::SessionLost(_)) = &answer {
            // The server has answered that it does not know the session and so did not look at the
            // request (MCP, "Session Management", 404). Nothing ran; asking for a new session and
            // sending the call under it is the first time that it is sent to anybody who runs it.
            let renewal = self.inner.renew_session(session);
            let renewed = tokio::time::timeout_at(self.clock.end(), renewal).await;
            if renewed == Ok(true) {
                answer = self.send(&Reply::default()).await?;
            }
        }
        answer.map_err(CallError::from)
    }

    /// Sends the call and waits. `Err`: given up; `Ok`: it ended, one way or the other.
    async fn send(&mut self, reply: &Reply) -> Result<Answer, CallError> {
        let (member, value) = self.wanted.subject;
        let mut request = Request::new(self.wanted.method)
            .subject(member, value)
            .mirrored(self.inner.mirrored(self.wanted))
            .scope(self.scope.clone())
            .trace(self.options.trace.as_ref())
            .progress(self.options.on_progress.clone());
        if let Some(arguments) = self.wanted.arguments {
            request = request.member("arguments", arguments);
        }
        let lasts = self.is_task().then(|| task::lasting(&self.clock));
        if let Some(lasts) = &lasts {
            request = request.member("task", lasts);
        }
        for (name, json) in reply.members() {
            request = request.member(name, json);
        }
        self.may_send()?;
        let mut flight = self.inner.rpc.start(request);
        if let Some(told) = &self.options.on_sent {
            told(&flight.id());
        }
        let progress = flight.progress();
        let cancelled = loop {
            tokio::select! {
                biased;
                answer = flight.answer() => return Ok(answer),
                () = self.options.cancel.cancelled() => break true,
                () = progress.notified() => self.clock.progressed(),
                () = tokio::time::sleep_until(self.clock.end()) => {
                    // The server waits for an answer from this side: its time does not run.
                    if self.clock.is_over() || !self.scope.is_asking() {
                        break false;
                    }
                    self.clock.progressed();
                }
            }
        };
        let on_late = self.options.on_late.take();
        let on_late = match self.inner.peer.era {
            Era::Legacy => on_late,
            Era::Modern => Some(only_results(&self.inner.rpc, on_late)),
        };
        let error = match flight.give_up(on_late) {
            GivenUp::Answered(answer) => return Ok(answer),
            GivenUp::NotSent if cancelled => {
                CallError::NotSent("cancelled before it was sent".to_owned())
            }
            GivenUp::NotSent => {
                let waited = Seconds(self.clock.elapsed());
                CallError::NotSent(format!("the server did not take the call within {waited}"))
            }
            GivenUp::Sent if cancelled => CallError::Cancelled,
            GivenUp::Sent => self.too_late(),
        };
        Err(self.failed(error))
    }

    /// The last look, after all that was waited for.
    fn may_send(&self) -> Result<(), CallError> {
        match &self.options.may_send {
            Some(may_send) if !may_send() => Err(self.failed(CallError::NotSent(
                "it was withdrawn before it was sent".to_owned(),
            ))),
            _ => Ok(()),
        }
    }

    fn too_late(&self) -> CallError {
        CallError::Deadline {
            after: self.clock.elapsed(),
        }
    }

    /// What an error means once the server has had the call: nothing is known not to have happened.
    fn failed(&self, error: CallError) -> CallError {
        match error {
            error if !self.begun => error,
            CallError::NotSent(_) if self.options.cancel.is_cancelled() => CallError::Cancelled,
            CallError::NotSent(why) => CallError::Closed(why),
            CallError::Http {
                status, message, ..
            } => CallError::Http {
                status,
                refused: false,
                message,
            },
            error => error,
        }
    }
}

/// Late questions are no late result: what they ask for will not be given. A late task is cancelled.
fn only_results(rpc: &Arc<Rpc>, on_late: Option<OnLate>) -> OnLate {
    // What waits for a late answer must not keep the connection alive.
    let rpc = Arc::downgrade(rpc);
    Box::new(move |answer| {
        let answer = answer.and_then(|result| match Said::of(&result)? {
            Said::Result => Ok(result),
            Said::Questions(_) => Err(CallError::Unfinished(
                "the server asked for input after the call was given up".to_owned(),
            )),
            Said::Task(task) => {
                if let Some(rpc) = rpc.upgrade() {
                    task::cancel(&rpc, &task);
                }
                Err(CallError::Unfinished(
                    "the server made a task of the call after it was given up".to_owned(),
                ))
            }
        });
        if let Some(on_late) = on_late {
            on_late(answer);
        }
    })
}

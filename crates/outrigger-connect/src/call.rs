//! One `tools/call`.
//!
//! Promises: it is sent at most once; it ends by its soft deadline, which progress moves, or by its
//! hard one, which nothing moves; the error says whether anything left the process.
//! Leaves out: permission, schemas and what the result means.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::CallError;
use crate::connection::{CallOptions, Era, Inner};
use crate::error::Seconds;
use crate::rpc::{Answer, Failure, GivenUp, Request};

/// How long a call may take.
struct Clock {
    soft: Duration,
    soft_end: Instant,
    hard_end: Instant,
    begun: Instant,
}

impl Clock {
    fn start(soft: Duration, hard: Duration) -> Self {
        let begun = Instant::now();
        Self {
            soft,
            soft_end: begun + soft,
            hard_end: begun + hard.max(soft),
            begun,
        }
    }

    fn end(&self) -> Instant {
        self.soft_end.min(self.hard_end)
    }

    fn progressed(&mut self) {
        self.soft_end = Instant::now() + self.soft;
    }
}

impl Inner {
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: &RawValue,
        mut options: CallOptions,
    ) -> Result<Box<RawValue>, CallError> {
        let mut clock = Clock::start(
            options.deadline.unwrap_or(self.deadlines.call),
            self.deadlines.call_hard,
        );
        let _slot = self.slot(&options.cancel, &clock).await?;
        let session = self.session_number();
        let mut answer = self
            .attempt(tool, arguments, &mut options, &mut clock)
            .await?;
        if let Err(Failure::SessionLost(_)) = &answer {
            // The server has answered that it does not know the session and so did not look at the
            // request (MCP, "Session Management", 404). Nothing ran; asking for a new session and
            // sending the call under it is the first time that it is sent to anybody who runs it.
            let renewed = tokio::time::timeout_at(clock.end(), self.renew_session(session)).await;
            if renewed == Ok(true) {
                answer = self
                    .attempt(tool, arguments, &mut options, &mut clock)
                    .await?;
            }
        }
        let result = answer.map_err(CallError::from)?;
        if self.peer.era == Era::Modern {
            refuse_questions(&result)?;
        }
        Ok(result)
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
                "all {} calls that the server may run at one time were still under way after {}",
                self.limits.concurrent_calls, Seconds(clock.soft)
            ))),
        }
    }

    /// Sends the call and waits. `Err`: given up; `Ok`: it ended, one way or the other.
    async fn attempt(
        &self,
        tool: &str,
        arguments: &RawValue,
        options: &mut CallOptions,
        clock: &mut Clock,
    ) -> Result<Answer, CallError> {
        let arguments = if arguments.get() == "null" {
            "{}"
        } else {
            arguments.get()
        };
        let request = Request::new("tools/call")
            .name(tool)
            .member("arguments", arguments)
            .mirrored(self.mirrored(tool, arguments))
            .progress(options.on_progress.clone());
        let mut flight = self.rpc.start(request);
        let progress = flight.progress();
        let cancelled = loop {
            tokio::select! {
                biased;
                answer = flight.answer() => return Ok(answer),
                () = options.cancel.cancelled() => break true,
                () = progress.notified() => clock.progressed(),
                () = tokio::time::sleep_until(clock.end()) => break false,
            }
        };
        match flight.give_up(options.on_late.take()) {
            GivenUp::Answered(answer) => Ok(answer),
            GivenUp::NotSent if cancelled => Err(CallError::NotSent(
                "cancelled before it was sent".to_owned(),
            )),
            GivenUp::NotSent => {
                let waited = Seconds(clock.begun.elapsed());
                Err(CallError::NotSent(format!(
                    "the server did not take the call within {waited}"
                )))
            }
            GivenUp::Sent if cancelled => Err(CallError::Cancelled),
            GivenUp::Sent => Err(CallError::Deadline {
                after: clock.begun.elapsed(),
            }),
        }
    }

    /// The headers that the tool's schema asks for.
    fn mirrored(&self, tool: &str, arguments: &str) -> Vec<(String, String)> {
        let mirrors = self
            .mirrors
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(mirror) = mirrors.get(tool) else {
            return Vec::new();
        };
        serde_json::from_str(arguments)
            .map(|arguments| mirror.headers(&arguments))
            .unwrap_or_default()
    }
}

/// A modern server may answer with questions instead of a result. None was invited by our
/// capabilities, and what is no result must not be read as an empty one.
fn refuse_questions(result: &RawValue) -> Result<(), CallError> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "resultType", borrow, default)]
        kind: Option<&'a RawValue>,
    }
    let kind = serde_json::from_str::<Kind<'_>>(result.get())
        .ok()
        .and_then(|shape| shape.kind);
    if kind.is_some_and(|kind| kind.get() == "\"input_required\"") {
        return Err(CallError::Malformed(
            "the server asks for input, which this client does not offer".to_owned(),
        ));
    }
    Ok(())
}

//! Third stage: the one place that sends a `tools/call`. The intent is on disk before the first
//! byte leaves; the call is sent once, and how it ended is told by what is known. Only a call that
//! local configuration says may be made twice is sent again, a limited number of times, when its
//! answer does not come.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_connect::{CallError, CallOptions, OnSent};
use outrigger_journal::Event;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::authorize::Permit;
use super::{CallContext, LedgerLine, finish};
use crate::arguments::Arguments;
use crate::catalog::CatalogTool;
use crate::discovery::Facility;
use crate::host::{Host, LOST, Ready, ServerState};
use crate::outcome::{CallOutcome, Rejection};
use crate::toolset::Toolset;

/// The pause before a call is made once more; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a server that ended is waited for, to make a call once more.
const BACK: Duration = Duration::from_secs(30);

/// What came of one attempt.
type Answer = Result<Box<RawValue>, CallError>;

/// What is sent.
#[derive(Clone, Copy)]
struct Sent<'a> {
    tool: &'a Arc<CatalogTool>,
    arguments: &'a Arguments,
    /// The arguments with contents in the places of handles, where there are any.
    filled: Option<&'a RawValue>,
}

impl Host {
    /// The server of a tool that still is what was shown, after what it has announced.
    async fn current(
        &self,
        tool: &CatalogTool,
        cancel: &CancellationToken,
    ) -> Result<Arc<Ready>, CallOutcome> {
        tokio::select! {
            () = cancel.cancelled() => return Err(CallOutcome::Rejected(Rejection::Cancelled)),
            () = self.started(&tool.server) => {}
        }
        let ready = self.connection_for(tool)?;
        let in_step = tokio::select! {
            () = cancel.cancelled() => return Err(CallOutcome::Rejected(Rejection::Cancelled)),
            in_step = self.in_step(&tool.server, &ready.connection) => in_step,
        };
        if !in_step {
            let reason =
                "it has announced that its tools changed, and they could not be listed again";
            return Err(CallOutcome::NotSent(reason.to_owned()));
        }
        self.connection_for(tool)
    }

    /// Answers a call of one of the host's own tools: what is dispatched to a server otherwise is
    /// answered here, with nothing sent.
    pub(super) async fn answer(
        &self,
        toolset: &Toolset,
        facility: Facility,
        permit: Permit,
        line: &mut LedgerLine,
    ) -> CallOutcome {
        let (tool, arguments) = permit.redeem();
        line.run.record(Event::CallIntent { call: line.call });
        line.sent = Some(Instant::now());
        let result = match facility {
            Facility::Connect => self.connect(toolset, &arguments.raw).await,
            _ => self.finder().answer(toolset, facility, &arguments.raw),
        };
        let Some(result) = result else {
            return CallOutcome::NotSent(format!("`{}` could not be answered", tool.name));
        };
        line.answered = result.raw.here().map(ToOwned::to_owned);
        CallOutcome::Completed(Box::new(result))
    }

    pub(super) async fn dispatch(
        &self,
        permit: Permit,
        context: CallContext,
        line: &mut LedgerLine,
    ) -> CallOutcome {
        let (tool, arguments) = permit.redeem();
        // Only now: what the rules have not seen does not leave the store.
        let filled = match self.as_sent(&tool, &arguments).await {
            Ok(filled) => filled,
            Err(reason) => return CallOutcome::NotSent(reason),
        };
        let _in_use = self.using(&tool.server);
        let ready = match self.current(&tool, &context.cancel).await {
            Ok(ready) => ready,
            Err(outcome) => return outcome,
        };
        if let Err(outcome) = line
            .writes_down(Event::CallIntent { call: line.call }, &ready)
            .await
        {
            if matches!(outcome, CallOutcome::NotSent(_)) {
                self.ended(&tool.server, &ready.connection).await;
            }
            return outcome;
        }
        line.sent = Some(Instant::now());
        let _permitted = self.permit_read(&tool, arguments.raw.get());
        let _asks = self.asks_for(&tool.server, context.caller);
        let sent = Sent {
            tool: &tool,
            arguments: &arguments,
            filled: filled.as_deref(),
        };
        let answer = self
            .attempts(Arc::clone(&ready), &sent, &context, line)
            .await;
        drop(filled);
        match answer {
            Err(CallError::NotSent(_)) => line.sent = None,
            Err(CallError::Closed(_)) => self.ended(&tool.server, &ready.connection).await,
            _ => {}
        }
        let clean = |raw: Box<RawValue>| match self.redactor().redact_json(&raw) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => raw,
        };
        let (outcome, answered) = finish::finish(&tool, answer.map(clean));
        line.answered = answered;
        outcome
    }

    /// Sends the call, and again where it may be made twice and there was no answer.
    async fn attempts(
        &self,
        ready: Arc<Ready>,
        sent: &Sent<'_>,
        context: &CallContext,
        line: &LedgerLine,
    ) -> Answer {
        let mut answer = self.attempt(&ready, sent, context, line).await;
        for attempt in 1..=self.retries(sent.tool).unwrap_or(0) {
            let Some(reason) = lost(&answer) else { break };
            let pause = PAUSE * 2_u32.pow(attempt - 1);
            let Some(ready) = self.again(sent.tool, pause, &context.cancel).await else {
                break;
            };
            let retried = Event::CallRetried {
                call: line.call,
                attempt,
                wait_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                reason,
            };
            if ready.tenure.is_none() {
                line.run.record(retried);
            } else if line.writes_down(retried, &ready).await.is_err() {
                break;
            }
            let next = self.attempt(&ready, sent, context, line).await;
            // What an attempt that was sent may have done stays unknown when the next one is not sent.
            if !matches!(next, Err(CallError::NotSent(_))) {
                answer = next;
            }
        }
        answer
    }

    /// Sends the call once.
    async fn attempt(
        &self,
        ready: &Ready,
        sent: &Sent<'_>,
        context: &CallContext,
        line: &LedgerLine,
    ) -> Answer {
        let Sent {
            tool,
            arguments,
            filled,
        } = *sent;
        let late = Arc::clone(&line.late);
        let awaited = self.unknowns().awaiting(self.patience(&tool.server));
        let (of, recorded) = (Arc::clone(tool), arguments.raw.clone());
        let (traces, call) = (self.traces().cloned(), line.call);
        let options = CallOptions {
            trace: traces.as_ref().and_then(|traces| traces.of_call(call)),
            on_sent: traces
                .map(|traces| -> OnSent { Box::new(move |request| traces.sent(call, request)) }),
            cancel: context.cancel.clone(),
            deadline: context.deadline,
            caller: context.caller,
            on_progress: context.on_progress.clone(),
            may_send: ready.last_look(context.may_send.clone()),
            on_late: Some(Box::new(move |answer| {
                late.came(&of, &recorded, answer);
                drop(awaited);
            })),
        };
        let answer = ready
            .connection
            .call_tool(&tool.raw_name, filled.unwrap_or(&arguments.raw), options)
            .await;
        match answer {
            Err(CallError::NotSent(_)) if ready.is_lost() => {
                Err(CallError::NotSent(format!("busy: {LOST}")))
            }
            answer => answer,
        }
    }

    /// The server for another attempt, after a pause; `None` when there is to be none.
    async fn again(
        &self,
        tool: &CatalogTool,
        pause: Duration,
        cancel: &CancellationToken,
    ) -> Option<Arc<Ready>> {
        let mut state = self.watch(&tool.server)?;
        let ready = async {
            tokio::time::sleep(pause).await;
            let back = state.wait_for(|state| {
                !state.is_starting() && !matches!(state, ServerState::Backoff(_))
            });
            tokio::time::timeout(BACK, back).await.is_ok()
        };
        let ready = tokio::select! {
            () = cancel.cancelled() => return None,
            ready = ready => ready,
        };
        if ready {
            self.current(tool, cancel).await.ok()
        } else {
            None
        }
    }
}

impl LedgerLine {
    /// Makes it durable that something is about to be sent, where the server runs under a lease only while
    /// that stands, in one transaction. What is not sent for that is [`CallOutcome::NotSent`].
    async fn writes_down(&self, event: Event, ready: &Ready) -> Result<(), CallOutcome> {
        let asked = Instant::now();
        let written = match &ready.tenure {
            None => self.run.record_durable(event).await.map(|()| true),
            Some(tenure) => {
                let instead = Event::ServerWarned {
                    server: tenure.fence().name.to_string(),
                    warning: format!("call {} was not sent: {LOST}", self.call),
                };
                self.run.record_fenced(event, tenure.fence(), instead).await
            }
        };
        let stands = written.map_err(|error| {
            CallOutcome::Rejected(Rejection::NotRecorded {
                reason: error.to_string(),
            })
        })?;
        let Some(tenure) = &ready.tenure else {
            return Ok(());
        };
        if stands {
            tenure.held_at(asked);
        } else {
            tenure.lose();
        }
        // Time may have passed since: this process may have stood still.
        if tenure.may_send() {
            Ok(())
        } else {
            Err(CallOutcome::NotSent(format!("busy: {LOST}")))
        }
    }
}

/// Why an attempt that was sent has no answer; `None` when it has one, or nobody wants it any more.
fn lost(answer: &Answer) -> Option<String> {
    match answer {
        Err(
            error @ (CallError::Deadline { .. }
            | CallError::Closed(_)
            | CallError::Http { refused: false, .. }),
        ) => Some(error.to_string()),
        _ => None,
    }
}

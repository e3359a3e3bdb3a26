//! A call that the server has made a task of: it is asked about until it ends.
//!
//! Promises: one call for whoever made it, under one deadline and one cancellation; a task that is
//! given up, in whatever way, is cancelled; questions of the task are answered as those of a call; what
//! the server says of its state is progress.
//! Source: MCP Tasks extension, `io.modelcontextprotocol/tasks` (SEP-2663).

mod older;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Call;
use super::rounds::Questions;
use crate::rpc::{Failure, Request, Rpc};
use crate::text::excerpt;
use crate::{CallError, Progress};

pub(crate) use older::is_required;
pub(super) use older::lasting;

/// How often is asked where the server does not say, and the bounds of what it may say.
const POLL: Duration = Duration::from_secs(1);
const POLL_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Questions about one task in a row that got no answer, before it counts as lost.
const FRUITLESS: u32 = 3;

const ID_BYTES: usize = 4096;
/// Bytes of a task's message that are passed on.
const MESSAGE_BYTES: usize = 500;

/// A task, as it is at one moment.
#[derive(Deserialize)]
struct State {
    #[serde(rename = "taskId", default)]
    id: Option<String>,
    status: String,
    #[serde(rename = "statusMessage", default)]
    message: Option<String>,
    #[serde(rename = "lastUpdatedAt", default)]
    updated: Option<Box<RawValue>>,
    #[serde(rename = "pollIntervalMs", alias = "pollInterval", default)]
    poll: Option<Box<RawValue>>,
    #[serde(rename = "inputRequests", default)]
    asked: Option<Box<RawValue>>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Box<RawValue>>,
}

impl State {
    fn parse(raw: &RawValue) -> Result<Self, CallError> {
        serde_json::from_str(raw.get()).map_err(|error| {
            CallError::Malformed(format!(
                "the server's task cannot be read ({error}): {}",
                excerpt(raw.get().as_bytes(), 120)
            ))
        })
    }

    fn pause(&self) -> Duration {
        let said = self.poll.as_ref().and_then(|poll| poll.get().parse().ok());
        said.map_or(POLL, Duration::from_millis)
            .clamp(POLL_RANGE.0, POLL_RANGE.1)
    }

    /// What changes when the task gets on.
    fn mark(&self) -> (String, Option<String>, Option<String>) {
        let updated = self.updated.as_ref().map(|raw| raw.get().to_owned());
        (self.status.clone(), self.message.clone(), updated)
    }
}

/// Tells the server that nobody wants this task.
pub(super) fn cancel(rpc: &Arc<Rpc>, task: &RawValue) {
    let id = State::parse(task).ok().and_then(|state| state.id);
    if let Some(id) = id {
        rpc.start(Request::new("tasks/cancel").task(&id)).leave();
    }
}

/// Cancels the task unless it is known to have ended.
struct Cancelling {
    rpc: Arc<Rpc>,
    id: String,
    ended: bool,
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        if !self.ended {
            self.rpc
                .start(Request::new("tasks/cancel").task(&self.id))
                .leave();
        }
    }
}

impl Call<'_> {
    /// Follows the task to its end.
    pub(super) async fn follow(&mut self, task: Box<RawValue>) -> Result<Box<RawValue>, CallError> {
        let mut state = State::parse(&task)?;
        let id = state.id.take().filter(|id| id.len() <= ID_BYTES);
        let id = id.ok_or_else(|| {
            CallError::Malformed("the server's task has no usable `taskId`".to_owned())
        })?;
        let mut task = Cancelling {
            rpc: self.inner.rpc.clone(),
            id,
            ended: false,
        };
        let mut answered = HashSet::new();
        let mut steps = 0;
        loop {
            match state.status.as_str() {
                "completed" | "failed" | "cancelled" => {
                    task.ended = true;
                    return outcome(state);
                }
                "input_required" => self.answer_task(&task.id, &state, &mut answered).await?,
                _ => {}
            }
            let before = state.mark();
            state = self.ask_about(&task.id, state.pause()).await?;
            if state.mark() != before {
                self.got_on(&mut steps, state.message.as_deref());
            }
        }
    }

    /// The task gets on: its time begins anew, and whoever wants to hear of it is told.
    fn got_on(&mut self, steps: &mut u32, message: Option<&str>) {
        self.clock.progressed();
        *steps += 1;
        if let Some(told) = &self.options.on_progress {
            told(Progress {
                progress: f64::from(*steps),
                total: None,
                message: message.map(|said| excerpt(said.as_bytes(), MESSAGE_BYTES)),
            });
        }
    }

    /// The task's state after a pause.
    async fn ask_about(&mut self, id: &str, pause: Duration) -> Result<State, CallError> {
        for failures in 1.. {
            self.in_time(tokio::time::sleep(pause)).await?;
            let request = Request::new("tasks/get")
                .task(id)
                .trace(self.options.trace.as_ref());
            let flight = self.inner.rpc.start(request);
            match self.in_time(flight.answer_owned()).await? {
                Ok(raw) => return State::parse(&raw),
                Err(Failure::Rpc(error)) => {
                    return Err(CallError::Unfinished(format!(
                        "the server answered a question about its task with error {}: {}",
                        error.code,
                        excerpt(error.message.as_bytes(), 200)
                    )));
                }
                Err(failure) if failures == FRUITLESS => {
                    return Err(self.failed(failure.into()));
                }
                Err(_) => {}
            }
        }
        Err(self.too_late())
    }

    /// Answers what has not been answered yet.
    async fn answer_task(
        &mut self,
        id: &str,
        state: &State,
        answered: &mut HashSet<String>,
    ) -> Result<(), CallError> {
        let asked: BTreeMap<_, _> = Questions::parse(state.asked.as_deref())?
            .into_iter()
            .filter(|(name, _)| !answered.contains(name))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let answers = self.answers(&asked).await?;
        let request = Request::new("tasks/update")
            .task(id)
            .member("inputResponses", &answers)
            .trace(self.options.trace.as_ref());
        self.may_send()?;
        let flight = self.inner.rpc.start(request);
        let taken = self.in_time(flight.answer_owned()).await?;
        taken.map_err(|failure| self.failed(failure.into()))?;
        answered.extend(asked.into_keys());
        Ok(())
    }

    /// Something that the server's time runs for.
    async fn in_time<T>(&mut self, work: impl Future<Output = T>) -> Result<T, CallError> {
        tokio::select! {
            biased;
            () = self.options.cancel.cancelled() => Err(CallError::Cancelled),
            done = work => Ok(done),
            () = tokio::time::sleep_until(self.clock.end()) => Err(self.too_late()),
        }
    }
}

fn outcome(state: State) -> Result<Box<RawValue>, CallError> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        code: i64,
        #[serde(default)]
        message: String,
        #[serde(default)]
        data: Option<Box<RawValue>>,
    }
    match (state.status.as_str(), state.result, state.error) {
        ("completed", Some(result), _) => Ok(result),
        ("completed", None, _) => Err(CallError::Malformed(
            "the server's task has ended without a `result`".to_owned(),
        )),
        ("failed", _, Some(error)) => match serde_json::from_str::<Shape>(error.get()) {
            Ok(Shape {
                code,
                message,
                data,
            }) => Err(CallError::Rpc {
                code,
                message,
                data,
            }),
            Err(_) => Err(CallError::Unfinished(format!(
                "the server's task has failed: {}",
                excerpt(error.get().as_bytes(), 200)
            ))),
        },
        (status, ..) => {
            let said = state
                .message
                .map(|said| format!(": {}", excerpt(said.as_bytes(), 200)));
            Err(CallError::Unfinished(format!(
                "the server's task has {}{}",
                if status == "failed" {
                    "failed"
                } else {
                    "been cancelled by the server"
                },
                said.unwrap_or_default()
            )))
        }
    }
}

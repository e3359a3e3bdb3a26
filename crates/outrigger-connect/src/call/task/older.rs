//! Tasks of the legacy era: tools that their server runs in no other way.
//!
//! Promises: a call becomes a task only where the server requires it, and its result is waited for by
//! the one request that also carries the task's questions.
//! Source: MCP 2025-11-25, "Tasks" (SEP-1686).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::Call;
use super::super::clock::Clock;
use super::{Cancelling, FRUITLESS, ID_BYTES, State};
use crate::CallError;
use crate::connection::{Era, Inner};
use crate::rpc::{Request, Rpc};

/// A task is kept for a moment longer than anybody waits for it.
const LONGER: Duration = Duration::from_mins(1);

/// Whether a definition says that its tool runs as a task only.
pub(crate) fn is_required(tool: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        execution: Value,
    }
    let shape = serde_json::from_str::<Shape>(tool.get());
    shape.is_ok_and(|shape| shape.execution["taskSupport"] == "required")
}

/// The member `task` of a call's parameters: for how long it is to be kept.
pub(in crate::call) fn lasting(clock: &Clock) -> String {
    let left = clock.hard_end.duration_since(tokio::time::Instant::now()) + LONGER;
    format!("{{\"ttl\":{}}}", left.as_millis())
}

impl Inner {
    /// Whether calls of tools may be made tasks of in the older way.
    pub(crate) fn takes_tasks(&self) -> bool {
        let declared = |all: &Value| all["tasks"]["requests"]["tools"].get("call").is_some();
        self.peer.era == Era::Legacy && self.capabilities().as_ref().is_some_and(declared)
    }
}

impl Call<'_> {
    /// Whether this call goes out as a task of the older kind.
    pub(in crate::call) fn is_task(&self) -> bool {
        let as_tasks = self.inner.as_tasks.lock();
        let as_tasks = as_tasks.unwrap_or_else(PoisonError::into_inner);
        self.wanted.method == "tools/call" && as_tasks.contains(self.wanted.subject.1)
    }

    /// Waits for the result of the task that `created` tells of.
    pub(in crate::call) async fn follow_older(
        &mut self,
        created: &RawValue,
    ) -> Result<Box<RawValue>, CallError> {
        #[derive(Deserialize)]
        struct Created<'a> {
            #[serde(borrow, default)]
            task: Option<&'a RawValue>,
        }
        let created_ = serde_json::from_str::<Created<'_>>(created.get());
        let Some(task) = created_.ok().and_then(|created| created.task) else {
            // It has run the tool all the same.
            return Ok(created.to_owned());
        };
        let mut state = State::parse(task)?;
        let id = state.id.take().filter(|id| id.len() <= ID_BYTES);
        let id = id.ok_or_else(|| {
            CallError::Malformed("the server's task has no usable `taskId`".to_owned())
        })?;
        let rpc = self.inner.rpc.clone();
        let mut task = Cancelling {
            rpc: rpc.clone(),
            id: id.clone(),
            ended: false,
        };
        // The questions of the task come while this waits.
        let request = Request::new("tasks/result")
            .task(&id)
            .scope(self.scope.clone())
            .trace(self.options.trace.as_ref());
        let mut flight = rpc.start(request);
        let mut steps = 0;
        let mut changed = Box::pin(change(&rpc, &id, &state));
        loop {
            tokio::select! {
                biased;
                answer = flight.answer() => {
                    task.ended = true;
                    return answer.map_err(|failure| self.failed(failure.into()));
                }
                () = self.options.cancel.cancelled() => return Err(CallError::Cancelled),
                now = &mut changed => {
                    changed = Box::pin(change(&rpc, &id, &now));
                    self.got_on(&mut steps, now.message.as_deref());
                }
                () = tokio::time::sleep_until(self.clock.end()) => {
                    // The server waits for an answer from this side: its time does not run.
                    if self.clock.is_over() || !self.scope.is_asking() {
                        return Err(self.too_late());
                    }
                    self.clock.progressed();
                }
            }
        }
    }
}

/// The next state of a task that is another one than `before`. Pends for ever where the server does not
/// say: it is the result that is waited for.
fn change(rpc: &Arc<Rpc>, id: &str, before: &State) -> impl Future<Output = State> + use<> {
    let (rpc, id) = (rpc.clone(), id.to_owned());
    let (mark, mut pause) = (before.mark(), before.pause());
    async move {
        let mut fruitless = 0;
        while fruitless < FRUITLESS {
            tokio::time::sleep(pause).await;
            let answer = rpc
                .start(Request::new("tasks/get").task(&id))
                .answer_owned();
            match answer.await.map(|raw| State::parse(&raw)) {
                Ok(Ok(state)) if state.mark() != mark => return state,
                Ok(Ok(state)) => {
                    fruitless = 0;
                    pause = state.pause();
                }
                _ => fruitless += 1,
            }
        }
        std::future::pending().await
    }
}

//! Third stage: the one place that sends a `tools/call`. The intent is on disk before the first
//! byte leaves; the call is sent once, and how it ended is told by what is known.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use outrigger_connect::{CallError, CallOptions, Connection};
use outrigger_journal::Event;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::authorize::Permit;
use super::{CallContext, LedgerLine, finish};
use crate::catalog::CatalogTool;
use crate::host::Host;
use crate::outcome::{CallOutcome, Rejection};

impl Host {
    /// The connection of a tool that still is what was shown, after what its server has announced.
    async fn current(
        &self,
        tool: &CatalogTool,
        cancel: &CancellationToken,
    ) -> Result<Connection, CallOutcome> {
        let connection = self.connection_for(tool)?;
        let in_step = tokio::select! {
            () = cancel.cancelled() => return Err(CallOutcome::Rejected(Rejection::Cancelled)),
            in_step = self.in_step(&tool.server, &connection) => in_step,
        };
        if !in_step {
            let reason =
                "it has announced that its tools changed, and they could not be listed again";
            return Err(CallOutcome::NotSent(reason.to_owned()));
        }
        self.connection_for(tool)
    }

    pub(super) async fn dispatch(
        &self,
        permit: Permit,
        context: CallContext,
        line: &mut LedgerLine,
    ) -> CallOutcome {
        let (tool, arguments) = permit.redeem();
        let connection = match self.current(&tool, &context.cancel).await {
            Ok(connection) => connection,
            Err(outcome) => return outcome,
        };
        if let Err(error) = line
            .run
            .record_durable(Event::CallIntent { call: line.call })
            .await
        {
            return CallOutcome::Rejected(Rejection::NotRecorded {
                reason: error.to_string(),
            });
        }
        line.sent = Some(Instant::now());
        let _permitted = self.permit_read(&tool, arguments.raw.get());
        let (run, call, late) = (line.run.clone(), line.call, Arc::clone(&line.late));
        let options = CallOptions {
            cancel: context.cancel,
            deadline: context.deadline,
            caller: context.caller,
            on_progress: context.on_progress,
            on_late: Some(Box::new(move |answer| late.came(&run, call, answer))),
        };
        let answer = connection
            .call_tool(&tool.raw_name, &arguments.raw, options)
            .await;
        if let Err(CallError::NotSent(_)) = answer {
            line.sent = None;
        }
        let clean = |raw: Box<RawValue>| match self.redactor().redact_json(&raw) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => raw,
        };
        let (outcome, answered) = finish::finish(&tool, answer.map(clean));
        line.answered = answered;
        outcome
    }
}

//! The calls of one turn. Their results go back together, in the order of the calls.

use futures::future::join_all;
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::toolset::Toolset;
use outrigger_host::words::Words;
use outrigger_host::{CallContext, CallReport, ProposedCall};
use outrigger_model::{Part, ToolCall, ToolResultMessage};
use tokio_util::sync::CancellationToken;

use super::{Agent, CallCounts, Ending, Progress, TurnEnd};

impl Agent {
    pub(super) async fn make_calls(
        &self,
        toolset: &Toolset,
        calls: &[ToolCall],
        progress: &mut Progress<'_>,
        cancel: &CancellationToken,
    ) -> (Vec<ToolResultMessage>, TurnEnd) {
        let room = usize::try_from(self.limits.calls.saturating_sub(progress.calls.proposed))
            .unwrap_or(usize::MAX);
        let (within, beyond) = calls.split_at(room.min(calls.len()));
        // Cancels what is under way when the time is over; the servers are told.
        let stop = cancel.child_token();
        let work = self.in_order(toolset, within, progress.number(), &stop);
        tokio::pin!(work);
        let mut out_of_time = false;
        let reports = tokio::select! {
            reports = &mut work => reports,
            () = progress.time_over() => {
                out_of_time = true;
                stop.cancel();
                work.await
            }
        };
        let mut results = Vec::with_capacity(calls.len());
        for (call, report) in within.iter().zip(reports) {
            progress.calls.count(&report.outcome);
            results.push(self.result(call, report));
        }
        results.extend(
            beyond
                .iter()
                .map(|call| not_made(call, "Not called: the limit of tool calls is reached.")),
        );
        let end = if cancel.is_cancelled() {
            TurnEnd::Stop(Ending::Interrupted)
        } else if out_of_time {
            TurnEnd::Stop(Ending::Limited(progress.out_of_time()))
        } else {
            TurnEnd::GoOn
        };
        (results, end)
    }

    /// Neighbours that only read run side by side; everything else waits for what was asked before.
    async fn in_order(
        &self,
        toolset: &Toolset,
        calls: &[ToolCall],
        turn: u32,
        stop: &CancellationToken,
    ) -> Vec<CallReport> {
        let reads = |call: &ToolCall| {
            toolset
                .get(&call.name)
                .is_some_and(|tool| self.host.policy().only_reads(tool))
        };
        let mut reports = Vec::with_capacity(calls.len());
        for group in calls.chunk_by(|a, b| reads(a) && reads(b)) {
            let made = group.iter().map(|call| {
                let proposed = ProposedCall {
                    tool: call.name.clone(),
                    arguments: call.arguments.clone(),
                    turn: Some(turn),
                };
                let context = CallContext {
                    cancel: stop.clone(),
                    ..CallContext::default()
                };
                self.host.call(toolset, proposed, context)
            });
            reports.extend(join_all(made).await);
        }
        reports
    }

    fn result(&self, call: &ToolCall, report: CallReport) -> ToolResultMessage {
        let sees_images = self.model.limits().sees_images;
        let is_error = report.outcome.is_error();
        let content = report.words.into_iter().map(|words| match words {
            Words::Image { media_type, data } if sees_images => Part::Image { media_type, data },
            Words::Image { media_type, data } => {
                let bytes = data.len() / 4 * 3;
                Part::text(format!(
                    "[image, {media_type}, about {bytes} bytes; this model does not see images]"
                ))
            }
            Words::Text(text) => Part::text(text),
        });
        ToolResultMessage {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: content.collect(),
            is_error,
        }
    }
}

fn not_made(call: &ToolCall, words: &str) -> ToolResultMessage {
    let content = vec![Part::text(words)];
    ToolResultMessage {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content,
        is_error: true,
    }
}

impl CallCounts {
    fn count(&mut self, outcome: &CallOutcome) {
        self.proposed += 1;
        match outcome {
            CallOutcome::Unknown(_) => self.unknown += 1,
            CallOutcome::Rejected(Rejection::NobodyToAsk { .. }) => self.nobody_to_ask += 1,
            _ => {}
        }
    }
}

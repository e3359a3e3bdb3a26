//! The calls of one turn. Their results go back together, in the order of the calls.

use std::collections::BTreeSet;

use futures::future::join_all;
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::toolset::Toolset;
use outrigger_host::words::Words;
use outrigger_host::{CallContext, CallReport, ProposedCall};
use outrigger_model::{Part, ToolCall, ToolResultMessage};
use tokio_util::sync::CancellationToken;

use super::said::part;
use super::{Agent, CallCounts, Ending, Progress, TurnEnd};

/// What became of the calls of a turn.
pub(super) struct Made {
    /// In the order of the calls.
    pub(super) results: Vec<ToolResultMessage>,
    /// Servers whose data is among them.
    pub(super) origins: BTreeSet<String>,
    pub(super) end: TurnEnd,
}

impl Agent {
    pub(super) async fn make_calls(
        &self,
        toolset: &Toolset,
        calls: &[ToolCall],
        progress: &mut Progress<'_>,
        cancel: &CancellationToken,
    ) -> Made {
        let room = usize::try_from(self.limits.calls.saturating_sub(progress.calls.proposed))
            .unwrap_or(usize::MAX);
        let (within, beyond) = calls.split_at(room.min(calls.len()));
        // Cancels what is under way when the time is over; the servers are told.
        let stop = cancel.child_token();
        let work = self.in_order(toolset, within, progress.number(), &stop);
        tokio::pin!(work);
        let mut out_of_time = false;
        let mut reports = tokio::select! {
            reports = &mut work => reports,
            () = progress.time_over() => {
                out_of_time = true;
                stop.cancel();
                work.await
            }
        };
        self.host.fit_turn(&mut reports).await;
        let mut results = Vec::with_capacity(calls.len());
        let mut origins = BTreeSet::new();
        for (call, report) in within.iter().zip(reports) {
            progress.calls.count(&report.outcome);
            origins.extend(report.origins.servers().map(ToOwned::to_owned));
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
        Made {
            results,
            origins,
            end,
        }
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
                .called(&call.name, &call.arguments)
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
        let is_error = report.outcome.is_error();
        let content = report.words.into_iter().filter_map(|words| self.fit(words));
        ToolResultMessage {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: content.collect(),
            is_error,
        }
    }
}

impl Agent {
    /// A piece of a result as this model can take it. Before each image stands a line about it, which is
    /// all that models without eyes read.
    pub(super) fn fit(&self, words: Words) -> Option<Part> {
        match words {
            Words::Image { .. } if !self.model.limits().sees_images => None,
            words => Some(part(words)),
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
            CallOutcome::Rejected(Rejection::Repeats(_)) => {
                self.nobody_to_ask += 1;
                self.repeats += 1;
            }
            _ => {}
        }
    }
}

//! What happens in the runs of a gateway, as it is recorded: for the status page and the metrics.
//!
//! Promises: bounded, also where names are long; arguments and results are not kept. The numbers are
//! those of this process since it began; the journal has the rest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use outrigger_journal::{DecidedBy, Event, Observer, OutcomeKind, Recorded, RunId};

use crate::metrics::Metrics;

/// Calls that have ended and are still shown.
const RECENT: usize = 50;
/// Characters of a name that a client made up.
const NAME: usize = 120;

/// Sees what happens, in the runs of all principals. Made before the runs that it observes.
#[derive(Debug, Default)]
pub struct Activity {
    state: Mutex<State>,
    pub(crate) metrics: Metrics,
}

#[derive(Debug, Default)]
struct State {
    /// Runs number their calls each for itself.
    open: HashMap<(RunId, u32), Call>,
    /// What prompts and resources wait for a person as.
    fetches: HashSet<String>,
    /// The latest first.
    recent: VecDeque<Call>,
}

/// A call, as far as it has come.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) run: RunId,
    /// Within its run.
    pub(crate) number: u32,
    /// The name that was asked for, or the server's own, where it is known.
    pub(crate) tool: String,
    pub(crate) server: Option<String>,
    pub(crate) at: Timestamp,
    /// What it waits for a person as.
    pub(crate) waits: Option<String>,
    pub(crate) decided: Option<(bool, DecidedBy)>,
    pub(crate) sent: bool,
    pub(crate) end: Option<End>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) outcome: OutcomeKind,
    pub(crate) is_error: bool,
    pub(crate) took_ms: u64,
}

impl Call {
    fn begun(recorded: &Recorded, number: u32, tool: &str) -> Self {
        Self {
            run: recorded.run.clone(),
            number,
            tool: tool.chars().take(NAME).collect(),
            server: None,
            at: recorded.at,
            waits: None,
            decided: None,
            sent: false,
            end: None,
        }
    }
}

impl Activity {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls under way, the earliest first, and those that ended last, the latest first.
    pub(crate) fn calls(&self) -> (Vec<Call>, Vec<Call>) {
        let state = self.state();
        let mut open: Vec<_> = state.open.values().cloned().collect();
        open.sort_by_key(|call| (call.at, call.number));
        (open, state.recent.iter().cloned().collect())
    }

    /// Calls under way, and how many of them, and of prompts and resources, wait for a person.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        let waiting = state.open.values().filter(|call| call.waits.is_some());
        (state.open.len(), waiting.count() + state.fetches.len())
    }

    fn of_call(&self, recorded: &Recorded, number: u32, change: impl FnOnce(&mut Call)) {
        let key = (recorded.run.clone(), number);
        if let Some(call) = self.state().open.get_mut(&key) {
            change(call);
        }
    }

    /// One that waits is known by its approval, from then until it has ended.
    fn of_fetch(&self, event: &Event) {
        match event {
            Event::FetchWaits { approval, .. } => {
                self.state().fetches.insert(approval.clone());
            }
            Event::PromptFetched { approval, .. } | Event::ResourceRead { approval, .. } => {
                if let Some(approval) = approval {
                    self.state().fetches.remove(approval);
                }
            }
            _ => {}
        }
    }

    fn ended(&self, run: &RunId, number: u32, end: End) {
        let mut state = self.state();
        let Some(mut call) = state.open.remove(&(run.clone(), number)) else {
            return;
        };
        call.end = Some(end);
        call.waits = None;
        self.metrics.ended(&call, end);
        let (server, tool) = (call.server.as_deref().unwrap_or_default(), &call.tool);
        let outcome = end.outcome.as_str();
        tracing::info!(
            run = run.as_str(),
            call = number,
            server,
            tool,
            outcome,
            took_ms = end.took_ms,
            "a call ended"
        );
        state.recent.push_front(call);
        state.recent.truncate(RECENT);
    }
}

impl Observer for Activity {
    fn observe(&self, recorded: &Recorded) {
        match &recorded.event {
            Event::CallProposed { call, tool, .. } => {
                let begun = Call::begun(recorded, *call, tool);
                let key = (recorded.run.clone(), *call);
                self.state().open.insert(key, begun);
            }
            Event::CallPrepared {
                call,
                server,
                raw_tool,
                ..
            } => self.of_call(recorded, *call, |call| {
                call.tool = raw_tool.chars().take(NAME).collect();
                call.server = Some(server.clone());
            }),
            Event::CallWaits { call, approval, .. } => {
                self.of_call(recorded, *call, |call| call.waits = Some(approval.clone()));
            }
            Event::CallDecided {
                call, allowed, by, ..
            } => {
                self.metrics.decided(*allowed, *by);
                self.of_call(recorded, *call, |call| {
                    call.waits = None;
                    call.decided = Some((*allowed, *by));
                });
            }
            Event::CallIntent { call } => self.of_call(recorded, *call, |call| call.sent = true),
            Event::CallEnded {
                call,
                outcome,
                is_error,
                took_ms,
                ..
            } => self.ended(
                &recorded.run,
                *call,
                End {
                    outcome: *outcome,
                    is_error: *is_error,
                    took_ms: *took_ms,
                },
            ),
            Event::LateAnswer { call, outcome, .. } => {
                let mut state = self.state();
                let mut known = state.recent.iter_mut();
                let known = known.find(|it| it.number == *call && it.run == recorded.run);
                if let Some(end) = known.and_then(|known| known.end.as_mut()) {
                    end.outcome = *outcome;
                }
            }
            Event::FetchWaits { .. } | Event::PromptFetched { .. } | Event::ResourceRead { .. } => {
                self.of_fetch(&recorded.event);
            }
            event => self.metrics.of_server(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use outrigger_journal::{Run, RunOptions};

    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let activity = std::sync::Arc::new(Activity::default());
        let run = Run::unrecorded(RunOptions {
            observers: vec![activity.clone()],
            secrets: Vec::new(),
        });
        for call in 1..=200 {
            run.record(Event::CallProposed {
                call,
                turn: None,
                client: None,
                tool: "x".repeat(5000),
                arguments: "{}".to_owned(),
            });
            if call > 10 {
                run.record(Event::CallEnded {
                    call,
                    outcome: OutcomeKind::Rejected,
                    is_error: false,
                    summary: String::new(),
                    result: None,
                    kept: None,
                    artifacts: Vec::new(),
                    tokens: 0,
                    took_ms: 0,
                });
            }
        }
        let (open, recent) = activity.calls();
        assert_eq!((open.len(), recent.len()), (10, RECENT));
        assert_eq!(recent[0].number, 200);
        assert_eq!(open[0].tool.len(), NAME);
        assert_eq!(activity.counts(), (10, 0));
    }

    #[test]
    fn calls_of_two_runs_are_told_apart() {
        let activity = Activity::default();
        let one: RunId = "20261130-120000-aaaa".parse().unwrap();
        let other: RunId = "20261130-120000-bbbb".parse().unwrap();
        let sees = |run: &RunId, event| {
            activity.observe(&Recorded {
                v: outrigger_journal::VERSION,
                seq: 2,
                at: Timestamp::UNIX_EPOCH,
                run: run.clone(),
                event,
            });
        };
        for (run, tool) in [(&one, "first"), (&other, "second")] {
            sees(
                run,
                Event::CallProposed {
                    call: 1,
                    turn: None,
                    client: None,
                    tool: tool.to_owned(),
                    arguments: "{}".to_owned(),
                },
            );
        }
        let ended = Event::CallEnded {
            call: 1,
            outcome: OutcomeKind::Rejected,
            is_error: false,
            summary: String::new(),
            result: None,
            kept: None,
            artifacts: Vec::new(),
            tokens: 0,
            took_ms: 0,
        };
        sees(&other, ended);
        let (open, recent) = activity.calls();
        let tools =
            |calls: &[Call]| -> Vec<_> { calls.iter().map(|call| call.tool.clone()).collect() };
        assert_eq!(
            (tools(&open), tools(&recent)),
            (vec!["first".to_owned()], vec!["second".to_owned()])
        );
        assert_eq!(open[0].run, one);
    }
}

//! Which event may follow which within a run, decided before an event gets its place, so that a
//! refused one leaves no gap. The database holds the same rules for what other processes write.

use std::collections::BTreeMap;

use crate::{Event, OutcomeKind};

/// An event that contradicts what its run has already recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// A run begins with its start.
    #[error("a run begins with `run_started`")]
    NotAStart,
    /// A run starts once.
    #[error("a run starts once")]
    SecondStart,
    /// Nothing follows the end of a run.
    #[error("the run has already ended")]
    AfterRunEnd,
    /// A call is proposed before anything else happens to it.
    #[error("call {call} was never proposed")]
    NotProposed {
        /// Number of the call.
        call: u32,
    },
    /// A number names one call.
    #[error("call {call} was already proposed")]
    ProposedTwice {
        /// Number of the call.
        call: u32,
    },
    /// A call ends once.
    #[error("call {call} has already ended")]
    AlreadyEnded {
        /// Number of the call.
        call: u32,
    },
    /// Only what was sent can be sent once more.
    #[error("call {call} was not sent before")]
    NotSentBefore {
        /// Number of the call.
        call: u32,
    },
    /// Only an unknown end can be upgraded, once, and to something known.
    #[error("a late answer can only make the unknown end of call {call} known")]
    NotLate {
        /// Number of the call.
        call: u32,
    },
    /// The database refused it: its rows do not agree with what this process recorded.
    #[error("another process has written into the same run ({reason})")]
    Elsewhere {
        /// What the database said.
        reason: String,
    },
}

/// How far each call of a run has come. A run may have any number of calls and go on for months, so
/// those that are over for good take no room of their own.
#[derive(Default)]
pub(crate) struct Order {
    /// What can still change.
    calls: BTreeMap<u32, Stage>,
    /// Calls with a known end.
    over: Spans,
    ended: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    Open { intent: bool },
    Unknown,
}

/// Numbers, as spans without a gap: the first of each, and the last.
#[derive(Default)]
struct Spans(BTreeMap<u32, u32>);

impl Spans {
    fn contains(&self, number: u32) -> bool {
        let before = self.0.range(..=number).next_back();
        before.is_some_and(|(_, last)| *last >= number)
    }

    fn insert(&mut self, number: u32) {
        if self.contains(number) {
            return;
        }
        let next = number.checked_add(1);
        let last = next.and_then(|next| self.0.remove(&next)).unwrap_or(number);
        match self.0.range_mut(..number).next_back() {
            Some((_, end)) if end.checked_add(1) == Some(number) => *end = last,
            _ => {
                self.0.insert(number, last);
            }
        }
    }
}

impl Order {
    /// Takes an event if it may come now.
    pub(crate) fn admit(&mut self, event: &Event) -> Result<(), Misplaced> {
        if self.ended {
            return Err(Misplaced::AfterRunEnd);
        }
        match event {
            Event::RunStarted { .. } => return Err(Misplaced::SecondStart),
            Event::RunEnded { .. } => self.ended = true,
            Event::CallProposed { call, .. } => {
                if self.calls.contains_key(call) || self.over.contains(*call) {
                    return Err(Misplaced::ProposedTwice { call: *call });
                }
                self.calls.insert(*call, Stage::Open { intent: false });
            }
            Event::CallPrepared { call, .. }
            | Event::CallWaits { call, .. }
            | Event::CallDecided { call, .. }
            | Event::CallCheckable { call, .. } => {
                self.open(*call)?;
            }
            Event::CallRetried { call, .. } => match self.open(*call)? {
                Stage::Open { intent: true } => {}
                _ => return Err(Misplaced::NotSentBefore { call: *call }),
            },
            Event::CallIntent { call } => *self.open(*call)? = Stage::Open { intent: true },
            Event::CallEnded { call, outcome, .. } => {
                self.open(*call)?;
                self.end(*call, *outcome);
            }
            Event::LateAnswer { call, outcome, .. } => self.upgrade(*call, *outcome)?,
            Event::ServerReady { .. }
            | Event::ServerFailed { .. }
            | Event::ServerEnded { .. }
            | Event::ServerWarned { .. }
            | Event::ToolSetAside { .. }
            | Event::QuestionEnded { .. }
            | Event::FetchWaits { .. }
            | Event::PromptFetched { .. }
            | Event::ResourceRead { .. }
            | Event::PersonSaid { .. }
            | Event::TurnStarted { .. }
            | Event::ProviderSearchUnused { .. }
            | Event::ModelRetry { .. }
            | Event::ModelAnswered { .. }
            | Event::MessageAdded { .. }
            | Event::RunResumed { .. }
            | Event::ConfigurationRead { .. }
            | Event::CallSettled { .. }
            | Event::HookRan { .. } => {}
        }
        Ok(())
    }

    /// The intent of a call, which was taken here, was not written: it has not been sent.
    pub(crate) fn withdraw(&mut self, call: u32) {
        if let Some(Stage::Open { intent }) = self.calls.get_mut(&call) {
            *intent = false;
        }
    }

    /// The ends that calls without one get when their run ends for this reason.
    pub(crate) fn missing_ends(&self, reason: &str) -> Vec<Event> {
        let open = self.calls.iter().filter_map(|(call, stage)| match stage {
            Stage::Open { intent } => Some(missing_end(*call, *intent, reason)),
            Stage::Unknown => None,
        });
        open.collect()
    }

    fn end(&mut self, call: u32, outcome: OutcomeKind) {
        if outcome == OutcomeKind::Unknown {
            self.calls.insert(call, Stage::Unknown);
        } else {
            self.calls.remove(&call);
            self.over.insert(call);
        }
    }

    fn open(&mut self, call: u32) -> Result<&mut Stage, Misplaced> {
        match self.calls.get_mut(&call) {
            Some(Stage::Unknown) => Err(Misplaced::AlreadyEnded { call }),
            Some(stage) => Ok(stage),
            None if self.over.contains(call) => Err(Misplaced::AlreadyEnded { call }),
            None => Err(Misplaced::NotProposed { call }),
        }
    }

    fn upgrade(&mut self, call: u32, known: OutcomeKind) -> Result<(), Misplaced> {
        match self.calls.get(&call) {
            Some(Stage::Unknown) if known != OutcomeKind::Unknown => {
                self.end(call, known);
                Ok(())
            }
            None if !self.over.contains(call) => Err(Misplaced::NotProposed { call }),
            _ => Err(Misplaced::NotLate { call }),
        }
    }
}

/// The end of a call whose host cannot say more: unknown once the intent was written, else not sent.
pub(crate) fn missing_end(call: u32, intent: bool, reason: &str) -> Event {
    let (outcome, what) = if intent {
        (OutcomeKind::Unknown, "the answer came")
    } else {
        (OutcomeKind::NotSent, "it was sent")
    };
    Event::CallEnded {
        call,
        outcome,
        is_error: false,
        summary: format!("{reason} before {what}"),
        result: None,
        kept: None,
        artifacts: Vec::new(),
        tokens: 0,
        took_ms: 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Spans hold what was put in, whatever comes first, and never two where one would do.
        #[test]
        fn spans_hold_what_was_put_in(numbers in prop::collection::vec(0_u32..60, 0..80)) {
            let mut spans = Spans::default();
            for number in &numbers {
                spans.insert(*number);
            }
            for number in 0..60 {
                prop_assert_eq!(spans.contains(number), numbers.contains(&number));
            }
            let ends = spans.0.iter().map(|(first, last)| (*first, *last)).collect::<Vec<_>>();
            prop_assert!(ends.iter().all(|(first, last)| first <= last));
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", ends);
        }
    }

    fn ended(call: u32, outcome: OutcomeKind) -> Event {
        let mut event = missing_end(call, true, "");
        if let Event::CallEnded { outcome: end, .. } = &mut event {
            *end = outcome;
        }
        event
    }

    #[test]
    fn a_run_is_no_larger_than_what_can_still_change() {
        let mut order = Order::default();
        for call in 1..=1000 {
            let proposed = Event::CallProposed {
                call,
                turn: None,
                tool: "tool".into(),
                arguments: "{}".into(),
                client: None,
            };
            order.admit(&proposed).unwrap();
        }
        // The last begun end first, as they may.
        for call in (3..=1000).rev() {
            order.admit(&ended(call, OutcomeKind::Completed)).unwrap();
        }
        order.admit(&ended(2, OutcomeKind::Unknown)).unwrap();
        assert_eq!((order.calls.len(), order.over.0.len()), (2, 1));
        let again = order.admit(&ended(700, OutcomeKind::Unknown));
        assert_eq!(again, Err(Misplaced::AlreadyEnded { call: 700 }));
        order.upgrade(2, OutcomeKind::Completed).unwrap();
        let twice = order.upgrade(2, OutcomeKind::Completed);
        assert_eq!(twice, Err(Misplaced::NotLate { call: 2 }));
        assert_eq!(order.missing_ends("").len(), 1, "call 1 is open");
    }
}

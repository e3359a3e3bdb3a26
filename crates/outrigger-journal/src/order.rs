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
    #[error("call {call} has already ended as {}", outcome.as_str())]
    AlreadyEnded {
        /// Number of the call.
        call: u32,
        /// Its end.
        outcome: OutcomeKind,
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

/// How far each call of a run has come.
#[derive(Default)]
pub(crate) struct Order {
    calls: BTreeMap<u32, Stage>,
    ended: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    Open { intent: bool },
    Ended(OutcomeKind),
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
                if self.calls.contains_key(call) {
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
            Event::CallEnded { call, outcome, .. } => *self.open(*call)? = Stage::Ended(*outcome),
            Event::LateAnswer { call, outcome, .. } => self.upgrade(*call, *outcome)?,
            Event::ServerReady { .. }
            | Event::ServerFailed { .. }
            | Event::ServerEnded { .. }
            | Event::ServerWarned { .. }
            | Event::ToolSetAside { .. }
            | Event::QuestionEnded { .. }
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

    /// The ends that calls without one get when their run ends for this reason.
    pub(crate) fn missing_ends(&self, reason: &str) -> Vec<Event> {
        let open = self.calls.iter().filter_map(|(call, stage)| match stage {
            Stage::Open { intent } => Some(missing_end(*call, *intent, reason)),
            Stage::Ended(_) => None,
        });
        open.collect()
    }

    fn open(&mut self, call: u32) -> Result<&mut Stage, Misplaced> {
        match self.calls.get_mut(&call) {
            None => Err(Misplaced::NotProposed { call }),
            Some(Stage::Ended(outcome)) => Err(Misplaced::AlreadyEnded {
                call,
                outcome: *outcome,
            }),
            Some(stage) => Ok(stage),
        }
    }

    fn upgrade(&mut self, call: u32, known: OutcomeKind) -> Result<(), Misplaced> {
        match self.calls.get_mut(&call) {
            None => Err(Misplaced::NotProposed { call }),
            Some(Stage::Ended(outcome))
                if *outcome == OutcomeKind::Unknown && known != OutcomeKind::Unknown =>
            {
                *outcome = known;
                Ok(())
            }
            Some(_) => Err(Misplaced::NotLate { call }),
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

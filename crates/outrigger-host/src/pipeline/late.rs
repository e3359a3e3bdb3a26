//! Answers to calls that had been given up on. The ledger learns them, the model's turn does not.
//!
//! Such an answer may come before the end of its call is written; it then waits for that.

use std::sync::{Mutex, PoisonError};

use outrigger_connect::CallError;
use outrigger_journal::{Event, OutcomeKind, Run};
use serde_json::value::RawValue;

use crate::outcome::CallOutcome;
use crate::result::ToolResult;
use crate::words;

/// The late answers of one call.
#[derive(Debug, Default)]
pub(super) struct LateAnswers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The end of the call is written.
    ended: bool,
    waiting: Vec<Event>,
}

impl LateAnswers {
    /// An answer came.
    pub(super) fn came(&self, run: &Run, call: u32, answer: Result<Box<RawValue>, CallError>) {
        let Some(event) = event(call, answer) else {
            return;
        };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ended {
            run.record(event);
        } else {
            state.waiting.push(event);
        }
    }

    /// The end of the call is written.
    pub(super) fn ended(&self, run: &Run) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        for event in state.waiting.drain(..) {
            run.record(event);
        }
    }
}

/// What an answer makes known; `None` where it makes nothing known.
fn event(call: u32, answer: Result<Box<RawValue>, CallError>) -> Option<Event> {
    let (outcome, summary, result) = match answer {
        Ok(raw) => match ToolResult::read(raw) {
            Ok(result) => {
                let outcome = CallOutcome::Completed(Box::new(result));
                let summary = words::for_person(&outcome);
                let raw = match outcome {
                    CallOutcome::Completed(result) => result.raw.into_here(),
                    _ => None,
                };
                (OutcomeKind::Completed, summary, raw)
            }
            Err((raw, what)) => (OutcomeKind::Violated, what, Some(raw)),
        },
        Err(error @ CallError::Rpc { .. }) => (OutcomeKind::Completed, error.to_string(), None),
        Err(_) => return None,
    };
    Some(Event::LateAnswer {
        call,
        outcome,
        summary,
        result,
        kept: None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outrigger_journal::{Observer, Recorded, RunOptions};

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Observer for Seen {
        fn observe(&self, recorded: &Recorded) {
            if let Event::LateAnswer { summary, .. } = &recorded.event {
                self.0.lock().unwrap().push(summary.clone());
            }
        }
    }

    #[test]
    fn an_answer_before_the_end_is_written_waits_for_it() {
        let seen = Arc::new(Seen::default());
        let run = Run::unrecorded(RunOptions {
            observers: vec![seen.clone()],
            ..RunOptions::default()
        });
        let answer = |text: &str| {
            let json = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
            Ok(RawValue::from_string(json).unwrap())
        };
        let late = LateAnswers::default();
        late.came(&run, 1, answer("early"));
        assert_eq!(seen.0.lock().unwrap().len(), 0);
        late.ended(&run);
        late.came(&run, 1, answer("late"));
        late.came(&run, 1, Err(CallError::Cancelled));
        assert_eq!(*seen.0.lock().unwrap(), ["early", "late"]);
    }
}

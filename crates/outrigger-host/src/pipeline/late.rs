//! Answers to calls that had been given up on. The ledger learns them at once, the model with its next
//! turn.
//!
//! Such an answer may come before the end of its call is written; it then waits for that, and counts
//! only when that end is unknown. Of several, the first counts.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outrigger_connect::{CallError, ServerName};
use outrigger_journal::{ArtifactOrigin, CallRef, Event, OutcomeKind, Run};
use serde_json::value::RawValue;

use super::finish;
use super::hooked::{About, Shown};
use super::unknown::Unknowns;
use crate::catalog::CatalogTool;
use crate::host::Host;
use crate::outcome::CallOutcome;
use crate::policy::Origins;
use crate::words::{self, Checks, Whose, Words};

/// A call whose outcome was unknown and has become known.
#[derive(Debug)]
pub(super) struct Late {
    call: u32,
    turn: Option<u32>,
    tool: Arc<CatalogTool>,
    arguments: Box<RawValue>,
    outcome: CallOutcome,
}

/// The same, as the model reads it.
#[derive(Debug)]
pub struct LateNote {
    /// The call.
    pub of: CallRef,
    /// The server whose data is among the words.
    pub origin: ServerName,
    /// A remark of ours, then what came.
    pub words: Vec<Words>,
    /// What came of the call.
    pub outcome: CallOutcome,
}

/// The late answers of one call.
#[derive(Debug)]
pub(super) struct LateAnswers {
    run: Run,
    unknowns: Arc<Unknowns>,
    call: u32,
    turn: Option<u32>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// The end of the call is not written; the first answer waits.
    Open(Option<Box<Came>>),
    /// The call has ended as unknown.
    Unknown,
    /// It is known what came of it.
    Known,
}

#[derive(Debug)]
struct Came {
    late: Late,
    answer: Option<Box<RawValue>>,
}

impl LateAnswers {
    pub(super) fn new(run: Run, unknowns: Arc<Unknowns>, call: u32, turn: Option<u32>) -> Self {
        Self {
            run,
            unknowns,
            call,
            turn,
            state: Mutex::new(State::Open(None)),
        }
    }

    /// An answer came.
    pub(super) fn came(
        &self,
        tool: &Arc<CatalogTool>,
        arguments: &RawValue,
        answer: Result<Box<RawValue>, CallError>,
    ) {
        let answer = answer.map(|raw| match self.run.redactor().redact_json(&raw) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => raw,
        });
        let (outcome, answer) = finish::finish(tool, answer);
        let here = match &outcome {
            CallOutcome::Completed(result) => result.raw.here().map(ToOwned::to_owned),
            _ => None,
        };
        let answer = answer.or(here);
        if !matches!(
            outcome.kind(),
            OutcomeKind::Completed | OutcomeKind::Violated
        ) {
            return;
        }
        let late = Late {
            call: self.call,
            turn: self.turn,
            tool: Arc::clone(tool),
            arguments: arguments.to_owned(),
            outcome,
        };
        let came = Box::new(Came { late, answer });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Open(first) => drop(first.get_or_insert(came)),
            State::Unknown => {
                *state = State::Known;
                self.tell(*came);
            }
            State::Known => {}
        }
    }

    /// The end of the call is written.
    pub(super) fn ended(&self, outcome: OutcomeKind) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match outcome {
            OutcomeKind::Unknown => State::Unknown,
            _ => State::Known,
        };
        let before = std::mem::replace(&mut *state, next);
        if let (State::Open(Some(came)), OutcomeKind::Unknown) = (before, outcome) {
            *state = State::Known;
            self.tell(*came);
        }
    }

    fn tell(&self, came: Came) {
        let Came { late, answer } = came;
        self.run.record(Event::LateAnswer {
            call: self.call,
            outcome: late.outcome.kind(),
            summary: words::for_person(&late.outcome),
            result: answer,
            kept: None,
        });
        let of = CallRef {
            run: self.run.id().clone(),
            call: self.call,
        };
        self.unknowns.known(&of, late);
    }
}

impl Host {
    /// What has become known, since this was last asked, of calls whose outcome was unknown. It is
    /// about to be shown to the model.
    pub async fn late_notes(&self) -> Vec<LateNote> {
        let mut notes = Vec::new();
        for mut late in self.unknowns().take_late() {
            let server = &late.tool.server;
            let of = CallRef {
                run: self.run().id().clone(),
                call: late.call,
            };
            let origins = Origins::from_iter([server.as_str()]);
            let whose = Whose {
                server: Some(server.as_str()),
                tool: Some(&late.tool.raw_name),
                origins: &origins,
                is_ours: late.tool.standing.builtin,
            };
            if let CallOutcome::Completed(result) = &mut late.outcome {
                let origin = ArtifactOrigin {
                    run: of.run.clone(),
                    call: late.call,
                    server: server.to_string(),
                    tool: late.tool.raw_name.clone(),
                    block: None,
                };
                self.keep_told(result, origin, late.tool.name.as_str())
                    .await;
            }
            let mut words = vec![words::known_now(&of, true, late.tool.name.as_str())];
            words.extend(words::for_model(&late.outcome, whose, &Checks::default()));
            self.clean(&mut words);
            let about = About {
                call: Some(late.call),
                turn: late.turn,
                tool: &late.tool,
                arguments: &late.arguments,
                outcome: late.outcome.kind(),
                is_error: late.outcome.is_error(),
            };
            let mut shown = Shown {
                words: &mut words,
                remarks: 1,
                framed: matches!(late.outcome, CallOutcome::Completed(_)),
                changed: false,
            };
            self.after_call(&about, &mut shown).await;
            let whose = (&origins, shown.changed);
            self.hand_out(&late.outcome, whose, &mut words).await;
            self.came_from(server.as_str());
            notes.push(LateNote {
                of,
                origin: server.clone(),
                words,
                outcome: late.outcome,
            });
        }
        notes
    }

    /// How long [`Host::await_late`] would wait; `None` when no answer can come any more.
    pub fn late_patience(&self) -> Option<Duration> {
        self.unknowns().patience()
    }

    /// Waits for answers to calls that were given up, where they can still come, no longer than the
    /// `late` time of their servers.
    pub async fn await_late(&self) {
        self.unknowns().settled().await;
    }

    /// How many calls of this run have an outcome that is unknown, as of now.
    pub fn unknown_calls(&self) -> usize {
        self.unknowns().count(self.run().id())
    }

    /// Makes calls of earlier runs known whose outcome is unknown, so that they are recognised when
    /// somebody asks for them again.
    pub fn remember_unknown(
        &self,
        calls: impl IntoIterator<Item = outrigger_journal::UnknownCall>,
    ) {
        self.unknowns().remember(calls);
    }
}

#[cfg(test)]
mod tests {
    use outrigger_journal::{Observer, Recorded, RunOptions};
    use serde_json::json;

    use super::*;
    use crate::catalog::{ServerCatalog, Standing};

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Observer for Seen {
        fn observe(&self, recorded: &Recorded) {
            if let Event::LateAnswer { summary, .. } = &recorded.event {
                self.0.lock().unwrap().push(summary.clone());
            }
        }
    }

    fn tool() -> Arc<CatalogTool> {
        let raw = json!({ "name": "keep", "inputSchema": { "type": "object" } });
        let listing = outrigger_connect::ToolListing {
            tools: vec![RawValue::from_string(raw.to_string()).unwrap()],
            pages: 1,
            problems: Vec::new(),
            took: std::time::Duration::ZERO,
        };
        let server = ServerName::new("lab").unwrap();
        let catalog = ServerCatalog::read(&server, Standing::default(), listing);
        Arc::clone(&catalog.tools[0])
    }

    /// What is recorded of answers before and after an end.
    fn recorded(before: &[&str], outcome: OutcomeKind, after: &[&str]) -> Vec<String> {
        let seen = Arc::new(Seen::default());
        let run = Run::unrecorded(RunOptions {
            observers: vec![seen.clone()],
            ..RunOptions::default()
        });
        let late = LateAnswers::new(run, Arc::default(), 1, None);
        let tool = tool();
        let came = |text: &&str| {
            let json = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
            late.came(
                &tool,
                RawValue::NULL,
                Ok(RawValue::from_string(json).unwrap()),
            );
        };
        late.came(&tool, RawValue::NULL, Err(CallError::Cancelled));
        before.iter().for_each(came);
        assert!(seen.0.lock().unwrap().is_empty());
        late.ended(outcome);
        after.iter().for_each(came);
        std::mem::take(&mut *seen.0.lock().unwrap())
    }

    #[test]
    fn an_answer_counts_once_and_only_for_an_unknown_end() {
        use OutcomeKind::{Completed, Unknown};
        assert_eq!(recorded(&["early"], Unknown, &["late"]), ["early"]);
        assert_eq!(recorded(&[], Unknown, &["late", "later"]), ["late"]);
        assert_eq!(recorded(&["a", "b"], Unknown, &[]), ["a"]);
        assert!(recorded(&["early"], Completed, &["late"]).is_empty());
    }
}

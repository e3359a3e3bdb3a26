//! Answers that are no results: the server asks for input, and wants the call again with it.
//!
//! Promises: one call for whoever made it, under one deadline and one cancellation; a bounded number
//! of rounds, questions and bytes; what the server keeps in `requestState` goes back byte for byte.
//! Source: MCP 2026-07-28, "Multi Round-Trip Requests" (SEP-2322).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::try_join_all;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Call;
use crate::CallError;
use crate::desk::{Desk, ELICIT, QUESTION_BYTES, QUESTIONS, not_offered};
use crate::handlers::Asker;
use crate::rpc::Scope;
use crate::text::{excerpt, quote};

/// Times that one call's questions are answered.
pub(super) const ROUNDS: u32 = 8;

/// Before a call is sent again that nothing was asked about (the server wanted it later).
const PAUSE: Duration = Duration::from_millis(200);

/// What a result is.
#[derive(Debug)]
pub(super) enum Said {
    Result,
    Questions(Questions),
    Task(Box<RawValue>),
}

/// Questions by the server's name for each, and what it wants back with the answers.
#[derive(Debug, Default)]
pub(super) struct Questions {
    pub(super) asked: BTreeMap<String, Question>,
    state: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Question {
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

/// What goes with a call that is sent again; empty the first time.
#[derive(Debug, Default)]
pub(super) struct Reply {
    answers: Option<String>,
    state: Option<Box<RawValue>>,
}

impl Reply {
    /// Members of `params`.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let answers = self.answers.as_deref().map(|json| ("inputResponses", json));
        let state = self.state.as_deref().map(|raw| ("requestState", raw.get()));
        answers.into_iter().chain(state)
    }
}

impl Said {
    /// A missing or unknown kind is a result.
    pub(super) fn of(result: &RawValue) -> Result<Self, CallError> {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(rename = "resultType", borrow, default)]
            kind: Option<&'a RawValue>,
            #[serde(rename = "inputRequests", borrow, default)]
            asked: Option<&'a RawValue>,
            #[serde(rename = "requestState", default)]
            state: Option<Box<RawValue>>,
        }
        let Ok(shape) = serde_json::from_str::<Shape<'_>>(result.get()) else {
            return Ok(Self::Result);
        };
        match shape.kind.map(RawValue::get) {
            Some("\"task\"") => Ok(Self::Task(result.to_owned())),
            Some("\"input_required\"") => {
                let asked = Questions::parse(shape.asked)?;
                if asked.is_empty() && shape.state.is_none() {
                    return Err(CallError::Malformed(
                        "the server asks for input and does not say which".to_owned(),
                    ));
                }
                let state = shape.state;
                Ok(Self::Questions(Questions { asked, state }))
            }
            _ => Ok(Self::Result),
        }
    }
}

impl Questions {
    /// `inputRequests`, within the limits.
    pub(super) fn parse(raw: Option<&RawValue>) -> Result<BTreeMap<String, Question>, CallError> {
        let Some(raw) = raw else {
            return Ok(BTreeMap::new());
        };
        let size = raw.get().len();
        if size > QUESTION_BYTES {
            return Err(CallError::Malformed(format!(
                "the server asks for input in {size} bytes; {QUESTION_BYTES} are the limit"
            )));
        }
        serde_json::from_str(raw.get()).map_err(|error| {
            CallError::Malformed(format!(
                "the server asks for input in a form that is not known ({error}): {}",
                excerpt(raw.get().as_bytes(), 120)
            ))
        })
    }
}

impl Scope {
    /// Whether an answer from this side is being waited for.
    pub(super) fn is_asking(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }
}

impl Call<'_> {
    /// Answers questions, for the next round.
    pub(super) async fn reply(&mut self, questions: Questions) -> Result<Reply, CallError> {
        let Questions { asked, state } = questions;
        if state
            .as_ref()
            .is_some_and(|state| state.get().len() > QUESTION_BYTES)
        {
            return Err(CallError::Malformed(format!(
                "the server's `requestState` is larger than {QUESTION_BYTES} bytes"
            )));
        }
        if asked.is_empty() {
            let pause = tokio::time::sleep(PAUSE * 2_u32.pow(self.rounds.min(ROUNDS)));
            self.count_round()?;
            self.within(pause).await?;
            let answers = None;
            return Ok(Reply { answers, state });
        }
        let answers = Some(self.answers(&asked).await?);
        Ok(Reply { answers, state })
    }

    fn count_round(&mut self) -> Result<(), CallError> {
        if self.rounds == ROUNDS {
            return Err(CallError::Unfinished(format!(
                "the server still asks for input after {ROUNDS} rounds"
            )));
        }
        self.rounds += 1;
        Ok(())
    }

    /// One round: `inputResponses` for these questions.
    pub(super) async fn answers(
        &mut self,
        asked: &BTreeMap<String, Question>,
    ) -> Result<String, CallError> {
        self.count_round()?;
        let count = u32::try_from(asked.len()).unwrap_or(u32::MAX);
        let so_far = self.scope.asked.fetch_add(count, Ordering::Relaxed);
        if so_far.saturating_add(count) > QUESTIONS {
            return Err(CallError::Unfinished(format!(
                "the server asks more than {QUESTIONS} questions in one call"
            )));
        }
        let desk = self.inner.rpc.desk().clone();
        // All or nothing: nobody is bothered with the first question when the second has no answer.
        if let Some(question) = asked
            .values()
            .find(|question| !desk.offers(&question.method))
        {
            let declined = not_offered(&question.method);
            desk.refused(&self.asker(&desk), &question.method, &declined);
            return Err(CallError::Unfinished(format!(
                "the server wants input that is not given here: {}",
                question.words()
            )));
        }
        // Side by side: whoever is asked may want to see all of them. One person is asked one at a time.
        let asking = asked.iter().map(|(name, question)| {
            let mut from = self.asker(&desk);
            from.name = Some(name.clone());
            let desk = desk.clone();
            async move {
                let params = question.params.as_deref();
                let answer = desk.answer(&question.method, params, from).await;
                let answer = answer.map_err(|declined| {
                    CallError::Unfinished(format!(
                        "the server wants input ({}), and {}",
                        question.words(),
                        declined.words()
                    ))
                })?;
                Ok::<_, CallError>(format!("{}:{answer}", quote(name)))
            }
        });
        let asking: Vec<_> = asking.collect();
        let answers = self.within(try_join_all(asking)).await??;
        Ok(format!("{{{}}}", answers.join(",")))
    }

    fn asker(&self, desk: &Desk) -> Asker {
        Asker {
            server: desk.server().clone(),
            tool: Some(self.wanted.subject.1.to_owned()),
            name: None,
            caller: self.scope.caller,
            trace: None,
            cancel: self.scope.over.child_token(),
        }
    }

    /// Something on this side, while the server waits: its own time does not run.
    pub(super) async fn within<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, CallError> {
        let mut ended = self.inner.rpc.ended();
        let done = tokio::select! {
            biased;
            () = self.options.cancel.cancelled() => Err(CallError::Cancelled),
            done = work => Ok(done),
            Ok(reason) = ended.wait_for(Option::is_some) => {
                Err(CallError::Closed(reason.clone().unwrap_or_default()))
            }
            () = tokio::time::sleep_until(self.clock.hard_end) => Err(self.too_late()),
        };
        self.clock.progressed();
        done
    }
}

impl Question {
    /// The method, and for a person's question its words.
    fn words(&self) -> String {
        #[derive(Deserialize)]
        struct Shape {
            message: String,
        }
        let message = self
            .params
            .as_ref()
            .filter(|_| self.method == ELICIT)
            .and_then(|params| serde_json::from_str::<Shape>(params.get()).ok());
        let method = excerpt(self.method.as_bytes(), 80);
        match message {
            Some(shape) => format!("`{method}`: {}", excerpt(shape.message.as_bytes(), 200)),
            None => format!("`{method}`"),
        }
    }
}

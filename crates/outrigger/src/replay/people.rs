//! What people and hooks answered, out of a recording.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use outrigger_connect::{Asker, Elicitation};
use outrigger_host::approve::{Answer, Approver, Question};
use outrigger_host::config::HookSettings;
use outrigger_host::hooks::{Heard, HookRunner};
use outrigger_host::questions::{Completion, Respondent, Response, SamplingRequest};
use serde_json::json;

use super::{Difference, Playback};
use crate::recording::{Approval, Given, Kind, Line, Ran, Word};

/// The people and hooks of a recording.
pub(crate) struct Recorded(pub(crate) Arc<Playback>);

fn read<T: serde::de::DeserializeOwned>(line: &Line) -> Option<T> {
    serde_json::from_str(line.body.as_ref()?.get()).ok()
}

#[async_trait]
impl Approver for Recorded {
    async fn ask(&self, question: Question<'_>) -> Answer {
        let playback = &self.0;
        let about = |line: &Line, whole: bool| {
            read::<Approval>(line).is_some_and(|asked| {
                asked.tool == question.tool.name.as_str()
                    && (!whole || asked.arguments == question.arguments)
            })
        };
        let found = playback.next(Kind::Approval, |line| about(line, true));
        let Some((at, approval)) = found.and_then(|(at, line)| Some((at, read::<Approval>(line)?)))
        else {
            let near = playback.next(Kind::Approval, |line| about(line, false));
            let got = json!({
                "tool": question.tool.name.as_str(),
                "arguments": question.arguments,
                "rule": question.rule,
            });
            let what = format!("the question about `{}`", question.tool.name);
            let near = near.map(|(at, _)| at);
            playback.differs(Difference::between(what, &playback.tape, near, &got));
            return Answer::Nobody;
        };
        playback.mark(at);
        match approval.answer {
            Word::Once => Answer::Once,
            Word::Session => Answer::Session,
            Word::Granted => Answer::Granted {
                grant: approval.with.unwrap_or_default(),
            },
            Word::No => Answer::No {
                reason: approval.with,
            },
            Word::Nobody => Answer::Nobody,
        }
    }
}

impl Recorded {
    fn response(&self, asker: &Asker, about: &str) -> Response {
        let playback = &self.0;
        let same = |line: &Line| {
            line.server.as_deref() == Some(asker.server.as_str())
                && read::<Given>(line).is_some_and(|given| given.about == about)
        };
        let found = playback.next(Kind::Answer, same);
        let Some((at, given)) = found.and_then(|(at, line)| Some((at, read::<Given>(line)?)))
        else {
            let what = format!("a question of the server `{}`", asker.server);
            let got = json!({ "about": about });
            playback.differs(Difference::between(what, &playback.tape, None, &got));
            return Response::Unanswered("the recording has no answer".to_owned());
        };
        playback.mark(at);
        match given.answer.as_str() {
            "yes" => Response::Yes(given.with),
            "declined" => Response::Declined,
            "dismissed" => Response::Dismissed,
            _ => {
                let why = given.with.as_ref().map_or("null", |with| with.get());
                Response::Unanswered(serde_json::from_str(why).unwrap_or_default())
            }
        }
    }
}

#[async_trait]
impl Respondent for Recorded {
    async fn elicit(&self, asker: &Asker, _: &Elicitation) -> Response {
        self.response(asker, "elicit")
    }

    async fn may_sample(&self, asker: &Asker, _: &SamplingRequest) -> Response {
        self.response(asker, "may_sample")
    }

    async fn may_return(&self, asker: &Asker, _: &Completion) -> Response {
        self.response(asker, "may_return")
    }
}

#[async_trait]
impl HookRunner for Recorded {
    async fn run(&self, hook: &HookSettings, _: &str) -> Result<Heard, String> {
        let playback = &self.0;
        let (place, event) = (hook.origin.to_string(), hook.event.as_str());
        let same = |line: &Line| {
            read::<Ran>(line).is_some_and(|ran| ran.hook == place && ran.event == event)
        };
        let found = playback.next(Kind::Hook, same);
        let Some((at, ran)) = found.and_then(|(at, line)| Some((at, read::<Ran>(line)?))) else {
            let what = format!("the {event} hook at {place}");
            let got = json!({ "hook": place, "event": event });
            playback.differs(Difference::between(what, &playback.tape, None, &got));
            return Err("is not in the recording".to_owned());
        };
        playback.mark(at);
        match ran.heard.as_deref() {
            Some("said") => Ok(Heard::Said(ran.text)),
            Some("blocked") => Ok(Heard::Blocked(ran.text)),
            Some(_) => Err(ran.text),
            // It took too long then, and does so now.
            None => pending().await,
        }
    }
}

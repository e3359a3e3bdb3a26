//! What people and hooks answered, into a recording.

use std::sync::Arc;

use async_trait::async_trait;
use outrigger_connect::{Asker, Elicitation};
use outrigger_host::approve::{Answer, Approver, FetchQuestion, Question};
use outrigger_host::config::HookSettings;
use outrigger_host::hooks::{Heard, HookRunner};
use outrigger_host::questions::{Completion, Respondent, Response, SamplingRequest};

use super::{Approval, Given, Kind, Line, Ran, Recorder, Word};

impl Recorder {
    pub(crate) fn approver(self: &Arc<Self>, inner: Arc<dyn Approver>) -> Arc<dyn Approver> {
        let recorder = Arc::clone(self);
        Arc::new(Watched { recorder, inner })
    }

    pub(crate) fn respondent(self: &Arc<Self>, inner: Arc<dyn Respondent>) -> Arc<dyn Respondent> {
        let recorder = Arc::clone(self);
        Arc::new(Watched { recorder, inner })
    }

    pub(crate) fn runner(self: &Arc<Self>, inner: Arc<dyn HookRunner>) -> Arc<dyn HookRunner> {
        let recorder = Arc::clone(self);
        Arc::new(Watched { recorder, inner })
    }
}

/// Somebody who answers, and whose answers are recorded.
struct Watched<T: ?Sized> {
    recorder: Arc<Recorder>,
    inner: Arc<T>,
}

#[async_trait]
impl Approver for Watched<dyn Approver> {
    async fn ask(&self, question: Question<'_>) -> Answer {
        let answer = self.inner.ask(question).await;
        let (word, with) = match &answer {
            Answer::Once | Answer::Decided { allowed: true, .. } => (Word::Once, None),
            Answer::Session => (Word::Session, None),
            Answer::Granted { grant } => (Word::Granted, Some(grant.clone())),
            Answer::No { reason } => (Word::No, reason.clone()),
            Answer::Decided { reason, .. } if !answer.is_nobody() => (Word::No, reason.clone()),
            Answer::Decided { .. } | Answer::Nobody => (Word::Nobody, None),
        };
        let approval = Approval {
            tool: question.tool.name.to_string(),
            arguments: question.arguments.to_owned(),
            rule: question.rule.to_owned(),
            answer: word,
            with,
        };
        self.recorder.add(Line::with(Kind::Approval, &approval));
        answer
    }

    // What clients fetch is not made again by a replay.
    async fn ask_fetch(&self, question: FetchQuestion<'_>) -> Answer {
        self.inner.ask_fetch(question).await
    }
}

impl Watched<dyn Respondent> {
    fn given(&self, asker: &Asker, about: &str, response: &Response) {
        let (answer, with) = match response {
            Response::Yes(values) => ("yes", values.clone()),
            Response::Declined => ("declined", None),
            Response::Dismissed => ("dismissed", None),
            Response::Unanswered(why) => ("unanswered", serde_json::value::to_raw_value(why).ok()),
        };
        let given = Given {
            about: about.to_owned(),
            answer: answer.to_owned(),
            with,
        };
        let mut line = Line::with(Kind::Answer, &given);
        line.server = Some(asker.server.to_string());
        self.recorder.add(line);
    }
}

#[async_trait]
impl Respondent for Watched<dyn Respondent> {
    async fn elicit(&self, asker: &Asker, question: &Elicitation) -> Response {
        let response = self.inner.elicit(asker, question).await;
        self.given(asker, "elicit", &response);
        response
    }

    async fn may_sample(&self, asker: &Asker, request: &SamplingRequest) -> Response {
        let response = self.inner.may_sample(asker, request).await;
        self.given(asker, "may_sample", &response);
        response
    }

    async fn may_return(&self, asker: &Asker, completion: &Completion) -> Response {
        let response = self.inner.may_return(asker, completion).await;
        self.given(asker, "may_return", &response);
        response
    }
}

#[async_trait]
impl HookRunner for Watched<dyn HookRunner> {
    async fn run(&self, hook: &HookSettings, input: &str) -> Result<Heard, String> {
        let mut ran = Unfinished {
            recorder: &self.recorder,
            ran: Ran {
                hook: hook.origin.to_string(),
                event: hook.event.as_str().to_owned(),
                heard: None,
                text: String::new(),
            },
        };
        let heard = self.inner.run(hook, input).await;
        let (word, text) = match &heard {
            Ok(Heard::Said(text)) => ("said", text),
            Ok(Heard::Blocked(reason)) => ("blocked", reason),
            Err(why) => ("failed", why),
        };
        ran.ran.heard = Some(word.to_owned());
        ran.ran.text.clone_from(text);
        heard
    }
}

/// A hook that is being run; one that takes too long is dropped, and recorded all the same.
struct Unfinished<'a> {
    recorder: &'a Recorder,
    ran: Ran,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.recorder.add(Line::with(Kind::Hook, &self.ran));
    }
}

//! Takes questions of servers to who answers them, one at a time, and writes down how each ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use futures::future::BoxFuture;
use outrigger_connect::{
    Asker, Elicitation, ElicitationAnswer, ElicitationHandler, Handlers, Refusal, Root,
    RootsHandler, SamplingHandler,
};
use outrigger_journal::{DecidedBy, Event, QuestionAnswer, Run};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::sampling::MAX_REQUESTS;
use super::{
    Answers, CallRuns, Passing, Questions, Respondent, Response, Sampler, SamplingRequest,
};
use crate::host::person::Person;

/// Bytes of a question that are recorded.
const RECORDED: usize = 500;

/// What all servers of a host share.
#[derive(Clone)]
pub(crate) struct Clerk {
    questions: Questions,
    run: Run,
    person: Arc<Person>,
    sampled: Arc<AtomicU32>,
    runs: CallRuns,
}

impl Clerk {
    pub(crate) fn new(questions: Questions, run: Run, person: Arc<Person>) -> Self {
        Self {
            questions,
            run,
            person,
            sampled: Arc::default(),
            runs: CallRuns::default(),
        }
    }

    /// Whose run each call belongs to, where that is not the one that was given here.
    pub(crate) fn runs(&self) -> &CallRuns {
        &self.runs
    }

    /// Handlers for one server.
    pub(crate) fn handlers(&self, answers: Answers) -> Handlers {
        let respondent = self.questions.person.as_ref();
        let elicitation = respondent.filter(|_| answers.elicitation).map(|person| {
            let (clerk, person) = (self.clone(), person.clone());
            Arc::new(Elicits { clerk, person }) as Arc<dyn ElicitationHandler>
        });
        let sampling = respondent
            .zip(self.questions.sampler.as_ref())
            .filter(|_| answers.sampling)
            .map(|(person, sampler)| {
                let (clerk, person) = (self.clone(), person.clone());
                let sampler = sampler.clone();
                Arc::new(Samples {
                    clerk,
                    person,
                    sampler,
                }) as Arc<dyn SamplingHandler>
            });
        let roots = (answers.roots && !self.questions.roots.is_empty())
            .then(|| Arc::new(Names(self.clone())) as Arc<dyn RootsHandler>);
        let (sampling, roots) = match &self.questions.passing {
            None => (sampling, roots),
            Some(to) => {
                let (clerk, to) = (self.clone(), to.clone());
                let passes = Arc::new(Passes { clerk, to });
                (
                    answers
                        .sampling
                        .then(|| passes.clone() as Arc<dyn SamplingHandler>),
                    answers.roots.then_some(passes as Arc<dyn RootsHandler>),
                )
            }
        };
        let (clerk, attended) = (self.clone(), respondent.is_some());
        Handlers {
            elicitation,
            sampling,
            roots,
            refused: Some(Arc::new(move |asker, method, why| {
                clerk.refused(asker, method, why, attended);
            })),
            logged: self.questions.logged.clone(),
        }
    }

    /// A question that reaches nobody.
    fn refused(&self, asker: &Asker, method: &str, why: &str, attended: bool) {
        let for_a_person = matches!(method, "elicitation/create" | "sampling/createMessage");
        let by = if for_a_person && !attended {
            DecidedBy::Nobody
        } else {
            DecidedBy::Policy
        };
        let opened = self.open(asker, method, "it was not looked at");
        opened.end(QuestionAnswer::Refused, by, Some(why.to_owned()));
    }

    fn open(&self, asker: &Asker, method: &str, question: &str) -> Opened {
        Opened {
            run: self
                .runs
                .of(asker.caller)
                .unwrap_or_else(|| self.run.clone()),
            server: asker.server.to_string(),
            tool: asker.tool.clone(),
            method: method.to_owned(),
            question: crate::text::shorten(question, RECORDED),
            traceparent: asker.trace.as_ref().map(ToString::to_string),
            began: Instant::now(),
            ended: false,
        }
    }
}

/// A question whose end is to be recorded. Dropped, it has ended without an answer.
struct Opened {
    run: Run,
    server: String,
    tool: Option<String>,
    method: String,
    question: String,
    traceparent: Option<String>,
    began: Instant,
    ended: bool,
}

impl Opened {
    fn end(mut self, answer: QuestionAnswer, by: DecidedBy, reason: Option<String>) {
        self.record(answer, by, reason);
    }

    /// Records a response that is no yes, and gives it back for the server.
    fn refuse(self, response: Response) -> Refused {
        match response {
            Response::Declined => {
                self.end(QuestionAnswer::Declined, DecidedBy::Person, None);
                Refused::Declined
            }
            Response::Yes(_) | Response::Dismissed => {
                self.end(QuestionAnswer::Dismissed, DecidedBy::Person, None);
                Refused::Dismissed
            }
            Response::Unanswered(why) => {
                let reason = Some(why.clone());
                self.end(QuestionAnswer::Refused, DecidedBy::Nobody, reason);
                Refused::Unanswered(Refusal(why))
            }
        }
    }

    fn record(&mut self, answer: QuestionAnswer, by: DecidedBy, reason: Option<String>) {
        self.ended = true;
        self.run.record(Event::QuestionEnded {
            server: std::mem::take(&mut self.server),
            tool: self.tool.take(),
            method: std::mem::take(&mut self.method),
            question: std::mem::take(&mut self.question),
            answer,
            by,
            reason,
            traceparent: self.traceparent.take(),
            took_ms: u64::try_from(self.began.elapsed().as_millis()).ok(),
        });
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.ended {
            let reason = "nobody waits for the answer any more".to_owned();
            self.record(QuestionAnswer::Refused, DecidedBy::Nobody, Some(reason));
        }
    }
}

/// A response that is no yes.
enum Refused {
    Declined,
    Dismissed,
    Unanswered(Refusal),
}

struct Elicits {
    clerk: Clerk,
    person: Arc<dyn Respondent>,
}

impl ElicitationHandler for Elicits {
    fn elicit(
        &self,
        asker: Asker,
        question: Elicitation,
    ) -> BoxFuture<'static, Result<ElicitationAnswer, Refusal>> {
        let words = match &question {
            Elicitation::Form { message, .. } => message.clone(),
            Elicitation::Url { message, url, .. } => format!("{message} ({url})"),
        };
        let opened = self.clerk.open(&asker, "elicitation/create", &words);
        let (desk, person) = (self.clerk.person.clone(), self.person.clone());
        Box::pin(async move {
            let asking = if person.is_one_person() {
                Some(desk.turn().await)
            } else {
                None
            };
            let response = person.elicit(&asker, &question).await;
            drop(asking);
            match response {
                Response::Yes(values) => {
                    opened.end(QuestionAnswer::Given, DecidedBy::Person, None);
                    Ok(ElicitationAnswer::Accept(values))
                }
                other => match opened.refuse(other) {
                    Refused::Declined => Ok(ElicitationAnswer::Decline),
                    Refused::Dismissed => Ok(ElicitationAnswer::Cancel),
                    Refused::Unanswered(refusal) => Err(refusal),
                },
            }
        })
    }

    fn takes_addresses(&self) -> bool {
        true
    }
}

struct Samples {
    clerk: Clerk,
    person: Arc<dyn Respondent>,
    sampler: Arc<dyn Sampler>,
}

impl SamplingHandler for Samples {
    fn sample(
        &self,
        asker: Asker,
        params: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, Refusal>> {
        const METHOD: &str = "sampling/createMessage";
        let (clerk, person) = (self.clerk.clone(), self.person.clone());
        let sampler = self.sampler.clone();
        Box::pin(async move {
            let bounded = SamplingRequest::read(&params).and_then(|request| {
                let before = clerk.sampled.fetch_add(1, Ordering::Relaxed);
                if before < MAX_REQUESTS {
                    return Ok(request);
                }
                let words = format!("the model was asked {MAX_REQUESTS} times in this run already");
                Err(Refusal(words))
            });
            let request = match bounded {
                Ok(request) => request,
                Err(refusal) => {
                    let opened = clerk.open(&asker, METHOD, "it was not put to anybody");
                    let reason = Some(refusal.0.clone());
                    opened.end(QuestionAnswer::Refused, DecidedBy::Policy, reason);
                    return Err(refusal);
                }
            };
            let opened = clerk.open(&asker, METHOD, &request.summary());
            let asking = clerk.person.turn().await;
            let allowed = person.may_sample(&asker, &request).await;
            drop(asking);
            if !matches!(allowed, Response::Yes(_)) {
                return Err(opened.refuse(allowed).into());
            }
            let completion = match sampler.complete(&request).await {
                Ok(completion) => completion,
                Err(why) => {
                    let reason = Some(why.clone());
                    opened.end(QuestionAnswer::Refused, DecidedBy::Policy, reason);
                    return Err(Refusal(why));
                }
            };
            let asking = clerk.person.turn().await;
            let allowed = person.may_return(&asker, &completion).await;
            drop(asking);
            if !matches!(allowed, Response::Yes(_)) {
                return Err(opened.refuse(allowed).into());
            }
            let (read, written) = completion.tokens;
            let cost = format!("{read} tokens in, {written} out");
            opened.end(QuestionAnswer::Given, DecidedBy::Person, Some(cost));
            completion.result()
        })
    }
}

/// Passes questions on to somebody who is connected, as they came.
struct Passes {
    clerk: Clerk,
    to: Arc<dyn Passing>,
}

impl Passes {
    fn pass(
        &self,
        asker: Asker,
        method: &'static str,
        params: Option<Box<RawValue>>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, Refusal>> {
        let opened = self
            .clerk
            .open(&asker, method, "it was passed on as it came");
        let to = self.to.clone();
        Box::pin(async move {
            let answer = to.pass(&asker, method, params.as_deref()).await;
            match &answer {
                Ok(_) => opened.end(QuestionAnswer::Given, DecidedBy::Person, None),
                Err(why) => {
                    let reason = Some(why.0.clone());
                    opened.end(QuestionAnswer::Refused, DecidedBy::Nobody, reason);
                }
            }
            answer
        })
    }
}

impl SamplingHandler for Passes {
    fn sample(
        &self,
        asker: Asker,
        params: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, Refusal>> {
        self.pass(asker, "sampling/createMessage", Some(params))
    }
}

impl RootsHandler for Passes {
    fn roots(&self, asker: Asker) -> BoxFuture<'static, Result<Vec<Root>, Refusal>> {
        #[derive(Deserialize)]
        struct Answer {
            roots: Vec<Named>,
        }
        #[derive(Deserialize)]
        struct Named {
            uri: String,
            #[serde(default)]
            name: Option<String>,
        }
        let passed = self.pass(asker, "roots/list", None);
        Box::pin(async move {
            let answer: Answer = serde_json::from_str(passed.await?.get())
                .map_err(|error| Refusal(format!("the client's roots cannot be read: {error}")))?;
            let root = |Named { uri, name }| Root { uri, name };
            Ok(answer.roots.into_iter().map(root).collect())
        })
    }
}

/// Sampling knows one kind of no (MCP, "Sampling", error -1).
impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Declined => Self("the user said no".to_owned()),
            Refused::Dismissed => Self("the user gave no answer".to_owned()),
            Refused::Unanswered(refusal) => refusal,
        }
    }
}

struct Names(Clerk);

impl RootsHandler for Names {
    fn roots(&self, asker: Asker) -> BoxFuture<'static, Result<Vec<Root>, Refusal>> {
        let roots = self.0.questions.roots.clone();
        let named: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
        let opened = self.0.open(&asker, "roots/list", &named.join(", "));
        opened.end(QuestionAnswer::Given, DecidedBy::Policy, None);
        Box::pin(async { Ok(roots) })
    }
}

//! What servers ask of this side, and who answers: a person, the run's model, configuration.
//!
//! Promises: a question is answered only by whom it is for. A person's no, a person who gives no
//! answer, and nobody at all are three different things, to the server and in the journal. A model
//! is asked only after a person has read what it will be asked, and its answer leaves only after a
//! person has read that. What is not offered is refused politely and recorded.
//! Leaves out: the terminal and the model; both come from outside. Source: MCP, "Elicitation",
//! "Sampling" and "Roots".

mod clerk;
mod runs;
mod sampling;

use std::sync::Arc;

use async_trait::async_trait;
use outrigger_connect::{Asker, Elicitation, OnLogged, Refusal, Root};
use serde_json::value::RawValue;

pub(crate) use clerk::Clerk;
pub(crate) use runs::{CallRun, CallRuns};
pub use sampling::{Completion, SampledMessage, Sampler, SamplingRequest};

/// Who answers the servers of a host. The default answers nothing.
#[derive(Clone, Default)]
pub struct Questions {
    /// Somebody at a terminal. Without, no server is offered anything that a person has to decide.
    pub person: Option<Arc<dyn Respondent>>,
    /// The model of the run, if it has one.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// The folders that a server may work in.
    pub roots: Vec<Root>,
    /// Somebody else who is connected, and answers for a model and folders of their own. Stands in the
    /// place of `sampler` and `roots`.
    pub passing: Option<Arc<dyn Passing>>,
    /// Told of log messages of servers.
    pub logged: Option<OnLogged>,
}

/// Which questions of one server are answered; a person writes that into its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// `elicitation`: a person may be asked.
    pub elicitation: bool,
    /// `sampling`: the run's model may be asked, after the person.
    pub sampling: bool,
    /// `roots`: the workspace is named.
    pub roots: bool,
}

impl Default for Answers {
    /// A person decides about each elicitation; the rest is said without asking or costs money.
    fn default() -> Self {
        Self {
            elicitation: true,
            sampling: false,
            roots: false,
        }
    }
}

/// Somebody, or something, that speaks for a person.
///
/// Questions come one at a time, those of policy among them. No clock of the run counts the time in
/// which one is open. A future that is dropped takes its question back.
#[async_trait]
pub trait Respondent: Send + Sync {
    /// Fills in a form, or decides about visiting a page.
    async fn elicit(&self, asker: &Asker, question: &Elicitation) -> Response;

    /// Whether the run's model may be asked this.
    async fn may_sample(&self, asker: &Asker, request: &SamplingRequest) -> Response;

    /// Whether the server may have what the model said.
    async fn may_return(&self, asker: &Asker, completion: &Completion) -> Response;

    /// Whether there is one person behind it, who is asked one question at a time.
    fn is_one_person(&self) -> bool {
        true
    }
}

/// Somebody to whom servers' questions are passed on as they came.
#[async_trait]
pub trait Passing: Send + Sync {
    /// Asks `sampling/createMessage` or `roots/list`; the answer is the result of that method.
    async fn pass(
        &self,
        asker: &Asker,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, Refusal>;
}

/// What came of a question to a person.
#[derive(Debug, Clone)]
pub enum Response {
    /// Yes; with the values of a form, as a JSON object.
    Yes(Option<Box<RawValue>>),
    /// No.
    Declined,
    /// No answer, by choice.
    Dismissed,
    /// It could not be put, or nobody was there any more; why, worded for the server. Never what a
    /// person chose.
    Unanswered(String),
}

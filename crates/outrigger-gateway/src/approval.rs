//! Who approves what clients want: what a person said earlier about such calls, then the client itself, or
//! whoever looks at the queue, as configured when it is wanted.
//!
//! Promises: a client is told that its request waits, so that it does not give it up, and a request whose
//! client has gone waits no more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outrigger_connect::Progress;
use outrigger_host::approve::{About, Answer, Approver, FetchQuestion, Question, Queue};
use outrigger_host::config::ApprovalWay;
use outrigger_journal::DecidedBy;

use crate::clients::Clients;
use crate::flight::Flight;
use crate::front;

/// How often a client is told that its request waits.
const TOLD: Duration = Duration::from_secs(5);
/// How far a call comes by waiting: less than whatever its server will tell of.
const STEP: f64 = 1e-6;

/// Who approves what clients want. After `earlier`, who is asked is what `[gateway] approvals` says.
pub struct Approvers {
    /// What was said earlier, about calls.
    pub earlier: Arc<dyn Approver>,
    /// Where what they want waits.
    pub queue: Option<Queue>,
}

/// Asks them.
pub(crate) struct Approval {
    clients: Clients,
    approvers: Approvers,
}

impl Approval {
    pub(crate) fn new(clients: Clients, approvers: Approvers) -> Self {
        Self { clients, approvers }
    }

    /// Asks those that are configured, one after the other, while nobody has answered.
    async fn ask_in_turn(&self, about: About<'_>, earlier: Answer) -> Answer {
        let mut answer = earlier;
        let Some(flight) = self.clients.current() else {
            return answer;
        };
        let access = flight.access();
        for way in &access.settings.approvals.value {
            if !answer.is_nobody() {
                break;
            }
            answer = match (way, &self.approvers.queue) {
                (ApprovalWay::Client, _) => {
                    let words = front::words(about);
                    front::approve(&flight, &words).await.by(DecidedBy::Client)
                }
                (ApprovalWay::Queue, Some(queue)) => wait(queue, &flight, about).await,
                (ApprovalWay::Queue, None) => Answer::Nobody,
            };
        }
        answer
    }
}

#[async_trait]
impl Approver for Approval {
    async fn ask(&self, question: Question<'_>) -> Answer {
        let earlier = self.approvers.earlier.ask(question).await;
        self.ask_in_turn(About::Call(question), earlier).await
    }

    async fn ask_fetch(&self, question: FetchQuestion<'_>) -> Answer {
        let about = About::Fetch(question);
        self.ask_in_turn(about, Answer::Nobody).await
    }

    fn is_one_person(&self) -> bool {
        false
    }
}

/// Lets it wait in the queue, while its client is there.
async fn wait(queue: &Queue, flight: &Flight, about: About<'_>) -> Answer {
    let patience = flight.access().settings.approval_timeout.value;
    let waiting = match queue.enter(about, patience).await {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::warn!(%error, "a request cannot wait for its approval");
            return Answer::Nobody;
        }
    };
    tokio::select! {
        answer = waiting.answer() => answer,
        () = flight.abandoned() => Answer::Nobody,
        () = tell(flight, waiting.id()) => Answer::Nobody,
    }
}

/// Tells a client again and again that its request waits.
async fn tell(flight: &Flight, id: &str) {
    let mut told = tokio::time::interval(TOLD);
    let mut progress = 0.0;
    loop {
        told.tick().await;
        progress += STEP;
        flight.progressed(&Progress {
            progress,
            total: None,
            message: Some(format!("waits for a person's approval (`{id}`)")),
        });
    }
}

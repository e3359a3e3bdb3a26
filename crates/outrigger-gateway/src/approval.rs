//! Who approves the calls of clients: what a person said earlier, then the client itself, or whoever
//! looks at the queue, as configured when the call is made.
//!
//! Promises: a client is told that its call waits, so that it does not give it up, and a call whose
//! client has gone waits no more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outrigger_connect::Progress;
use outrigger_host::approve::{Answer, Approver, Question, Queue};
use outrigger_host::config::ApprovalWay;
use outrigger_journal::DecidedBy;

use crate::clients::Clients;
use crate::flight::Flight;
use crate::front;

/// How often a client is told that its call waits.
const TOLD: Duration = Duration::from_secs(5);
/// How far a call comes by waiting: less than whatever its server will tell of.
const STEP: f64 = 1e-6;

/// Who approves the calls of clients. After `earlier`, who is asked is what `[gateway] approvals` says.
pub struct Approvers {
    /// What was said earlier.
    pub earlier: Arc<dyn Approver>,
    /// Where calls wait.
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
}

#[async_trait]
impl Approver for Approval {
    async fn ask(&self, question: Question<'_>) -> Answer {
        let Approvers { earlier, queue } = &self.approvers;
        let mut answer = earlier.ask(question).await;
        let Some(flight) = self.clients.current() else {
            return answer;
        };
        let access = flight.access();
        for way in &access.settings.approvals.value {
            if !answer.is_nobody() {
                break;
            }
            answer = match (way, queue) {
                (ApprovalWay::Client, _) => {
                    let words = front::words(question);
                    front::approve(&flight, &words).await.by(DecidedBy::Client)
                }
                (ApprovalWay::Queue, Some(queue)) => wait(queue, &flight, question).await,
                (ApprovalWay::Queue, None) => Answer::Nobody,
            };
        }
        answer
    }

    fn is_one_person(&self) -> bool {
        false
    }
}

/// Lets a call wait in the queue, while its client is there.
async fn wait(queue: &Queue, flight: &Flight, question: Question<'_>) -> Answer {
    let patience = flight.access().settings.approval_timeout.value;
    let waiting = match queue.enter(question, patience).await {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::warn!(%error, "a call cannot wait for its approval");
            return Answer::Nobody;
        }
    };
    tokio::select! {
        answer = waiting.answer() => answer,
        () = flight.abandoned() => Answer::Nobody,
        () = tell(flight, waiting.id()) => Answer::Nobody,
    }
}

/// Tells a client again and again that its call waits.
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

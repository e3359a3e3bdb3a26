//! From a question to an answer: turns of the model, and between them the calls it asked for.
//!
//! Each turn works with a frozen toolset; what the model is shown of them is only added to. Calls that local policy marks as reading run side by side,
//! all others one after the other in the order asked. Every limit ends the run with a message that
//! says which one it was; being interrupted cancels the calls under way on their servers.

mod calls;
mod declared;
mod prompt;
mod repeats;
mod resume;
mod said;
mod shown;
mod turn;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_host::Host;
use outrigger_journal::{Event, Run, RunStatus, Tokens};
use outrigger_model::{Message, Model, ModelError, Part, Usage};
use tokio_util::sync::CancellationToken;

use self::declared::Declared;
use self::repeats::{Repeats, STUCK_TURNS};
pub use self::resume::{Earlier, NoConversation, RESUME, RunRecord};
use self::shown::Shown;
use crate::estimates::Estimates;

/// How far one question may go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Turns of the model.
    pub turns: u32,
    /// Tool calls.
    pub calls: u32,
    /// Tokens in and out, all turns together.
    pub tokens: Option<u64>,
    /// Time; waiting for a person is not counted.
    pub time: Duration,
}

/// Hears the answer while it is written. For display only.
pub trait Listener: Send + Sync {
    /// More of the model's text. A turn that goes on to call tools has text too.
    fn text(&self, delta: &str);
    /// More of its reasoning.
    fn reasoning(&self, delta: &str);
}

/// A model, the tools of a host, and the record of both.
pub struct Agent {
    /// Answers.
    pub model: Arc<dyn Model>,
    /// Has the tools.
    pub host: Host,
    /// Records.
    pub run: Run,
    /// How far it may go.
    pub limits: Limits,
    /// How its model counts.
    pub estimates: Estimates,
}

/// What came of a question.
#[derive(Debug)]
pub struct Answer {
    /// The model's last words; empty when it had none.
    pub text: String,
    /// How it ended.
    pub ending: Ending,
    /// Turns taken.
    pub turns: u32,
    /// Calls made, refused ones included.
    pub calls: CallCounts,
    /// Tokens of all turns.
    pub usage: Usage,
}

/// How calls ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// All.
    pub proposed: u32,
    /// Sent, and nobody knows what came of them.
    pub unknown: u32,
    /// Not made because a rule asked and nobody was there.
    pub nobody_to_ask: u32,
    /// Among those: repeats of calls whose outcome is unknown, which no rule allows.
    pub repeats: u32,
}

/// How a question ended.
#[derive(Debug)]
pub enum Ending {
    /// With an answer.
    Answered,
    /// With an answer that was cut at the model's limit of output tokens.
    Cut,
    /// At a limit; says which.
    Limited(String),
    /// By the person.
    Interrupted,
    /// The model could not be had.
    Failed(ModelError),
}

/// What was said so far; a chat keeps it between questions.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// In order; the system message is not among them.
    pub messages: Vec<Message>,
    /// Turns of the model so far. They are numbered through.
    pub turns: u32,
    /// What the model was told before and beside them.
    shown: Shown,
}

impl Agent {
    /// Answers one question, and appends what was said to the conversation.
    pub async fn ask(
        &self,
        conversation: &mut Conversation,
        question: &str,
        listener: &dyn Listener,
        cancel: &CancellationToken,
    ) -> Answer {
        let question = vec![Part::text(question)];
        self.ask_with(conversation, question, listener, cancel)
            .await
    }

    /// The same for a question of several parts: what the person typed, and what they attached.
    pub async fn ask_with(
        &self,
        conversation: &mut Conversation,
        content: Vec<Part>,
        listener: &dyn Listener,
        cancel: &CancellationToken,
    ) -> Answer {
        let turn = conversation.turns;
        self.add(conversation, turn, Message::User { content });
        self.go_on(conversation, listener, cancel).await
    }

    /// Answers what was said last.
    async fn go_on(
        &self,
        conversation: &mut Conversation,
        listener: &dyn Listener,
        cancel: &CancellationToken,
    ) -> Answer {
        let mut progress = Progress::new(self, conversation.turns);
        self.host
            .read_at(self.estimates.of(self.model.id()).scale());
        let ending = loop {
            if let Some(limit) = progress.limit_reached() {
                break Ending::Limited(limit);
            }
            // Boxed: a turn holds the state of every call under way.
            match Box::pin(self.turn(conversation, listener, &mut progress, cancel)).await {
                TurnEnd::GoOn => {}
                TurnEnd::Stop(ending) => break ending,
            }
        };
        conversation.turns = progress.number();
        progress.answer(ending)
    }
}

enum TurnEnd {
    GoOn,
    Stop(Ending),
}

/// What a question has used so far.
struct Progress<'a> {
    agent: &'a Agent,
    began: Instant,
    waited_before: Duration,
    turns_before: u32,
    turns: u32,
    text: String,
    calls: CallCounts,
    usage: Usage,
    repeats: Repeats,
    /// Tools of which it was said that the provider is not told of them.
    left_out: HashSet<String>,
    declared: Option<Arc<Declared>>,
}

impl<'a> Progress<'a> {
    fn new(agent: &'a Agent, turns_before: u32) -> Self {
        Self {
            agent,
            began: Instant::now(),
            waited_before: agent.host.waited_for_person(),
            turns_before,
            turns: 0,
            text: String::new(),
            calls: CallCounts::default(),
            usage: Usage::default(),
            repeats: Repeats::default(),
            left_out: HashSet::new(),
            declared: None,
        }
    }

    /// The number of the turn within the conversation.
    fn number(&self) -> u32 {
        self.turns_before + self.turns
    }

    fn limit_reached(&self) -> Option<String> {
        let Limits {
            turns,
            calls,
            tokens,
            ..
        } = self.agent.limits;
        if self.turns >= turns {
            return Some(format!(
                "no answer within {turns} turns (`limits.max_turns`)"
            ));
        }
        if self.calls.proposed >= calls {
            return Some(format!(
                "no answer within {calls} tool calls (`limits.max_calls`)"
            ));
        }
        let spent = self.usage.input + self.usage.output;
        if let Some(tokens) = tokens.filter(|tokens| spent >= *tokens) {
            return Some(format!(
                "no answer within {tokens} tokens (`limits.max_tokens`)"
            ));
        }
        self.time_left().is_zero().then(|| self.out_of_time())
    }

    /// What a model that repeats its failures is ended with.
    fn stuck(tool: &str) -> String {
        format!(
            "the model was stuck: `{tool}` failed again, with the same arguments, {STUCK_TURNS} turns in a row"
        )
    }

    fn out_of_time(&self) -> String {
        format!(
            "no answer within {} s (`limits.max_time`)",
            self.agent.limits.time.as_secs()
        )
    }

    fn time_left(&self) -> Duration {
        let waited = self
            .agent
            .host
            .waited_for_person()
            .saturating_sub(self.waited_before);
        (self.agent.limits.time + waited).saturating_sub(self.began.elapsed())
    }

    /// Returns when the time is over, however long a person takes to answer in between.
    async fn time_over(&self) {
        loop {
            let left = self.time_left();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    fn answer(self, ending: Ending) -> Answer {
        Answer {
            text: self.text,
            ending,
            turns: self.turns,
            calls: self.calls,
            usage: self.usage,
        }
    }
}

/// A provider's count in the journal's terms.
pub(crate) fn tokens(usage: Usage) -> Tokens {
    Tokens {
        input: usage.input,
        cached: usage.cached,
        output: usage.output,
    }
}

/// Milliseconds since `began`.
fn millis_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Answer {
    /// The event that ends the run.
    pub fn run_ended(&self) -> Event {
        let (status, reason) = match &self.ending {
            Ending::Interrupted => (RunStatus::Interrupted, None),
            Ending::Failed(error) => (RunStatus::Failed, Some(error.to_string())),
            Ending::Limited(limit) => (RunStatus::Limited, Some(limit.clone())),
            Ending::Answered | Ending::Cut => self.answered(),
        };
        let answer = (!self.text.is_empty()).then(|| self.text.clone());
        Event::RunEnded {
            status,
            reason,
            answer,
            usage: tokens(self.usage),
        }
    }

    /// How a run with an answer ended. What is not known weighs most.
    fn answered(&self) -> (RunStatus, Option<String>) {
        let CallCounts {
            unknown,
            nobody_to_ask,
            ..
        } = self.calls;
        if unknown > 0 {
            let reason = format!("calls with an unknown outcome: {unknown}");
            return (RunStatus::Unknown, Some(reason));
        }
        if nobody_to_ask > 0 {
            let reason = format!("calls that nobody was there to approve: {nobody_to_ask}");
            return (RunStatus::Refused, Some(reason));
        }
        match self.ending {
            Ending::Cut => {
                let reason = "the model reached its limit of output tokens";
                (RunStatus::Limited, Some(reason.to_owned()))
            }
            _ => (RunStatus::Done, None),
        }
    }
}

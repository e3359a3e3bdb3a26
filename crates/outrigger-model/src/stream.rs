//! What comes back while a model works on a turn.

use std::pin::Pin;

use futures::Stream;
use serde::{Deserialize, Serialize};

use crate::{AssistantTurn, ModelError};

/// The events of one turn. See [`crate::Model::stream`].
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// One event of a turn. All but [`ModelEvent::Finished`] are for display only.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More of the answer's text.
    Text(String),
    /// More of the model's reasoning, where the provider shows it.
    Reasoning(String),
    /// The request is tried again after a failure that was safe to repeat.
    Retrying {
        /// 1 for the first repetition.
        attempt: u32,
        /// How long the wait is.
        wait: std::time::Duration,
        /// What went wrong, for a person.
        reason: String,
    },
    /// The whole turn; always the last event.
    Finished {
        /// Text and calls, complete.
        turn: AssistantTurn,
        /// Why the model stopped. The calls, not this, say whether tools are wanted.
        stop: StopReason,
        /// What it cost.
        usage: Usage,
    },
}

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model was done, or wants its tools called.
    Done,
    /// The provider paused a long turn; it goes on when it is given back what it has said.
    Paused,
    /// The limit of output tokens was reached: the text, or the last call, may be cut.
    Length,
    /// The provider or the model refused to go on.
    Refused,
}

/// Tokens of one turn, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Of those, how many came out of a prompt cache.
    pub cached: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }
}

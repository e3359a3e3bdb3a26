//! Recordings of runs: what crossed the wire, what the model was asked and said, what people and hooks
//! answered, and the configuration it happened under, in a folder that can be sent with a report.
//!
//! | File | What |
//! |---|---|
//! | `manifest.json` | what was run, by which version, where, with which servers and model, how it ended |
//! | `traffic.jsonl` | everything that went out and came, a [`Line`] each, in order |
//! | `configuration.json` | the files as they were read, without comments and secrets |
//! | `configuration.toml` | the configuration as it was meant, for people |
//!
//! Promises: no secret that the journal would not hold is in any of them; headers are not recorded.
//! Leaves out: running it again (`replay`).

mod model;
mod people;
mod recorder;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use outrigger_model::{AssistantTurn, ModelError, ModelErrorKind, ModelEvent, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(crate) use recorder::{Recorder, begin};
pub(crate) use wire::All;

/// Version of what is written here. A changed meaning raises it.
pub(crate) const FORMAT: u32 = 1;

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const TRAFFIC: &str = "traffic.jsonl";
pub(crate) const CONFIGURATION: &str = "configuration.json";
pub(crate) const AS_MEANT: &str = "configuration.toml";

/// What was run, and how it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    /// Of the program.
    pub(crate) version: String,
    pub(crate) recorded_at: Timestamp,
    /// The words after the program's name.
    pub(crate) command: Vec<String>,
    /// The question, also where it came from standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
    pub(crate) workspace: PathBuf,
    /// A person could be asked.
    pub(crate) attended: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<UsedModel>,
    pub(crate) servers: BTreeMap<String, UsedServer>,
    /// The exit code; there is none when the run did not end in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<u8>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UsedModel {
    /// `provider:name`.
    pub(crate) id: String,
    pub(crate) context_tokens: u64,
    pub(crate) sees_images: bool,
    /// The search of tools that its provider has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_search: Option<UsedSearch>,
    /// What its provider had reported before the run: tokens, what was estimated, of how many requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reported: Option<(u64, u64, u32)>,
}

/// A provider's own search of tools.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct UsedSearch {
    pub(crate) most_tools: usize,
    pub(crate) most_entries: usize,
    pub(crate) shows_groups: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct UsedServer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) era: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) protocol_version: Option<String>,
    /// Why it could not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
}

/// The configuration as it was found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) user_dir: Option<PathBuf>,
    pub(crate) managed_dir: Option<PathBuf>,
    pub(crate) managed_file: Option<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) explicit: Vec<PathBuf>,
    /// The project was trusted.
    pub(crate) trusted: bool,
    /// Of the environment, what the files name.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// What the person had approved of servers, and what the project's file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user_lock: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project_lock: Option<String>,
}

/// What a line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A message to a server.
    Sent,
    /// A message of a server.
    Came,
    /// Text of a server that is no message.
    Noise,
    /// A server's side of a connection ended; `text` says why.
    Ended,
    /// An HTTP request was refused or had no answer; `status` says which, `text` why.
    Refused,
    /// A request to the model.
    ModelAsked,
    /// What came back.
    ModelSaid,
    /// A person was asked about a call, or had said something earlier.
    Approval,
    /// A person was asked something by a server.
    Answer,
    /// A hook was run.
    Hook,
    /// The run ended; what follows is its tidying up.
    Closing,
}

/// A line of the traffic.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    /// From 1, without gaps.
    pub(crate) seq: u64,
    /// Milliseconds since the recording began.
    pub(crate) ms: u64,
    pub(crate) kind: Kind,
    /// Of a request to the model: its number, which its answer has too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// Counts the connections of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<String>,
    /// Of HTTP: what belongs to one request has one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exchange: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The message, or what else is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Box<RawValue>>,
}

impl Line {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            seq: 0,
            ms: 0,
            kind,
            number: None,
            server: None,
            link: None,
            transport: None,
            exchange: None,
            status: None,
            text: None,
            body: None,
        }
    }

    pub(crate) fn with(kind: Kind, body: &impl Serialize) -> Self {
        Self {
            body: serde_json::value::to_raw_value(body).ok(),
            ..Self::new(kind)
        }
    }
}

/// A request to the model. What is as it was in the request before is not told again.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ModelAsked {
    /// How many messages at the beginning are as before.
    pub(crate) same_messages: usize,
    pub(crate) messages: Vec<outrigger_model::Message>,
    /// `None`: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<outrigger_model::ToolDeclaration>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u32>,
}

/// What a model said to one request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ModelSaid {
    pub(crate) events: Vec<Said>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failed>,
}

/// A [`ModelEvent`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    Text(String),
    Reasoning(String),
    Retrying {
        attempt: u32,
        wait_ms: u64,
        reason: String,
    },
    Finished {
        turn: AssistantTurn,
        stop: StopReason,
        usage: Usage,
    },
}

/// A [`ModelError`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
}

impl From<&ModelEvent> for Said {
    fn from(event: &ModelEvent) -> Self {
        match event.clone() {
            ModelEvent::Text(text) => Self::Text(text),
            ModelEvent::Reasoning(text) => Self::Reasoning(text),
            ModelEvent::Retrying {
                attempt,
                wait,
                reason,
            } => Self::Retrying {
                attempt,
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                reason,
            },
            ModelEvent::Finished { turn, stop, usage } => Self::Finished { turn, stop, usage },
        }
    }
}

impl From<Said> for ModelEvent {
    fn from(said: Said) -> Self {
        match said {
            Said::Text(text) => Self::Text(text),
            Said::Reasoning(text) => Self::Reasoning(text),
            Said::Retrying {
                attempt,
                wait_ms,
                reason,
            } => Self::Retrying {
                attempt,
                wait: std::time::Duration::from_millis(wait_ms),
                reason,
            },
            Said::Finished { turn, stop, usage } => Self::Finished { turn, stop, usage },
        }
    }
}

/// The names of [`ModelErrorKind`].
const KINDS: [(&str, ModelErrorKind); 7] = [
    ("unauthorized", ModelErrorKind::Unauthorized),
    (
        "rate_limited",
        ModelErrorKind::RateLimited { retry_after: None },
    ),
    ("unavailable", ModelErrorKind::Unavailable),
    ("context_too_long", ModelErrorKind::ContextTooLong),
    ("rejected", ModelErrorKind::Rejected),
    ("interrupted", ModelErrorKind::Interrupted),
    ("malformed", ModelErrorKind::Malformed),
];

impl From<&ModelError> for Failed {
    fn from(error: &ModelError) -> Self {
        let same = |kind: &ModelErrorKind| {
            std::mem::discriminant(kind) == std::mem::discriminant(&error.kind)
        };
        let named = KINDS.iter().find(|(_, kind)| same(kind));
        Self {
            kind: named.map_or("malformed", |(name, _)| name).to_owned(),
            message: error.message.clone(),
            hints: error.hints.clone(),
        }
    }
}

impl Failed {
    /// As the model of this id would have told it.
    pub(crate) fn of(self, model: &str) -> ModelError {
        let named = KINDS.iter().find(|(name, _)| *name == self.kind);
        ModelError {
            kind: named.map_or(ModelErrorKind::Malformed, |(_, kind)| *kind),
            model: model.to_owned(),
            message: self.message,
            hints: self.hints,
        }
    }
}

/// What was asked about a call, and the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Approval {
    pub(crate) tool: String,
    pub(crate) arguments: String,
    pub(crate) rule: String,
    pub(crate) answer: Word,
    /// The grant, or the person's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) with: Option<String>,
}

/// The answer to a question of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Once,
    Session,
    Granted,
    No,
    Nobody,
}

/// What a server asked of a person, and the answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Given {
    /// `elicit`, `may_sample`, `may_return`.
    pub(crate) about: String,
    /// `yes`, `declined`, `dismissed`, `unanswered`.
    pub(crate) answer: String,
    /// The values of a form, or why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) with: Option<Box<RawValue>>,
}

/// A run of a hook.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// Where it is configured.
    pub(crate) hook: String,
    pub(crate) event: String,
    /// `said`, `blocked` or `failed`; what gave no answer in time has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heard: Option<String>,
    #[serde(default)]
    pub(crate) text: String,
}

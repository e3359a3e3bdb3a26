//! The one vocabulary of what happens in a run. The live display, `--json`, the journal and later
//! exporters all read it. Events are facts: their names and fields are stable; a changed meaning
//! raises [`VERSION`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::RunId;

mod read;

/// Version of this vocabulary, written with every event.
pub const VERSION: u32 = 1;

/// An event as recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    /// [`VERSION`] of the program that wrote it.
    pub v: u32,
    /// Position within its run, from 1, without gaps.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// Its run.
    pub run: RunId,
    /// What happened.
    pub event: Event,
}

/// What can happen. Calls are numbered within their run, from 1; turns too.
///
/// Read with `serde_json` only: JSON values keep their exact text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", remote = "Self")]
pub enum Event {
    /// A run began; always the first event.
    RunStarted {
        /// `ask`, `call`, …
        command: String,
        /// The question, for runs that have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// `provider:name`, for runs that use a model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The folder that the run is bound to.
        workspace: String,
        /// Version of the program.
        version: String,
    },
    /// A server is connected and listed.
    ServerReady {
        /// Configured name.
        server: String,
        /// `modern` or `legacy`.
        era: String,
        /// Protocol version agreed on.
        protocol_version: String,
        /// Tools that can be used.
        tools: u64,
        /// Estimated tokens that their declarations cost in each request.
        tokens: u64,
        /// Milliseconds from start to listed.
        took_ms: u64,
    },
    /// A server could not be connected, or was set aside.
    ServerFailed {
        /// Configured name.
        server: String,
        /// How far it came: `config`, `start`, `handshake`, `list`; `call` when it was ready before.
        stage: String,
        /// One sentence.
        error: String,
        /// What a person could do.
        hints: Vec<String>,
        /// Last lines of its standard error.
        stderr_tail: Vec<String>,
    },
    /// A connection ended while the run went on.
    ServerEnded {
        /// Configured name.
        server: String,
        /// Why.
        reason: String,
    },
    /// A server does something that it should not, and is used all the same.
    ServerWarned {
        /// Configured name.
        server: String,
        /// One sentence.
        warning: String,
    },
    /// One tool definition was set aside; its server lives.
    ToolSetAside {
        /// Configured name of the server.
        server: String,
        /// The tool's own name, or its position when it has none.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A server asked something of this side, and that has ended: answered or not.
    QuestionEnded {
        /// Configured name of the server.
        server: String,
        /// The tool whose call the question belongs to, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or what the server made up.
        method: String,
        /// What it wanted, in its own words or in ours. What a person typed is not recorded.
        question: String,
        /// How it ended.
        answer: QuestionAnswer,
        /// Who had the last word: a person, configuration, or nobody.
        by: DecidedBy,
        /// More about that, for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Somebody wanted the messages of a prompt; how that ended.
    PromptFetched {
        /// Configured name of the server.
        server: String,
        /// The server's name for the prompt.
        prompt: String,
        /// What it was told.
        arguments: BTreeMap<String, String>,
        /// `person` or `model`.
        asked_by: String,
        /// Who had the last word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<DecidedBy>,
        /// The rule that decided, as a person would find it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// How it ended.
        outcome: OutcomeKind,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Bytes of its content.
        bytes: u64,
        /// Milliseconds from sending to the end; 0 when nothing was sent.
        took_ms: u64,
    },
    /// Somebody wanted to read a resource; how that ended.
    ResourceRead {
        /// Configured name of the server.
        server: String,
        /// Its address.
        uri: String,
        /// `person` or `model`.
        asked_by: String,
        /// Who had the last word; absent for a model, whose call was decided about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<DecidedBy>,
        /// The rule that decided, as a person would find it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// How it ended.
        outcome: OutcomeKind,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Bytes of its content.
        bytes: u64,
        /// Milliseconds from sending to the end; 0 when nothing was sent.
        took_ms: u64,
    },
    /// The person said something, in a run that goes on from answer to answer.
    PersonSaid {
        /// What was typed.
        text: String,
    },
    /// A turn began with a frozen toolset.
    TurnStarted {
        /// Number of the turn.
        turn: u32,
        /// Revision of the catalog that the toolset was taken from.
        revision: u64,
        /// Tools put before the model.
        tools: u64,
        /// Estimated tokens of their declarations.
        tokens: u64,
    },
    /// A request to the model is tried again.
    ModelRetry {
        /// Number of the turn.
        turn: u32,
        /// 1 for the first repetition.
        attempt: u32,
        /// Milliseconds until then.
        wait_ms: u64,
        /// What went wrong.
        reason: String,
    },
    /// The model finished a turn.
    ModelAnswered {
        /// Number of the turn.
        turn: u32,
        /// Its text, possibly empty.
        text: String,
        /// How many calls it asked for.
        calls: u64,
        /// Tokens, as the provider counted them.
        usage: Tokens,
        /// Milliseconds.
        took_ms: u64,
    },
    /// A call was asked for. Nothing has been checked.
    CallProposed {
        /// Number of the call.
        call: u32,
        /// Turn that asked for it, for runs with a model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        /// Model-facing name, as written.
        tool: String,
        /// Arguments as written; JSON text where they were JSON.
        arguments: String,
    },
    /// The call was checked against toolset and schema and may be decided about.
    CallPrepared {
        /// Number of the call.
        call: u32,
        /// Configured name of the server.
        server: String,
        /// The tool's own name.
        raw_tool: String,
        /// The arguments that will be sent.
        arguments: Box<RawValue>,
        /// What was repaired, in words.
        repairs: Vec<String>,
    },
    /// Policy, and where it asked also somebody, decided.
    CallDecided {
        /// Number of the call.
        call: u32,
        /// Whether it may run.
        allowed: bool,
        /// The rule that decided, as a person would find it.
        rule: String,
        /// Who had the last word.
        by: DecidedBy,
        /// The reason given with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A hook was run. What it changed of a call's arguments follows as another `call_prepared`.
    HookRan {
        /// Number of the call, for hooks about calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<u32>,
        /// When: `before_call`, `after_call`, `session_start`, `session_end`.
        event: String,
        /// Where it is configured, as `FILE:LINE`.
        hook: String,
        /// What it said.
        said: HookSaid,
        /// Whether it changed arguments, or what the model reads.
        changed: bool,
        /// The reason it gave, or why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Milliseconds.
        took_ms: u64,
    },
    /// The call is about to be sent. Durable before its first byte leaves.
    CallIntent {
        /// Number of the call.
        call: u32,
    },
    /// The one end of a call.
    CallEnded {
        /// Number of the call.
        call: u32,
        /// How it ended.
        outcome: OutcomeKind,
        /// The server's own `isError`, for completed calls.
        is_error: bool,
        /// One line for a person.
        summary: String,
        /// The answer as it came, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
        /// Estimated tokens of what the model reads of it, unless a hook changes that afterwards.
        tokens: u64,
        /// Milliseconds from sending to the end; 0 when nothing was sent.
        took_ms: u64,
    },
    /// An answer to a call that had already ended as unknown.
    LateAnswer {
        /// Number of the call.
        call: u32,
        /// What is known now.
        outcome: OutcomeKind,
        /// One line for a person.
        summary: String,
        /// The answer as it came, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
    },
    /// The run ended; always the last event.
    RunEnded {
        /// How.
        status: RunStatus,
        /// Why, where it is not plain success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The answer, for runs that have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// Tokens of all turns.
        usage: Tokens,
    },
}

/// Tokens read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read, cached ones included.
    pub input: u64,
    /// Of those, out of a prompt cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

/// Who had the last word about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A rule, or the default, alone.
    Policy,
    /// A person, asked because of a rule.
    Person,
    /// What a person had said about such calls earlier.
    Grant,
    /// Nobody: a rule asked and there was nobody to answer.
    Nobody,
    /// A hook: it said no, or yes where a rule asked.
    Hook,
}

/// What a hook said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookSaid {
    /// Nothing about whether to go on.
    Nothing,
    /// The call may run, as far as rules ask.
    Allow,
    /// A person is to be asked.
    Ask,
    /// No.
    Deny,
    /// It gave no answer that can be read, in time; that counts as no.
    Failed,
}

impl HookSaid {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
            Self::Failed => "failed",
        }
    }
}

/// How a question of a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// The server was given what it asked for.
    Given,
    /// A person said no.
    Declined,
    /// A person gave no answer, and said so.
    Dismissed,
    /// Not answered: it is not offered, nobody was there, or nobody waits any more.
    Refused,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The server answered.
    Completed,
    /// Never sent: unknown tool, bad arguments, denied, nobody to ask.
    Rejected,
    /// Not sent: the server was not there.
    NotSent,
    /// Sent, no answer; whether it took effect is not known.
    Unknown,
    /// Answered, against the server's own contract.
    Violated,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With an answer or a result.
    Done,
    /// Without; the reason says why.
    Failed,
    /// At a limit (turns, calls, tokens, time).
    Limited,
    /// Refused: policy, or nobody to ask. There may be an answer all the same.
    Refused,
    /// The outcome of a call is unknown. There may be an answer all the same.
    Unknown,
    /// By the person.
    Interrupted,
}

impl OutcomeKind {
    /// All there are.
    pub(crate) const ALL: [Self; 5] = [
        Self::Completed,
        Self::Rejected,
        Self::NotSent,
        Self::Unknown,
        Self::Violated,
    ];

    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Rejected => "rejected",
            Self::NotSent => "not_sent",
            Self::Unknown => "unknown",
            Self::Violated => "violated",
        }
    }
}

impl QuestionAnswer {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Declined => "declined",
            Self::Dismissed => "dismissed",
            Self::Refused => "refused",
        }
    }
}

impl RunStatus {
    /// All there are.
    pub(crate) const ALL: [Self; 6] = [
        Self::Done,
        Self::Failed,
        Self::Limited,
        Self::Refused,
        Self::Unknown,
        Self::Interrupted,
    ];

    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Interrupted => "interrupted",
        }
    }
}

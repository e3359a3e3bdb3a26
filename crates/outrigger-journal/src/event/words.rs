//! The words that events use for who decided, what was said, and how things ended. Each is stored and
//! shown as it is spelled here.

use serde::{Deserialize, Serialize};

/// Who had the last word about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A rule, or the default, alone.
    Policy,
    /// A person, asked because of a rule.
    Person,
    /// The same, asked at the client whose call it is.
    Client,
    /// The same, with `outrigger approvals`.
    Command,
    /// The same, on the page of a gateway.
    Page,
    /// What a person had said about such calls earlier.
    Grant,
    /// Nobody: a rule asked and there was nobody to answer.
    Nobody,
    /// A hook: it said no, or yes where a rule asked.
    Hook,
}

impl DecidedBy {
    /// Those who decide about what waits.
    pub(crate) const QUEUE: [Self; 2] = [Self::Command, Self::Page];

    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Person => "person",
            Self::Client => "client",
            Self::Command => "command",
            Self::Page => "page",
            Self::Grant => "grant",
            Self::Nobody => "nobody",
            Self::Hook => "hook",
        }
    }
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

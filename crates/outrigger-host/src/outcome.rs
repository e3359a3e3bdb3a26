//! How a call ends. Exactly one of these is written for every proposed call.

use std::time::Duration;

use outrigger_connect::ServerName;
use outrigger_journal::OutcomeKind;

use crate::pipeline::Repeat;
use crate::result::ToolResult;
use crate::schema::Violation;

/// The end of a call, by what is known to have happened.
#[derive(Debug)]
pub enum CallOutcome {
    /// The server answered; its `isError` is data for the model.
    Completed(Box<ToolResult>),
    /// Never sent: it could not be, or was not allowed.
    Rejected(Rejection),
    /// Not sent: the server was not there. Nothing left this process.
    NotSent(String),
    /// Sent, no answer. It may have taken effect.
    Unknown(UnknownReason),
    /// Answered, against its own contract. The answer is kept in the journal and shown to nobody.
    Violated(ContractViolation),
}

/// Why a call was never sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// No tool of that name in this turn's toolset.
    UnknownTool {
        /// The name as written.
        name: String,
        /// Names that are near.
        nearest: Vec<String>,
    },
    /// The arguments are not a JSON object.
    NotAnObject {
        /// What they are, or what the parser said.
        reason: String,
    },
    /// The arguments do not fit the tool's input schema.
    BadArguments {
        /// Where and why, the first few.
        violations: Vec<Violation>,
    },
    /// A handle in the arguments names no artifact that this run may use, or one that cannot be read.
    NoArtifact {
        /// As written.
        handle: String,
        /// Why.
        reason: String,
    },
    /// The tool broke its contract too often in this run.
    SetAside {
        /// How.
        reason: String,
    },
    /// A rule denied it.
    Denied {
        /// The rule.
        rule: String,
        /// The reason written with the rule.
        reason: Option<String>,
    },
    /// A hook said no, or gave no answer.
    Hook {
        /// The hook, as a person would find it.
        hook: String,
        /// Its reason, or why it failed.
        reason: String,
    },
    /// A person said no.
    Declined {
        /// What they said with it.
        reason: Option<String>,
    },
    /// A rule asked, and there was nobody to answer. Never "the user declined".
    NobodyToAsk {
        /// The rule.
        rule: String,
    },
    /// It was made before, nobody knows what came of it, and there was nobody to say that it may be
    /// made again.
    Repeats(Repeat),
    /// The tool's definition is no longer the one that was shown.
    Changed,
    /// The tool's definition is no longer the one that was approved, and a person has to look first.
    HeldBack,
    /// The run was cancelled before anything was sent.
    Cancelled,
    /// The intent could not be made durable, so nothing was sent.
    NotRecorded {
        /// What the journal said.
        reason: String,
    },
}

/// Why an outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownReason {
    /// No answer within the deadline.
    Deadline(Duration),
    /// The connection ended.
    ConnectionLost(String),
    /// The server did not finish it: it wanted input that nobody gave, or gave its task up.
    Unfinished(String),
    /// The caller gave up.
    Cancelled,
    /// What an earlier run wrote down.
    Earlier(String),
}

/// How a server broke its own contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractViolation {
    /// The server.
    pub server: ServerName,
    /// The tool's own name.
    pub tool: String,
    /// What is wrong, with the JSON pointer where there is one.
    pub what: String,
    /// The JSON pointer (RFC 6901) into the structured content, to the first place that is wrong.
    pub pointer: Option<String>,
}

impl CallOutcome {
    /// The word for the ledger.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Self::Completed(_) => OutcomeKind::Completed,
            Self::Rejected(_) => OutcomeKind::Rejected,
            Self::NotSent(_) => OutcomeKind::NotSent,
            Self::Unknown(_) => OutcomeKind::Unknown,
            Self::Violated(_) => OutcomeKind::Violated,
        }
    }

    /// Whether the model should read it as something that went wrong.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Completed(result) => result.is_error,
            _ => true,
        }
    }
}

impl Rejection {
    /// Whether policy, a hook, a pin, a person or nobody refused it: the cases of exit code 3.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Denied { .. }
                | Self::Hook { .. }
                | Self::Declined { .. }
                | Self::NobodyToAsk { .. }
                | Self::Repeats(_)
                | Self::HeldBack
        )
    }
}

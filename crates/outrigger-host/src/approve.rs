//! Asking somebody whether a call may run, or whether a client may have a prompt or resource.

mod queue;

use std::sync::OnceLock;

use async_trait::async_trait;
use outrigger_connect::ServerName;
use outrigger_journal::{DecidedBy, Run};

use crate::artifact::Given;
use crate::catalog::CatalogTool;
use crate::pins::ServerIdentity;
pub use crate::pipeline::{Repeat, RepeatKey};
use crate::policy::{OfferKind, Principal};

pub use queue::{Queue, Waiting};

/// Somebody, or something, that answers for a person.
///
/// Questions come one at a time, also when calls run in parallel; the call's clock does not run
/// while the answer is awaited.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Whether this call may run.
    async fn ask(&self, question: Question<'_>) -> Answer;

    /// Whether a client of the gateway may have this prompt or resource. Who fetches by hand is not asked,
    /// so that there is nobody unless an approver says otherwise. Nothing is said about those to come.
    async fn ask_fetch(&self, _: FetchQuestion<'_>) -> Answer {
        Answer::Nobody
    }

    /// Whether there is one person behind it, who is asked one question at a time.
    fn is_one_person(&self) -> bool {
        true
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The run.
    pub run: &'a Run,
    /// Number of the call within it.
    pub call: u32,
    /// Who wants it.
    pub principal: Principal,
    /// The tool.
    pub tool: &'a CatalogTool,
    /// Its server; `None` for one of ours.
    pub server: Option<&'a ServerIdentity>,
    /// The arguments as they would be sent, with the handles of artifacts in the places of their
    /// contents: JSON text.
    pub arguments: &'a str,
    /// The same with the whole digest of each artifact, for what is said about calls to come.
    pub exact: &'a str,
    /// The artifacts whose contents would be sent.
    pub artifacts: &'a [Given],
    /// The rule that wants to know.
    pub rule: &'a str,
    /// What was said before does not answer this one.
    pub anew: bool,
    /// The earlier call that it repeats, and whose outcome is unknown.
    pub repeats: Option<&'a Repeat>,
}

/// What is asked about a prompt or resource that a client wants.
#[derive(Debug, Clone, Copy)]
pub struct FetchQuestion<'a> {
    /// The run.
    pub run: &'a Run,
    /// Who wants it.
    pub principal: Principal,
    /// Which of the two it is.
    pub kind: OfferKind,
    /// Whose.
    pub server: &'a ServerName,
    /// What that is; `None` for one of ours.
    pub identity: Option<&'a ServerIdentity>,
    /// The server's name for the prompt, or the address of the resource.
    pub name: &'a str,
    /// What the prompt is told: a JSON object, empty for a resource.
    pub arguments: &'a str,
    /// The rule that wants to know.
    pub rule: &'a str,
    /// Takes what it is called while it waits, so that this is known also when the question is dropped.
    pub waits_as: &'a OnceLock<String>,
}

/// What somebody may be asked about.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// A call.
    Call(Question<'a>),
    /// A prompt or resource.
    Fetch(FetchQuestion<'a>),
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This call may run.
    Once,
    /// This call, and later ones of the same tool as it is defined now, until the program ends.
    Session,
    /// This call may run, because of what was said earlier ([`grants`](crate::grants)).
    Granted {
        /// What was said, as a person would find it.
        grant: String,
    },
    /// It may not.
    No {
        /// Words for the model.
        reason: Option<String>,
    },
    /// A person somewhere else, or nobody in the end.
    Decided {
        /// Whether it may run.
        allowed: bool,
        /// Where it was decided, or [`DecidedBy::Nobody`].
        by: DecidedBy,
        /// Words for the model, or what else was decided with it.
        reason: Option<String>,
    },
    /// There is nobody to ask.
    Nobody,
}

impl Answer {
    /// The same yes or no about one call, given there.
    #[must_use]
    pub fn by(self, by: DecidedBy) -> Self {
        let (allowed, reason) = match self {
            Self::Once => (true, None),
            Self::No { reason } => (false, reason),
            other => return other,
        };
        Self::Decided {
            allowed,
            by,
            reason,
        }
    }

    /// Whether it is a yes, who is to be named for it, and what words there are.
    pub(crate) fn heard(self) -> (bool, DecidedBy, Option<String>) {
        match self {
            Self::Once | Self::Session => (true, DecidedBy::Person, None),
            Self::Granted { grant } => (true, DecidedBy::Grant, Some(grant)),
            Self::No { reason } => (false, DecidedBy::Person, reason),
            Self::Decided {
                allowed,
                by,
                reason,
            } => (allowed, by, reason),
            Self::Nobody => (false, DecidedBy::Nobody, None),
        }
    }

    /// Nobody has answered.
    pub fn is_nobody(&self) -> bool {
        matches!(
            self,
            Self::Nobody
                | Self::Decided {
                    by: DecidedBy::Nobody,
                    ..
                }
        )
    }
}

impl<'a> About<'a> {
    /// The run that it is part of.
    pub fn run(self) -> &'a Run {
        match self {
            Self::Call(question) => question.run,
            Self::Fetch(question) => question.run,
        }
    }
}

/// An approver for runs without a person.
#[derive(Debug, Clone, Copy)]
pub struct NobodyThere;

#[async_trait]
impl Approver for NobodyThere {
    async fn ask(&self, _: Question<'_>) -> Answer {
        Answer::Nobody
    }
}

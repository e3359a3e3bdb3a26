//! What waits until a person decides, calls and what clients want fetched: the queue of approvals, which any
//! program that opens the journal sees.
//!
//! Promises: what was asked never changes; it is decided once and used once, by compare-and-set, so of
//! two who decide one wins, and a yes that comes when nobody waits any more approves nothing. Whoever
//! waits asks for what was decided; nothing is pushed. Leaves out: who may decide.

use std::sync::Arc;

use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::journal::Shared;
use crate::writer::Command;
use crate::{DecidedBy, Journal, JournalError, Run, RunId};

mod table;

pub(crate) use table::{decided, end_all, list, named, work};

/// How often an id that is taken is replaced by another one.
const IDS_TRIED: u32 = 16;

/// What a person is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalSubject {
    /// Whether a call may run: its number within its run.
    Call(u32),
    /// Whether the messages of a prompt may be fetched.
    Prompt,
    /// Whether a resource may be read.
    Resource,
}

/// What is asked about what waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AskedApproval {
    /// What about.
    #[serde(flatten)]
    pub subject: ApprovalSubject,
    /// When it ends by itself, microseconds exact.
    pub until: Timestamp,
    /// Configured name of the server.
    pub server: String,
    /// The server's name and identity, as grants name it.
    pub identity: String,
    /// Model-facing name of the tool; the name of the prompt, or the address of the resource.
    pub tool: String,
    /// The server's own name for it.
    pub raw_tool: String,
    /// Fingerprint of the tool's definition; empty where it is no call.
    pub definition: String,
    /// The arguments as they would be sent: JSON text; `{}` for a resource.
    pub arguments: String,
    /// The rule that asks.
    pub rule: String,
    /// Who wants it.
    pub principal: String,
    /// What else a person should know, a sentence each.
    pub remarks: Vec<String>,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// For somebody to decide.
    Waiting,
    /// A person said yes; whoever waits has not taken it yet.
    Approved,
    /// A person said no.
    Declined,
    /// What waited went on with that yes.
    Used,
    /// Nobody decided in time, or nobody waited any more.
    Expired,
}

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Whether it may go on.
    pub allowed: bool,
    /// Where it was decided: [`DecidedBy::Command`] or [`DecidedBy::Page`].
    pub by: DecidedBy,
    /// Words for whoever wanted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Calls to come are allowed too: which arguments, as a person types them, and for how many
    /// seconds. Refused where it is no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remember: Option<(String, u64)>,
}

/// Something that was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Approval {
    /// Its name, eight hexadecimal digits.
    pub id: String,
    /// The run that it is part of.
    pub run: RunId,
    /// What was asked.
    #[serde(flatten)]
    pub asked: AskedApproval,
    /// When it was asked.
    pub at: Timestamp,
    /// How far it has come.
    pub state: ApprovalState,
    /// What was decided, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Timestamp>,
    /// When whoever waited took note, or nobody waited any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Timestamp>,
    /// The grant that came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<String>,
}

/// What the writer is asked to do. Each comes to whether it changed anything.
pub(crate) enum ApprovalWork {
    /// Note what waits. Changes nothing when the id is taken.
    Ask {
        id: String,
        run: RunId,
        at: Timestamp,
        asked: Box<AskedApproval>,
    },
    /// Decide about what waits at this time.
    Decide {
        id: String,
        at: Timestamp,
        decision: Box<Decision>,
    },
    /// Take what was approved.
    Use {
        id: String,
        at: Timestamp,
        granted: Option<String>,
    },
    /// Nobody waits any more, or a no was taken note of.
    Close { id: String, at: Timestamp },
}

/// While what waits is on its way to the disk. Dropped then, nobody waits for it.
struct Asking<'a> {
    approvals: &'a Approvals,
    id: &'a str,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.approvals.close(self.id);
    }
}

/// The queue of a journal; clones share it.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
}

impl ApprovalSubject {
    /// The number of the call, where it is one.
    pub fn call(self) -> Option<u32> {
        match self {
            Self::Call(call) => Some(call),
            Self::Prompt | Self::Resource => None,
        }
    }

    /// The word that is stored and shown.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// Why nothing can be said with a yes about those to come; `None` where it can.
    pub fn only_once(self) -> Option<String> {
        let kind = self.kind();
        let words = || format!("a {kind} is allowed once: nothing can be said about those to come");
        self.call().is_none().then(words)
    }

    /// What is stored with this word.
    pub(crate) fn stored(kind: &str, call: Option<u32>) -> Option<Self> {
        match (kind, call) {
            ("call", Some(call)) => Some(Self::Call(call)),
            ("prompt", None) => Some(Self::Prompt),
            ("resource", None) => Some(Self::Resource),
            _ => None,
        }
    }
}

/// A call is known by its `call`, all else by its `kind`.
impl Serialize for ApprovalSubject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.call() {
            Some(call) => map.serialize_entry("call", &call)?,
            None => map.serialize_entry("kind", self.kind())?,
        }
        map.end()
    }
}

impl ApprovalState {
    /// All there are.
    pub(crate) const ALL: [Self; 5] = [
        Self::Waiting,
        Self::Approved,
        Self::Declined,
        Self::Used,
        Self::Expired,
    ];

    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Declined => "declined",
            Self::Used => "used",
            Self::Expired => "expired",
        }
    }
}

impl Approval {
    /// Whether somebody can decide about it at this time.
    pub fn waits(&self, now: Timestamp) -> bool {
        self.state == ApprovalState::Waiting && now < self.asked.until
    }
}

impl Journal {
    /// What waits for a person.
    pub fn approvals(&self) -> Approvals {
        Approvals {
            shared: self.shared(),
        }
    }
}

impl Approvals {
    /// Notes that something of `run`, which is this program's, waits; its id, as soon as that is on disk.
    /// The run's secrets are taken out before. Dropped earlier, it does not wait.
    pub async fn ask(&self, run: &Run, mut asked: AskedApproval) -> Result<String, JournalError> {
        redact(run, &mut asked);
        for remark in &mut asked.remarks {
            // They are kept a line each.
            *remark = remark.replace('\n', " ");
        }
        for _ in 0..IDS_TRIED {
            let random = getrandom::u32().map_err(|error| {
                JournalError::io(&self.shared.path, &std::io::Error::other(error))
            })?;
            let id = format!("{random:08x}");
            let work = ApprovalWork::Ask {
                id: id.clone(),
                run: run.id().clone(),
                at: crate::run::now(),
                asked: Box::new(asked.clone()),
            };
            let asking = Asking {
                approvals: self,
                id: &id,
            };
            let asked = self.shared.approval(work).await;
            std::mem::forget(asking);
            if asked? {
                return Ok(id);
            }
        }
        Err(JournalError::Unusable {
            path: self.shared.path.clone(),
            reason: "no id is free for what waits".to_owned(),
        })
    }

    /// Decides about what waits; false when it does not wait any more, or somebody else was first.
    pub async fn decide(&self, id: &str, decision: Decision) -> Result<bool, JournalError> {
        let work = ApprovalWork::Decide {
            id: id.to_owned(),
            at: crate::run::now(),
            decision: Box::new(decision),
        };
        self.shared.approval(work).await
    }

    /// Takes a yes, for what waited for it; false when it is none any more. With the grant that came of it.
    pub async fn take(&self, id: &str, granted: Option<String>) -> Result<bool, JournalError> {
        let work = ApprovalWork::Use {
            id: id.to_owned(),
            at: crate::run::now(),
            granted,
        };
        self.shared.approval(work).await
    }

    /// Nobody waits for it any more, or its no was heard. Does not wait for the disk: who does not wait
    /// cannot be answered anyhow.
    pub fn close(&self, id: &str) {
        let work = ApprovalWork::Close {
            id: id.to_owned(),
            at: crate::run::now(),
        };
        let (answer, _) = oneshot::channel();
        self.shared.send(Command::Approval(work, answer));
    }

    /// Those that wait, the earliest first, then so many others, the latest first. What waits may have
    /// ended by itself: see [`Approval::waits`].
    pub async fn list(&self, others: u32) -> Result<Vec<Approval>, JournalError> {
        let read = move |records: &dyn crate::store::Records| records.approvals(others);
        self.shared.read(read).await
    }

    /// The one with this id, or whose id alone begins so; `None` when there is none, or several.
    pub async fn find(&self, id: &str) -> Result<Option<Approval>, JournalError> {
        let begins = id.trim().to_ascii_lowercase();
        if begins.is_empty() {
            return Ok(None);
        }
        let read = move |records: &dyn crate::store::Records| records.approvals_named(&begins, 2);
        let mut found = self.shared.read(read).await?;
        Ok(if found.len() == 1 { found.pop() } else { None })
    }

    /// What has been decided of this run, and was neither taken nor closed.
    pub async fn decided(&self, run: &RunId) -> Result<Vec<Approval>, JournalError> {
        let run = run.clone();
        let read = move |records: &dyn crate::store::Records| records.approvals_decided(&run);
        self.shared.read(read).await
    }
}

fn redact(run: &Run, asked: &mut AskedApproval) {
    let redactor = run.redactor();
    if redactor.is_empty() {
        return;
    }
    let json = serde_json::from_str::<&RawValue>(&asked.arguments);
    let arguments = match json {
        Ok(json) => redactor.redact_json(json).get().to_owned(),
        Err(_) => redactor.redact(&asked.arguments).into_owned(),
    };
    asked.arguments = arguments;
    let texts = [
        &mut asked.server,
        &mut asked.identity,
        &mut asked.tool,
        &mut asked.raw_tool,
        &mut asked.rule,
        &mut asked.principal,
    ];
    for text in texts.into_iter().chain(&mut asked.remarks) {
        *text = redactor.redact(text).into_owned();
    }
}

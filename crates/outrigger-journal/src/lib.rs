//! What happened: events, the ledger of calls, runs, redaction.
//!
//! A [`Journal`] is one SQLite file, or a database that several replicas share. A [`Run`] records [`Event`]s into it through one writer thread;
//! what must be on disk before something happens goes through [`Run::record_durable`]. What is too
//! large for an event is kept in [`Artifacts`]. Nothing here knows MCP or models.

mod approvals;
mod artifacts;
mod audit;
mod chain;
mod error;
mod event;
mod host;
mod journal;
mod leases;
mod ledger;
mod order;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod read;
mod recovery;
mod redact;
mod run;
mod run_id;
mod schema;
mod sqlite;
mod store;
mod writer;

pub use approvals::{Approval, ApprovalState, ApprovalSubject, Approvals, AskedApproval, Decision};
pub use artifacts::{
    ArtifactAbout, ArtifactError, ArtifactLine, ArtifactOrigin, ArtifactRef, Artifacts,
    BucketSettings, Digest, GcReport, GcRules, InvalidDigest, KnownOrigin, NewArtifact, SCHEME,
};
#[cfg(feature = "postgres")]
pub use artifacts::{BadBucket, Bucket};
pub use audit::{Audit, AuditFault, AuditLine, AuditReport};
pub use error::JournalError;
pub use event::{
    CallRef, Counted, DecidedBy, Event, HandedArtifact, HookSaid, Kept, OutcomeKind,
    QuestionAnswer, Recorded, RunStatus, ServerTokens, Tokens, VERSION,
};
pub use journal::Journal;
pub use leases::{Fence, Leases, Renewed, Taken};
pub use order::Misplaced;
pub use place::{Database, GRACE, Place};
#[cfg(feature = "postgres")]
pub use postgres::{Document, Documents, Unchanged};
pub use read::{CallLine, Finding, RunSummary, UnknownCall};
pub use redact::{REDACTED, Redactor, SHORTEST_SECRET};
pub use run::{Observer, Run, RunOptions};
pub use run_id::{InvalidRunId, RunId};

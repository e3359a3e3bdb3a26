//! What happened: events, the ledger of calls, runs, redaction.
//!
//! A [`Journal`] is one SQLite file. A [`Run`] records [`Event`]s into it through one writer thread;
//! what must be on disk before something happens goes through [`Run::record_durable`]. Nothing here
//! knows MCP or models.

mod error;
mod event;
mod host;
mod journal;
mod ledger;
mod order;
mod read;
mod recovery;
mod redact;
mod run;
mod run_id;
mod schema;
mod writer;

pub use error::JournalError;
pub use event::{
    Counted, DecidedBy, Event, HookSaid, OutcomeKind, QuestionAnswer, Recorded, RunStatus,
    ServerTokens, Tokens, VERSION,
};
pub use journal::Journal;
pub use order::Misplaced;
pub use read::{CallLine, RunSummary};
pub use redact::{REDACTED, Redactor, SHORTEST_SECRET};
pub use run::{Observer, Run, RunOptions};
pub use run_id::{InvalidRunId, RunId};

//! What happened: events, the ledger of calls, runs, redaction.
//!
//! A [`Journal`] is one SQLite file. A [`Run`] records [`Event`]s into it through one writer thread;
//! what must be on disk before something happens goes through [`Run::record_durable`]. Nothing here
//! knows MCP or models.

mod event;
mod journal;
mod run;

pub use event::{DecidedBy, Event, OutcomeKind, Recorded, RunStatus, Tokens, VERSION};
pub use journal::{CallLine, Journal, JournalError, RunSummary};
pub use run::{InvalidRunId, Observer, Run, RunId, RunOptions};

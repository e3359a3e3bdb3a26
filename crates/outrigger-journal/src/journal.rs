//! The file of all runs. (Skeleton: the signatures that other crates build on.)
#![allow(clippy::todo, clippy::unused_async, unused_variables, reason = "skeleton, replaced in the next commits")]

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::{Event, OutcomeKind, Recorded, Run, RunId, RunOptions, RunStatus, Tokens};

/// Why the journal could not be used; every variant names the file.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The folder or file cannot be made, opened, read or written.
    #[error("the journal `{}` cannot be used: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// No room is left on its disk.
    #[error("no room is left on the disk of the journal `{}`", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a newer version.
    #[error("the journal `{}` has format {found}; this version reads up to {known}", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// It is not a journal, or damaged.
    #[error("`{}` is not a usable journal: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
}

/// A journal file; clones share it.
#[derive(Clone)]
pub struct Journal {}

/// One line of `outrigger runs`.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Its name.
    pub id: RunId,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; `None` while it goes on, or when the host was stopped.
    pub ended: Option<Timestamp>,
    /// `ask`, `call`, …
    pub command: String,
    /// The question, where there was one.
    pub question: Option<String>,
    /// The model, where there was one.
    pub model: Option<String>,
    /// The folder.
    pub workspace: String,
    /// How it ended.
    pub status: Option<RunStatus>,
    /// Calls proposed.
    pub calls: u64,
    /// Calls whose outcome is unknown.
    pub unknown: u64,
    /// Tokens of all turns.
    pub usage: Tokens,
}

/// One line of the ledger of calls.
#[derive(Debug, Clone, Serialize)]
pub struct CallLine {
    /// Its run.
    pub run: RunId,
    /// Number within the run.
    pub call: u32,
    /// Model-facing name.
    pub tool: String,
    /// Configured name of the server; `None` when the tool was not found.
    pub server: Option<String>,
    /// Arguments: those sent, else those proposed.
    pub arguments: String,
    /// Whether an intent was written.
    pub sent: bool,
    /// How it ended; `None` for an intent without an end (the host was stopped): unknown.
    pub outcome: Option<OutcomeKind>,
    /// One line for a person.
    pub summary: String,
    /// Milliseconds from sending to the end.
    pub took_ms: u64,
    /// When it was proposed.
    pub at: Timestamp,
}

impl Journal {
    /// Opens, makes or migrates the file, with its folder (mode 0700; file 0600).
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        todo!()
    }

    /// Begins a run; `started` must be [`Event::RunStarted`].
    pub async fn begin(&self, started: Event, options: RunOptions) -> Result<Run, JournalError> {
        todo!()
    }

    /// The latest runs, newest first.
    pub async fn runs(&self, limit: u32) -> Result<Vec<RunSummary>, JournalError> {
        todo!()
    }

    /// One run by its name or an unambiguous beginning of it; `None` when there is none.
    pub async fn find(&self, name: &str) -> Result<Option<RunSummary>, JournalError> {
        todo!()
    }

    /// All events of a run, in order.
    pub async fn events(&self, run: &RunId) -> Result<Vec<Recorded>, JournalError> {
        todo!()
    }

    /// The ledger lines of a run, in order.
    pub async fn calls(&self, run: &RunId) -> Result<Vec<CallLine>, JournalError> {
        todo!()
    }

    /// Waits until everything recorded so far is on disk, then ends the writer. Idempotent.
    pub async fn close(&self) -> Result<(), JournalError> {
        todo!()
    }
}

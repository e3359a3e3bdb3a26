//! One run being recorded. (Skeleton: the signatures that other crates build on.)
#![allow(clippy::todo, clippy::unused_async, unused_variables, reason = "skeleton, replaced in the next commits")]

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Event, JournalError, Recorded};

/// Name of a run: `20261130-094210-3f9a`, sortable by time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId(String);

/// Not the name of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a run")]
pub struct InvalidRunId(pub String);

impl FromStr for RunId {
    type Err = InvalidRunId;
    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        todo!()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sees each event as it is recorded, in order, on the recording thread of control; must be quick.
pub trait Observer: Send + Sync {
    /// One event.
    fn observe(&self, event: &Recorded);
}

/// How a run is recorded.
#[derive(Default)]
pub struct RunOptions {
    /// Who watches.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Values that must not be recorded or observed, in any of their usual encodings.
    pub secrets: Vec<String>,
}

/// A run being recorded; clones share it.
#[derive(Clone)]
pub struct Run {}

impl Run {
    /// Its name.
    pub fn id(&self) -> &RunId {
        todo!()
    }

    /// Records an event without waiting for the disk. A failure does not stop the run: it is kept
    /// and told by [`Run::trouble`].
    pub fn record(&self, event: Event) {
        todo!()
    }

    /// Records an event and returns when it, and all before it, are on disk.
    pub async fn record_durable(&self, event: Event) -> Result<(), JournalError> {
        todo!()
    }

    /// The first failure to record, if there was one.
    pub fn trouble(&self) -> Option<String> {
        todo!()
    }
}

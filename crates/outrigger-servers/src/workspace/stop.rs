//! When work on files must end: because nobody wants it any more, or because it takes too long.
//!
//! Leaves out interrupting a system call; work asks between its steps.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::error::WorkspaceError;

pub(super) struct Stop {
    cancelled: CancellationToken,
    deadline: Instant,
}

impl Stop {
    pub(super) fn new(cancelled: CancellationToken, limit: Duration) -> Self {
        Self {
            cancelled,
            deadline: Instant::now() + limit,
        }
    }

    /// Whether the time is over; an error when the request was cancelled.
    pub(super) fn is_due(&self) -> Result<bool, WorkspaceError> {
        if self.cancelled.is_cancelled() {
            return Err(WorkspaceError::Cancelled);
        }
        Ok(Instant::now() >= self.deadline)
    }
}

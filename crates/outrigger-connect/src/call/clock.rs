//! How long a call may take.

use std::time::Duration;

use tokio::time::Instant;

/// A soft end, which progress moves, and a hard one, which nothing moves.
pub(super) struct Clock {
    pub(super) soft: Duration,
    soft_end: Instant,
    pub(super) hard_end: Instant,
    begun: Instant,
}

impl Clock {
    pub(super) fn start(soft: Duration, hard: Duration) -> Self {
        let begun = Instant::now();
        Self {
            soft,
            soft_end: begun + soft,
            hard_end: begun + hard.max(soft),
            begun,
        }
    }

    pub(super) fn end(&self) -> Instant {
        self.soft_end.min(self.hard_end)
    }

    pub(super) fn progressed(&mut self) {
        self.soft_end = Instant::now() + self.soft;
    }

    /// Nothing moves the end any more.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.hard_end
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

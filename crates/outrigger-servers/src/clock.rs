//! Where the time comes from: the system's clock, or a fixed one for tests.
//!
//! Leaves out time zones; see [`crate::time`].

use std::{fmt, time::SystemTime};

/// Tells the present moment.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present moment.
    fn now(&self) -> SystemTime;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still, for tests and for replays.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub SystemTime);

impl Clock for FixedClock {
    fn now(&self) -> SystemTime {
        self.0
    }
}

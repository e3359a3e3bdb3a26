//! How long a person has been asked something, so that no other clock counts it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Adds up the time in which a question was open. Questions come one at a time.
#[derive(Debug, Default)]
pub(crate) struct PersonClock(Mutex<Times>);

#[derive(Debug, Default)]
struct Times {
    closed: Duration,
    open_since: Option<Instant>,
}

/// A question is open while this lives.
pub(crate) struct Waiting<'a>(&'a PersonClock);

impl PersonClock {
    pub(crate) fn start(&self) -> Waiting<'_> {
        self.times(|times| times.open_since = Some(Instant::now()));
        Waiting(self)
    }

    pub(crate) fn total(&self) -> Duration {
        self.times(|times| {
            times.closed
                + times
                    .open_since
                    .map_or(Duration::ZERO, |since| since.elapsed())
        })
    }

    fn times<T>(&self, work: impl FnOnce(&mut Times) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.times(|times| {
            let open = times.open_since.take().map(|since| since.elapsed());
            times.closed += open.unwrap_or_default();
        });
    }
}

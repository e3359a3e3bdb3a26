//! Questions to a person come one at a time, and no other clock counts how long they are open.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The one person that a host can ask, and the time in which a question was open.
#[derive(Debug, Default)]
pub(crate) struct Person {
    turn: tokio::sync::Mutex<()>,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    closed: Duration,
    open_since: Option<Instant>,
}

/// A question is open while this lives.
pub(crate) struct Asking<'a> {
    person: &'a Person,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl Person {
    /// Waits until no other question is open, and opens one.
    pub(crate) async fn turn(&self) -> Asking<'_> {
        let turn = self.turn.lock().await;
        self.times(|times| times.open_since = Some(Instant::now()));
        Asking {
            person: self,
            _turn: turn,
        }
    }

    /// How long questions have been open in all.
    pub(crate) fn waited(&self) -> Duration {
        self.times(|times| {
            times.closed
                + times
                    .open_since
                    .map_or(Duration::ZERO, |since| since.elapsed())
        })
    }

    fn times<T>(&self, work: impl FnOnce(&mut Times) -> T) -> T {
        work(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.person.times(|times| {
            let open = times.open_since.take().map(|since| since.elapsed());
            times.closed += open.unwrap_or_default();
        });
    }
}

//! How often a server that ended is started again by itself: after pauses that grow, and not for ever.
//! After that it is set aside at each end, for somebody to call for it, until it has stayed once.

use std::time::Duration;

/// Starts after the first that are tried in a row. Their pauses come to 15 s.
const ATTEMPTS: u32 = 5;
/// The pause before the first of them; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A server that was ready for this long has stayed.
const STAYED: Duration = Duration::from_secs(60);

/// How often a server was started again without staying.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    attempts: u32,
}

impl Restarts {
    /// A server that stayed for a while has earned a clean slate.
    pub(super) fn forget_after(&mut self, lived: Duration) {
        if lived >= STAYED {
            self.attempts = 0;
        }
    }

    /// The pause before the next attempt; `None` when there have been enough.
    pub(super) fn next(&mut self) -> Option<Duration> {
        if self.attempts == ATTEMPTS {
            return None;
        }
        let pause = FIRST_PAUSE * 2_u32.pow(self.attempts);
        self.attempts += 1;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_slow_down_and_end() {
        let mut restarts = Restarts::default();
        let pauses: Vec<_> = std::iter::from_fn(|| restarts.next())
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000]);
        // In months a server may end any number of times.
        for _ in 0..100 {
            restarts.forget_after(Duration::from_secs(1));
            assert_eq!(restarts.next(), None);
        }
        restarts.forget_after(STAYED);
        assert_eq!(restarts.next(), Some(FIRST_PAUSE));
    }
}

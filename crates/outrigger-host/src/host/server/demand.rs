//! Whether a server is wanted, and whether somebody uses it.
//!
//! Promises: while somebody uses a server it is not put to rest, and whoever comes later sees that it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::host::upkeep::Upkeep;

/// What hosts want of one server.
#[derive(Default)]
pub(in crate::host) struct Demand {
    uses: Arc<Mutex<Uses>>,
    /// Somebody wants it started. Beside the lock: who follows a state asks for it.
    said: AtomicBool,
    notify: Notify,
}

#[derive(Debug)]
struct Uses {
    count: usize,
    /// When the last one ended; before the first, the beginning.
    none_since: Instant,
}

/// A server is used while this lives, and is not stopped for being idle.
#[derive(Debug)]
pub struct InUse(Arc<Mutex<Uses>>);

impl Default for Uses {
    fn default() -> Self {
        Self {
            count: 0,
            none_since: Instant::now(),
        }
    }
}

impl Demand {
    /// Wants it started.
    pub(super) fn say(&self) {
        self.said.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Whether it is wanted and has not been put to rest since.
    pub(super) fn is_said(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }

    /// Nobody who wanted it got it.
    pub(super) fn forget(&self) {
        self.said.store(false, Ordering::Release);
    }

    /// Waits until somebody wants it.
    pub(super) async fn said(&self) {
        while !self.is_said() {
            self.notify.notified().await;
        }
    }

    pub(super) fn hold(&self) -> InUse {
        lock(&self.uses).count += 1;
        InUse(Arc::clone(&self.uses))
    }

    /// Waits until nobody uses it, and then puts it to rest, as [`Self::unused`] does. `None`: nobody
    /// elsewhere wants it any more.
    pub(super) async fn unused_now(
        &self,
        is_wanted: impl Fn() -> bool,
        rest: impl Fn(),
    ) -> Option<Duration> {
        // It is used for seconds, and whoever wants it waits for as long.
        const LOOK: Duration = Duration::from_millis(20);
        while is_wanted() {
            if let Ok(unused) = self.put_to_rest(Duration::ZERO, &rest) {
                return Some(unused);
            }
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    /// Waits until it has been unused for `idle`, or for a while when others wait for its place; then
    /// puts it to rest: nobody begins to use it while `rest` is at work. Returns how long it was unused.
    pub(super) async fn unused(
        &self,
        idle: Duration,
        upkeep: &Upkeep,
        rest: impl Fn(),
    ) -> Duration {
        let mut pressure = upkeep.pressure();
        loop {
            let bound = pressure.patience(idle);
            let left = match self.put_to_rest(bound, &rest) {
                Ok(unused) => return unused,
                Err(left) => left,
            };
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = pressure.changed() => {}
            }
        }
    }

    /// Puts it to rest if it has been unused for `bound`: for how long, or how much is left of that.
    fn put_to_rest(&self, bound: Duration, rest: impl Fn()) -> Result<Duration, Duration> {
        let uses = lock(&self.uses);
        // What is used now has all of its time before it.
        if uses.count > 0 {
            return Err(bound);
        }
        let unused = uses.none_since.elapsed();
        if unused < bound {
            return Err(bound.saturating_sub(unused));
        }
        self.said.store(false, Ordering::Release);
        rest();
        Ok(unused)
    }
}

fn lock(uses: &Mutex<Uses>) -> MutexGuard<'_, Uses> {
    uses.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut uses = lock(&self.0);
        uses.count -= 1;
        uses.none_since = Instant::now();
    }
}

//! How many calls are let through: at one time, in a minute, and waiting for one of the others to end.
//!
//! Promises: who is not let through is told which limit it was, and when to come again; nobody waits
//! longer than a server may take to start; a wait that is given up leaves no trace.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outrigger_host::config::ClientLimits;
use serde_json::json;
use tokio::sync::watch;

use crate::message::{self, Fault};
use crate::slots::{Slot, Slots};

/// Calls of one principal at one time, unless configuration says otherwise.
const CALLS: usize = 256;
/// How long a call waits for another to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// When somebody may come again who was not let through because of how many there are.
const SOON: Duration = Duration::from_secs(1);

/// A place in a room. Dropped, it is somebody else's.
pub(crate) struct Place {
    _slot: Slot,
    _inside: Inside,
}

/// Lets calls through.
pub(crate) struct Room {
    /// Whose it is, in words.
    whose: String,
    slots: Arc<Slots>,
    limits: Mutex<ClientLimits>,
    waiting: AtomicUsize,
    /// When all calls so far are as if they had not been.
    forgiven: Mutex<Instant>,
    /// Calls that have a place, or wait for one.
    inside: watch::Sender<usize>,
}

/// A call that waits. Dropped, it does not any more.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that is in a room. Dropped, it is not any more.
struct Inside(watch::Sender<usize>);

impl Inside {
    fn new(of: &watch::Sender<usize>) -> Self {
        of.send_modify(|count| *count += 1);
        Self(of.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Room {
    /// `whose`: the principal or server, as messages name it.
    pub(crate) fn new(whose: String, limits: ClientLimits) -> Arc<Self> {
        Arc::new(Self {
            whose,
            slots: Slots::new(limits.concurrent_calls.unwrap_or(CALLS)),
            limits: Mutex::new(limits),
            waiting: AtomicUsize::new(0),
            forgiven: Mutex::new(Instant::now()),
            inside: watch::Sender::new(0),
        })
    }

    /// Lets so many through from now on. What was let through counts.
    pub(crate) fn allow(&self, limits: ClientLimits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        self.slots.resize(limits.concurrent_calls.unwrap_or(CALLS));
    }

    fn limits(&self) -> ClientLimits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call through, at once or when there is a place; `cancel` gives the wait up.
    pub(crate) async fn enter(&self, cancel: impl Future<Output = ()>) -> Result<Place, Fault> {
        self.count(Instant::now())?;
        let inside = Inside::new(&self.inside);
        if let Some(slot) = self.slots.try_take() {
            return Ok(Place {
                _slot: slot,
                _inside: inside,
            });
        }
        let full = || {
            let most = self.limits().concurrent_calls.unwrap_or(CALLS);
            let words = format!("{most} calls of {} are under way", self.whose);
            self.busy("concurrent_calls", &words, SOON)
        };
        let queue = self.limits().queue.unwrap_or(0);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= queue {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if queue == 0 {
                return Err(full());
            }
            let words = format!("{queue} calls of {} wait already", self.whose);
            return Err(self.busy("queue", &words, SOON));
        }
        let waiting = Waiting(&self.waiting);
        let came = tokio::select! {
            came = tokio::time::timeout(PATIENCE, self.slots.take()) => came,
            () = cancel => return Err(full()),
        };
        drop(waiting);
        match came {
            Ok(Some(slot)) => Ok(Place {
                _slot: slot,
                _inside: inside,
            }),
            _ => Err(full()),
        }
    }

    /// Waits until no call is in it.
    pub(crate) async fn empty(&self) {
        // The sender is here.
        self.inside
            .subscribe()
            .wait_for(|count| *count == 0)
            .await
            .ok();
    }

    /// Counts a call at this moment, if it is one of those that may come.
    fn count(&self, now: Instant) -> Result<(), Fault> {
        let Some(rate) = self.limits().calls_per_minute else {
            return Ok(());
        };
        let minute = Duration::from_secs(60);
        let each = minute / rate.max(1);
        let mut forgiven = self.forgiven.lock().unwrap_or_else(PoisonError::into_inner);
        // Where more might be made in a minute before, none of that weighs more than a minute now.
        let next = (*forgiven).clamp(now, now + minute) + each;
        // A hair more than a minute's worth is still a minute's: divisions round.
        let over = next.saturating_duration_since(now + minute + each / 2);
        if !over.is_zero() {
            let words = format!("{} may make {rate} calls in a minute", self.whose);
            return Err(self.busy("calls_per_minute", &words, over));
        }
        *forgiven = next;
        Ok(())
    }

    fn busy(&self, limit: &str, words: &str, wait: Duration) -> Fault {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let seconds = millis.div_ceil(1000);
        let words = format!("busy: {words}; try again in {seconds} s");
        let mut fault = Fault::new(message::BUSY, words);
        fault.data = Some(json!({ "limit": limit, "of": self.whose, "retryAfterMs": millis }));
        fault
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio_util::sync::CancellationToken;

    use super::*;

    fn limits(concurrent: usize, queue: usize, rate: Option<u32>) -> ClientLimits {
        ClientLimits {
            concurrent_calls: Some(concurrent),
            calls_per_minute: rate,
            queue: Some(queue),
            ..ClientLimits::default()
        }
    }

    fn room(concurrent: usize, queue: usize, rate: Option<u32>) -> Arc<Room> {
        Room::new("`alice`".to_owned(), limits(concurrent, queue, rate))
    }

    #[tokio::test]
    async fn so_many_are_let_through_and_so_many_wait() {
        let room = room(1, 1, None);
        let first = room.enter(pending()).await.unwrap();
        let (other, give_up) = (Arc::clone(&room), CancellationToken::new());
        let waits = give_up.clone();
        let tasks = tokio_util::task::TaskTracker::new();
        let second = tasks.spawn(async move { other.enter(waits.cancelled()).await.map(drop) });
        while room.waiting.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let third = room.enter(pending()).await.err().unwrap();
        insta::assert_snapshot!(third.message, @"busy: 1 calls of `alice` wait already; try again in 1 s");
        give_up.cancel();
        assert!(second.await.unwrap().is_err());
        assert_eq!(room.waiting.load(Ordering::Relaxed), 0);
        drop(first);
        assert!(room.enter(pending()).await.is_ok());
    }

    #[tokio::test]
    async fn other_limits_hold_for_the_next_call() {
        let room = room(1, 0, None);
        let first = room.enter(pending()).await.unwrap();
        room.allow(limits(2, 0, Some(1)));
        let second = room.enter(pending()).await.unwrap();
        let third = room.enter(pending()).await.err().unwrap();
        assert_eq!(third.data.unwrap()["limit"], "calls_per_minute");
        room.allow(limits(1, 0, None));
        drop(first);
        let fourth = room.enter(pending()).await.err().unwrap();
        insta::assert_snapshot!(fourth.message, @"busy: 1 calls of `alice` are under way; try again in 1 s");
        drop(second);
        room.empty().await;
        assert!(room.enter(pending()).await.is_ok());
    }

    #[tokio::test]
    async fn without_a_queue_nobody_waits() {
        let room = room(1, 0, None);
        let _first = room.enter(pending()).await.unwrap();
        let second = room.enter(pending()).await.err().unwrap();
        insta::assert_snapshot!(second.message, @"busy: 1 calls of `alice` are under way; try again in 1 s");
        assert_eq!(second.data.unwrap()["limit"], "concurrent_calls");
    }

    #[test]
    fn a_minute_has_so_many_calls() {
        let room = room(9, 0, Some(7));
        let start = Instant::now();
        let mut last = None;
        for _ in 0..7 {
            assert_eq!(room.count(start), Ok(()));
        }
        for _ in 0..3 {
            last = room.count(start).err();
        }
        let last = last.unwrap();
        insta::assert_snapshot!(last.message, @"busy: `alice` may make 7 calls in a minute; try again in 5 s");
        let later = start + Duration::from_secs(9);
        assert_eq!(room.count(later), Ok(()));
        assert!(room.count(later).is_err());
        let much_later = start + Duration::from_secs(200);
        assert!((0..7).all(|_| room.count(much_later).is_ok()));
        assert!(room.count(much_later).is_err());
    }
}

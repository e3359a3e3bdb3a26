//! Places that are taken and given back, whose number may become another one meanwhile.
//!
//! Promises: no more are taken than there are now; where there are fewer than were taken before, those
//! that are given back are nobody's until the number is right; whoever waits comes in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places.
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    count: Mutex<Count>,
}

struct Count {
    most: usize,
    /// Places that are taken still, and are to be nobody's.
    owed: usize,
}

/// A place that is taken. Dropped, it is somebody else's.
pub(crate) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    of: Arc<Slots>,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let most = most.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(most)),
            count: Mutex::new(Count { most, owed: 0 }),
        })
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are so many from now on.
    pub(crate) fn resize(&self, most: usize) {
        let most = most.min(Semaphore::MAX_PERMITS);
        let mut count = self.count();
        let before = std::mem::replace(&mut count.most, most);
        if let Some(more) = most.checked_sub(before) {
            let kept = more.min(count.owed);
            count.owed -= kept;
            self.free.add_permits(more - kept);
        } else {
            let fewer = before - most;
            count.owed += fewer - self.free.forget_permits(fewer);
        }
    }

    /// A place, if one is free.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(self.slot(permit))
    }

    /// A place, once one is free.
    pub(crate) async fn take(self: &Arc<Self>) -> Option<Slot> {
        // It is never closed.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(self.slot(permit))
    }

    fn slot(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Slot {
        Slot {
            permit: Some(permit),
            of: Arc::clone(self),
        }
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        let count = self.count();
        (count.most + count.owed).saturating_sub(self.free.available_permits())
    }
}

impl Slot {
    /// Whether it is one of these.
    pub(crate) fn is_of(&self, slots: &Arc<Slots>) -> bool {
        Arc::ptr_eq(&self.of, slots)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut count = self.of.count();
        let Some(permit) = self.permit.take() else {
            return;
        };
        if count.owed > 0 {
            count.owed -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_number_holds_for_the_next_one() {
        let slots = Slots::new(3);
        let mut taken: Vec<_> = (0..3).map(|_| slots.try_take().unwrap()).collect();
        assert!(slots.try_take().is_none());
        slots.resize(1);
        assert_eq!(slots.taken(), 3);
        taken.truncate(1);
        assert_eq!(slots.taken(), 1);
        assert!(slots.try_take().is_none());
        taken.clear();
        let one = slots.take().await.unwrap();
        assert!(slots.try_take().is_none());
        slots.resize(2);
        let two = slots.try_take().unwrap();
        assert!(slots.try_take().is_none());
        drop((one, two));
        assert_eq!(slots.taken(), 0);
    }

    #[tokio::test]
    async fn what_is_owed_is_made_good_by_more() {
        let slots = Slots::new(2);
        let taken = [slots.try_take().unwrap(), slots.try_take().unwrap()];
        slots.resize(1);
        slots.resize(3);
        let third = slots.try_take().unwrap();
        assert!(slots.try_take().is_none());
        assert_eq!(slots.taken(), 3);
        drop((taken, third));
        let all: Vec<_> = (0..4).map_while(|_| slots.try_take()).collect();
        assert_eq!(all.len(), 3);
    }
}

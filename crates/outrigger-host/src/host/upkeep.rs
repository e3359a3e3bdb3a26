//! How a gateway, which runs for long, keeps its servers: those that nobody uses are stopped, and no more
//! than so many processes run at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// A server that was not used for this long makes room for one that waits.
const PRESSED: Duration = Duration::from_secs(10);

/// Keeps the servers of one gateway; clones share it.
#[derive(Debug, Clone)]
pub struct Upkeep(Arc<watch::Sender<Places>>);

#[derive(Debug)]
struct Places {
    most: usize,
    taken: usize,
    waiting: usize,
}

/// The place of one process. Dropped, it is free.
pub(super) struct Place(Upkeep);

/// Somebody waits for a place while this lives.
struct Waiting<'u>(&'u Upkeep);

impl Upkeep {
    /// At most `most` server processes at a time.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(watch::Sender::new(Places {
            most,
            taken: 0,
            waiting: 0,
        })))
    }

    /// Changes how many there may be. Those that are too many stay until they end.
    pub fn allow(&self, most: usize) {
        self.0.send_modify(|places| places.most = most);
    }

    /// How many there may be.
    pub(super) fn most(&self) -> usize {
        self.0.borrow().most
    }

    /// A place, if there is one.
    pub(super) fn try_place(&self) -> Option<Place> {
        let taken = self.0.send_if_modified(|places| {
            let free = places.taken < places.most;
            places.taken += usize::from(free);
            free
        });
        taken.then(|| Place(self.clone()))
    }

    /// Waits for a place.
    pub(super) async fn place(&self) -> Place {
        let mut places = self.0.subscribe();
        self.0.send_modify(|places| places.waiting += 1);
        let _waiting = Waiting(self);
        loop {
            if let Some(place) = self.try_place() {
                return place;
            }
            // There is always a sender: this one.
            drop(places.wait_for(|places| places.taken < places.most).await);
        }
    }

    /// Tells how long servers may be unused.
    pub(super) fn pressure(&self) -> Pressure {
        Pressure {
            places: self.0.subscribe(),
            pressed: false,
        }
    }
}

/// Whether somebody waits for a place.
pub(super) struct Pressure {
    places: watch::Receiver<Places>,
    /// As it was when this was last asked.
    pressed: bool,
}

impl Pressure {
    /// How long a server may be unused now that would stay for `idle`.
    pub(super) fn patience(&mut self, idle: Duration) -> Duration {
        self.pressed = self.places.borrow().waiting > 0;
        if self.pressed {
            idle.min(PRESSED)
        } else {
            idle
        }
    }

    /// Waits until [`Pressure::patience`] is another one.
    pub(super) async fn changed(&mut self) {
        let before = self.pressed;
        let changed = |places: &Places| (places.waiting > 0) != before;
        // An error means that the gateway is gone, and its servers with it.
        drop(self.places.wait_for(changed).await);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.send_modify(|places| places.taken -= 1);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|places| places.waiting -= 1);
    }
}

//! The calls of all clients that are under way, by number.
//!
//! Promises: a number is used once; a call is known from before it is made until it has ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::flight::Flight;

tokio::task_local! {
    /// The call that this task makes.
    static CURRENT: u64;
}

/// Who is connected to a gateway. Made before the host whose questions clients answer; clones share it.
#[derive(Clone, Default)]
pub struct Clients(Arc<Calls>);

#[derive(Default)]
struct Calls {
    last: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Flight>>>,
}

/// A call that is known. Dropped, it is not any more.
pub(crate) struct Known {
    clients: Clients,
    pub(crate) number: u64,
}

impl Clients {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Flight>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, flight: Arc<Flight>) -> Known {
        let number = self.0.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.open().insert(number, flight);
        Known {
            clients: self.clone(),
            number,
        }
    }

    pub(crate) fn flight(&self, number: u64) -> Option<Arc<Flight>> {
        self.open().get(&number).cloned()
    }

    /// The call that the running task makes.
    pub(crate) fn current(&self) -> Option<Arc<Flight>> {
        CURRENT.try_with(|number| self.flight(*number)).ok()?
    }
}

impl Known {
    /// Does `work` as part of this call.
    pub(crate) async fn make<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.number, work).await
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.clients.open().remove(&self.number);
    }
}

//! Starting a server once more that was set aside, when somebody calls for it.
//!
//! Promises: nothing is started that nobody calls for, and no server more often than once in [`REST`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How long a server that was set aside is left alone.
const REST: Duration = Duration::from_secs(5);

/// Whether a server that was set aside may be called for, and is.
#[derive(Default)]
pub(in crate::host) struct Revival {
    rested: AtomicBool,
    called: Notify,
}

impl Revival {
    /// Calls for it. False: it is not set aside, or has not rested yet.
    pub(in crate::host) fn call(&self) -> bool {
        let rested = self.rested.swap(false, Ordering::AcqRel);
        if rested {
            self.called.notify_one();
        }
        rested
    }

    /// Rests, and then waits until somebody calls.
    pub(super) async fn called(&self) {
        tokio::time::sleep(REST).await;
        self.rested.store(true, Ordering::Release);
        self.called.notified().await;
    }
}

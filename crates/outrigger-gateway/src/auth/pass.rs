//! What somebody was let in by: a token, the authorization server, or that nobody is asked.
//!
//! Promises: whatever was begun with it can tell that it does not let in any more.

use tokio_util::sync::CancellationToken;

use crate::tenant::Identity;

/// Lets somebody in until the configuration says otherwise. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass(CancellationToken);

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) who: Identity,
    pub(crate) pass: Pass,
}

impl Pass {
    pub(super) fn end(&self) {
        self.0.cancel();
    }

    /// It lets nobody in any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it lets nobody in any more.
    pub(crate) async fn over(&self) {
        self.0.cancelled().await;
    }
}

impl Admitted {
    /// Whoever runs the gateway, in a place that is theirs alone.
    pub(crate) fn local() -> Self {
        Self {
            who: Identity::Local,
            pass: Pass::default(),
        }
    }
}

//! Whose record a question belongs into, where one server works for several runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outrigger_journal::Run;

/// The run of each call under way, by the number of its caller; clones share it.
#[derive(Clone, Default)]
pub(crate) struct CallRuns(Arc<Mutex<HashMap<u64, Run>>>);

/// A call that is known. Dropped, it is not any more.
pub(crate) struct CallRun {
    runs: CallRuns,
    caller: u64,
}

impl CallRuns {
    /// Questions of this call belong into `run`.
    pub(crate) fn enter(&self, caller: u64, run: &Run) -> CallRun {
        self.open().insert(caller, run.clone());
        let runs = self.clone();
        CallRun { runs, caller }
    }

    /// The run of a call; `None` where that is not known.
    pub(super) fn of(&self, caller: Option<u64>) -> Option<Run> {
        self.open().get(&caller?).cloned()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallRun {
    fn drop(&mut self) {
        self.runs.open().remove(&self.caller);
    }
}

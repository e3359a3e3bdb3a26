//! A run that nobody records: its observers see it, and then it is gone.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Observer, RunOptions, now};
use crate::redact::Redactor;
use crate::{Event, Recorded, RunId, VERSION};

pub(super) struct Watched {
    id: RunId,
    observers: Vec<Arc<dyn Observer>>,
    redactor: Redactor,
    /// Of the last event; held while observers see one, so that they see them in order.
    seq: Mutex<u64>,
}

impl Watched {
    pub(super) fn new(options: RunOptions) -> Self {
        let RunOptions { observers, secrets } = options;
        Self {
            id: RunId::new(now(), 0),
            observers,
            redactor: Redactor::new(secrets),
            seq: Mutex::new(0),
        }
    }

    pub(super) fn id(&self) -> &RunId {
        &self.id
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(super) fn show(&self, mut event: Event) {
        self.redactor.redact_event(&mut event);
        let mut seq = self.seq.lock().unwrap_or_else(PoisonError::into_inner);
        *seq += 1;
        let recorded = Recorded {
            v: VERSION,
            seq: *seq,
            at: now(),
            run: self.id.clone(),
            event,
        };
        for observer in &self.observers {
            observer.observe(&recorded);
        }
    }
}

//! Sessions of the legacy era, by the id that each request names.
//!
//! Promises: an id cannot be guessed; one that was not used for long is forgotten. Leaves out: how many
//! there may be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::HeaderValue;

use crate::session::Session;
use crate::slots::Slot;

/// A session that was not used for this long may go. Clients begin another one then.
const UNUSED: Duration = Duration::from_mins(60);

/// All of them.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<HeaderValue, Kept>>);

struct Kept {
    session: Arc<Session>,
    used: Instant,
    _slots: [Slot; 2],
}

fn forget_unused(all: &mut HashMap<HeaderValue, Kept>) {
    all.retain(|_, kept| kept.used.elapsed() < UNUSED || kept.session.is_busy());
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<HeaderValue, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session; its id. `None`: there is no randomness.
    pub(crate) fn add(&self, session: Arc<Session>, slots: [Slot; 2]) -> Option<HeaderValue> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes).ok()?;
        let id = HeaderValue::from_str(&URL_SAFE_NO_PAD.encode(bytes)).ok()?;
        let kept = Kept {
            session,
            used: Instant::now(),
            _slots: slots,
        };
        self.all().insert(id.clone(), kept);
        Some(id)
    }

    /// Forgets those that were not used for long.
    pub(crate) fn make_room(&self) {
        forget_unused(&mut self.all());
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// Ends those of clients that nothing lets in any more. Their calls go on.
    pub(crate) fn end_those_over(&self) {
        let over = |_: &_, kept: &mut Kept| kept.session.pass().is_over();
        let over: Vec<_> = self.all().extract_if(over).collect();
        for (_, kept) in over {
            kept.session.leave();
        }
    }

    pub(crate) fn get(&self, id: &HeaderValue) -> Option<Arc<Session>> {
        let mut all = self.all();
        let kept = all.get_mut(id)?;
        if kept.session.pass().is_over() {
            return None;
        }
        kept.used = Instant::now();
        Some(Arc::clone(&kept.session))
    }

    pub(crate) fn remove(&self, id: &HeaderValue) -> Option<Arc<Session>> {
        self.all().remove(id).map(|kept| kept.session)
    }
}

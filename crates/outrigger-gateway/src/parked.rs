//! Calls of modern clients that wait for the answer to a question: the client comes back with it, and
//! with the state that it was given (MCP 2026-07-28, "Multi Round-Trip Requests").
//!
//! Promises: a state cannot be guessed, is good for one round, and for the tool of its call; bounded in
//! number and in time. The call itself goes on meanwhile, under its own deadlines.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Calls that wait at one time.
const MOST: usize = 1024;
/// How long a client may take to come back.
const PATIENCE: Duration = Duration::from_mins(10);

/// Calls of a kind, by their state.
pub(crate) struct Parked<T> {
    waiting: Mutex<HashMap<String, (Instant, T)>>,
}

impl<T> Default for Parked<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
        }
    }
}

impl<T> Parked<T> {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, (Instant, T)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a call; its state. `None`: there is no room, or no randomness.
    pub(crate) fn put(&self, call: T) -> Option<String> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes).ok()?;
        let state = URL_SAFE_NO_PAD.encode(bytes);
        let mut waiting = self.waiting();
        waiting.retain(|_, (since, _)| since.elapsed() < PATIENCE);
        if waiting.len() >= MOST {
            return None;
        }
        waiting.insert(state.clone(), (Instant::now(), call));
        Some(state)
    }

    /// Takes the call of this state out, if `fits`.
    pub(crate) fn take(&self, state: &str, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut waiting = self.waiting();
        let (since, call) = waiting.get(state)?;
        if since.elapsed() >= PATIENCE || !fits(call) {
            return None;
        }
        waiting.remove(state).map(|(_, call)| call)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Lets go of all of them.
    pub(crate) fn clear(&self) {
        self.waiting().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_good_once_and_for_its_own_call() {
        let parked = Parked::default();
        let state = parked.put("a").unwrap();
        assert_ne!(parked.put("b").unwrap(), state);
        assert_eq!(parked.take(&format!("{state}x"), |_| true), None);
        assert_eq!(parked.take(&state, |call| *call == "b"), None);
        assert_eq!(parked.take(&state, |call| *call == "a"), Some("a"));
        assert_eq!(parked.take(&state, |_| true), None);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let parked = Parked::default();
        let states: Vec<_> = (0..=MOST).map(|number| parked.put(number)).collect();
        assert_eq!(states.iter().filter(|state| state.is_none()).count(), 1);
    }
}

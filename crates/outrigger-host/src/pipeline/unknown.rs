//! Calls whose outcome is unknown, for as long as it is: those of this run, and those of earlier
//! runs that the host was told of.
//!
//! A call that repeats one of them is recognised: the same tool, and the same arguments but for an
//! idempotency key. It is never made without somebody having said so, unless local configuration says
//! that the tool may be called twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use outrigger_journal::{CallRef, UnknownCall};
use serde_json::Value;
use tokio::sync::watch;

use super::late::Late;
use crate::digest::Digest;

/// A call whose outcome is unknown, as later calls are compared with it.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) of: CallRef,
    pub(super) at: Timestamp,
    pub(super) tool: String,
    pub(super) arguments: String,
    pub(super) why: String,
}

/// An earlier call that one repeats, for whoever is asked whether it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// The earlier call.
    pub of: CallRef,
    /// Whether it was made in this run.
    pub here: bool,
    /// When it was proposed.
    pub at: Timestamp,
    /// Why its outcome is unknown.
    pub why: String,
    /// What the server can know the repetition by.
    pub key: RepeatKey,
}

/// The idempotency key of a repeated call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepeatKey {
    /// There is none: the server takes it for another call.
    None,
    /// The same as of the earlier call, in this argument.
    Same(String),
    /// Another than of the earlier call, in this argument: the server takes it for another call.
    Other(String),
}

/// See the file.
#[derive(Debug, Default)]
pub(crate) struct Unknowns {
    state: Mutex<State>,
    /// Calls whose answer may still come, with how long it is worth waiting for.
    awaited: watch::Sender<BTreeMap<u64, Duration>>,
}

#[derive(Debug, Default)]
struct State {
    open: Vec<Open>,
    late: Vec<Late>,
    next: u64,
}

/// For as long as this lives, the answer to a call may still come.
pub(super) struct Awaited {
    unknowns: Arc<Unknowns>,
    id: u64,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.unknowns.awaited.send_modify(|awaited| {
            awaited.remove(&self.id);
        });
    }
}

impl Unknowns {
    /// Takes in what the journal knows of earlier runs.
    pub(crate) fn remember(&self, calls: impl IntoIterator<Item = UnknownCall>) {
        let open = calls.into_iter().map(|call| Open {
            of: CallRef {
                run: call.run,
                call: call.call,
            },
            at: call.at,
            tool: call.tool,
            arguments: call.arguments,
            why: call.why,
        });
        self.state().open.extend(open);
    }

    pub(super) fn add(&self, call: Open) {
        self.state().open.push(call);
    }

    /// The outcome of a call is known after all.
    pub(super) fn known(&self, call: &CallRef, late: Late) {
        let mut state = self.state();
        state.open.retain(|open| open.of != *call);
        state.late.push(late);
    }

    /// The late answers that were not taken before.
    pub(super) fn take_late(&self) -> Vec<Late> {
        std::mem::take(&mut self.state().late)
    }

    /// How many calls of this run are unknown.
    pub(crate) fn count(&self, run: &outrigger_journal::RunId) -> usize {
        let state = self.state();
        state.open.iter().filter(|open| open.of.run == *run).count()
    }

    /// The latest of the calls that one of `tool` with these arguments would repeat, and the key that
    /// it had. `key`: the argument that holds one.
    pub(super) fn find(
        &self,
        tool: &str,
        arguments: &str,
        key: Option<&str>,
    ) -> Option<(Open, Option<String>)> {
        let state = self.state();
        let of_tool = state.open.iter().rev().filter(|open| open.tool == tool);
        let mut meant = None;
        for open in of_tool {
            let (wanted, _) = meant.get_or_insert_with(|| without_key(arguments, key));
            let (sent, sent_key) = without_key(&open.arguments, key);
            if sent == *wanted {
                return Some((open.clone(), sent_key));
            }
        }
        None
    }

    /// Says that the answer to a call may come from now on, also when nobody waits for it any more.
    pub(super) fn awaiting(self: &Arc<Self>, patience: Duration) -> Awaited {
        let id = {
            let mut state = self.state();
            state.next += 1;
            state.next
        };
        self.awaited.send_modify(|awaited| {
            awaited.insert(id, patience);
        });
        Awaited {
            unknowns: Arc::clone(self),
            id,
        }
    }

    /// Waits until no answer can come any more, or it is not worth waiting any longer.
    pub(crate) async fn settled(&self) {
        let mut awaited = self.awaited.subscribe();
        let Some(patience) = self.patience() else {
            return;
        };
        let none = awaited.wait_for(BTreeMap::is_empty);
        tokio::time::timeout(patience, none).await.ok();
    }

    /// How long what may still come is worth waiting for; `None` when nothing can come.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.awaited.borrow().values().max().copied()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What arguments mean but for the key in them, and that key.
fn without_key(arguments: &str, key: Option<&str>) -> (Digest, Option<String>) {
    let Ok(mut value) = serde_json::from_str::<Value>(arguments) else {
        return (Digest::of_text(arguments), None);
    };
    let taken = key.and_then(|key| value.as_object_mut()?.remove(key));
    let taken = taken.as_ref().and_then(Value::as_str);
    (Digest::of(&value), taken.map(ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(call: u32, arguments: &str) -> Open {
        Open {
            of: CallRef {
                run: "20261130-103302-1a2b".parse().unwrap(),
                call,
            },
            at: Timestamp::UNIX_EPOCH,
            tool: "mcp__bank__pay".to_owned(),
            arguments: arguments.to_owned(),
            why: String::new(),
        }
    }

    #[test]
    fn the_same_call_is_recognised_whatever_its_key_and_the_order_of_its_keys() {
        let unknowns = Unknowns::default();
        unknowns.add(open(1, r#"{"to":"ada","cents":5,"id":"k1"}"#));
        unknowns.add(open(2, r#"{"to":"bob","cents":5}"#));
        let found = |tool: &str, arguments: &str, key| {
            let (open, key) = unknowns.find(tool, arguments, key)?;
            Some((open.of.call, key))
        };
        let pay = "mcp__bank__pay";
        assert_eq!(
            found(pay, r#"{ "cents": 5, "to": "ada" }"#, Some("id")),
            Some((1, Some("k1".to_owned())))
        );
        assert_eq!(
            found(pay, r#"{"to":"ada","cents":5,"id":"k2"}"#, Some("id")),
            Some((1, Some("k1".to_owned())))
        );
        assert_eq!(
            found(pay, r#"{"to":"ada","cents":5}"#, None),
            None,
            "`id` is an argument like any other"
        );
        assert_eq!(
            found(pay, r#"{"to":"bob","cents":5}"#, None),
            Some((2, None))
        );
        assert_eq!(found(pay, r#"{"to":"bob","cents":6}"#, None), None);
        assert_eq!(
            found("mcp__bank__ask", r#"{"to":"bob","cents":5}"#, None),
            None
        );
    }

    #[tokio::test]
    async fn nobody_waits_for_what_cannot_come() {
        let unknowns = Arc::new(Unknowns::default());
        unknowns.settled().await;
        let awaited = unknowns.awaiting(Duration::from_hours(1));
        let (settled, ()) = tokio::join!(unknowns.settled(), async { drop(awaited) });
        assert_eq!(settled, ());
        let kept = unknowns.awaiting(Duration::from_millis(1));
        unknowns.settled().await;
        drop(kept);
    }
}

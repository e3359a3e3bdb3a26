//! The table of requests that wait, and a short one of those that were given up.
//!
//! Promises: bounded (the first by the callers' own limits, the second by [`LATE`]).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::Answer;
use crate::connection::{OnLate, OnProgress};
use crate::link::Ticket;

/// Answers to this many requests that were given up are still recognised.
const LATE: usize = 64;

/// A request that waits.
pub(super) struct Entry {
    pub(super) answered: oneshot::Sender<Answer>,
    pub(super) ticket: Arc<Ticket>,
    pub(super) on_progress: Option<OnProgress>,
    pub(super) progressed: Arc<Notify>,
    pub(super) scope: Option<Scope>,
    pub(super) standing: bool,
}

/// One call, as far as a server's questions are concerned.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) tool: Arc<str>,
    /// Who makes it, as the maker numbers its callers.
    pub(crate) caller: Option<u64>,
    /// The call has ended.
    pub(crate) over: CancellationToken,
    /// Questions so far.
    pub(crate) asked: Arc<AtomicU32>,
    /// Questions that are being answered at this moment.
    pub(crate) open: Arc<AtomicU32>,
}

impl Scope {
    pub(crate) fn of(tool: &str, caller: Option<u64>) -> Self {
        Self {
            tool: tool.into(),
            caller,
            over: CancellationToken::new(),
            asked: Arc::default(),
            open: Arc::default(),
        }
    }
}

/// A request that was given up after it was sent.
pub(super) struct Late {
    pub(super) on_late: Option<OnLate>,
    pub(super) ticket: Arc<Ticket>,
}

#[derive(Default)]
pub(super) struct Pending {
    waiting: HashMap<u64, Entry>,
    late: VecDeque<(u64, Late)>,
    ended: Option<String>,
}

impl Pending {
    /// Refused with the reason once the connection has ended.
    pub(super) fn insert(&mut self, id: u64, entry: Entry) -> Result<(), (Box<Entry>, String)> {
        if let Some(reason) = &self.ended {
            return Err((Box::new(entry), reason.clone()));
        }
        self.waiting.insert(id, entry);
        Ok(())
    }

    pub(super) fn take(&mut self, id: u64) -> Option<Entry> {
        self.waiting.remove(&id)
    }

    pub(super) fn knows(&self, id: u64) -> bool {
        self.waiting.contains_key(&id) || self.late.iter().any(|(late, _)| *late == id)
    }

    pub(super) fn waits(&self, id: u64) -> bool {
        self.waiting.contains_key(&id)
    }

    /// The request that waits when it is the only one; what stands for ever does not count.
    pub(super) fn only(&self) -> Option<u64> {
        let mut waiting = self.waiting.iter().filter(|(_, entry)| !entry.standing);
        match (waiting.next(), waiting.next()) {
            (Some((id, _)), None) => Some(*id),
            _ => None,
        }
    }

    /// The calls that a question may belong to: that of the exchange it came in, else all.
    pub(super) fn scopes(&self, of: Option<u64>) -> Vec<Scope> {
        if let Some(scope) = of.and_then(|id| self.waiting.get(&id)?.scope.clone()) {
            return vec![scope];
        }
        let scopes = self.waiting.values();
        scopes.filter_map(|entry| entry.scope.clone()).collect()
    }

    /// Whom to tell about progress of a request.
    pub(super) fn progress(&self, id: u64) -> Option<(Arc<Notify>, Option<OnProgress>)> {
        self.waiting
            .get(&id)
            .map(|entry| (entry.progressed.clone(), entry.on_progress.clone()))
    }

    pub(super) fn keep_late(&mut self, id: u64, late: Late) {
        if self.late.len() == LATE
            && let Some((_, oldest)) = self.late.pop_front()
        {
            oldest.ticket.abandon();
        }
        self.late.push_back((id, late));
    }

    pub(super) fn take_late(&mut self, id: u64) -> Option<Late> {
        let at = self.late.iter().position(|(late, _)| *late == id)?;
        self.late.remove(at).map(|(_, late)| late)
    }

    /// Takes no more requests and hands out those that wait; `None` when it had ended before.
    pub(super) fn end(&mut self, reason: &str) -> Option<Vec<Entry>> {
        if self.ended.is_some() {
            return None;
        }
        self.ended = Some(reason.to_owned());
        for (_, late) in self.late.drain(..) {
            late.ticket.abandon();
        }
        Some(self.waiting.drain().map(|(_, entry)| entry).collect())
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("waiting", &self.waiting.len())
            .field("late", &self.late.len())
            .finish_non_exhaustive()
    }
}

//! Leases: what may be in one place at a time, by name, among all programs that use one journal.
//!
//! Promises: at most one holds a lease; its token only grows, so that whoever held it before is told
//! from who does now ([`Run::record_fenced`](crate::Run::record_fenced) goes by that); who no longer
//! renews it loses it when its term is over, by the clock of the store. Who wants what another one has
//! leaves a wish, and is next for as long as it repeats that. Leaves out: what is leased, and when a holder lets go.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Journal, JournalError};

mod table;

pub(crate) use table::{FileLeases, stands};

/// The shortest term: less would be lost to a slow disk.
const SHORTEST: Duration = Duration::from_secs(1);
/// A wish that is not repeated for this long is none any more.
pub(crate) const WISH: Duration = Duration::from_secs(2);

/// The leases of a journal, for one who takes some; clones are the same one.
#[derive(Clone)]
pub struct Leases {
    store: Arc<dyn LeaseStore>,
    /// As others are told of it.
    holder: Arc<str>,
    /// Tells its wishes from those of others.
    me: Arc<str>,
    term: Duration,
    wishes: bool,
}

/// A lease as it was taken. It stands until somebody else has taken it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// What is leased.
    pub name: Arc<str>,
    /// Greater than that of every holder before.
    pub token: u64,
    /// How long it lasts from each renewal on.
    pub term: Duration,
}

/// What came of trying to take a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is held from now on.
    Here(Fence),
    /// This one has it, as people know it; `None`: nobody, and somebody else is next, or it is there for
    /// whoever wants it.
    Elsewhere(Option<String>),
}

/// What came of renewing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// It is held for another term.
    Held {
        /// Somebody else wants it.
        wanted: bool,
    },
    /// Somebody else has it.
    Lost,
}

/// Who tries to take which.
pub(crate) struct Taking<'a> {
    pub(crate) name: &'a str,
    pub(crate) holder: &'a str,
    pub(crate) me: &'a str,
    pub(crate) term: Duration,
    /// Also when it rests.
    pub(crate) wanted: bool,
    /// Leave a wish where it is not free.
    pub(crate) wish: bool,
}

/// Keeps leases; each call blocks, and is one transaction.
pub(crate) trait LeaseStore: Send + Sync {
    fn take(&self, taking: &Taking<'_>) -> Result<Taken, JournalError>;

    fn renew(&self, fence: &Fence) -> Result<Renewed, JournalError>;

    /// Lets go of it, where it is still held. `rests`: for whoever wants it, and nobody else.
    fn release(&self, fence: &Fence, rests: bool) -> Result<(), JournalError>;
}

impl Journal {
    /// The leases of this journal, for somebody who may hold some.
    pub fn leases(&self) -> Leases {
        let (store, holder, term) = self.shared().leasing.clone();
        let me = getrandom::u64().unwrap_or_default();
        Leases {
            store,
            holder,
            me: format!("{}-{me:016x}", std::process::id()).into(),
            term: term.max(SHORTEST),
            wishes: true,
        }
    }
}

impl Leases {
    /// The same, each lasting for `term` without being renewed, at least a second.
    #[must_use]
    pub fn lasting(self, term: Duration) -> Self {
        let term = term.max(SHORTEST);
        Self { term, ..self }
    }

    /// The same for somebody who takes what is free, and wants nothing that others have.
    #[must_use]
    pub fn without_wishes(self) -> Self {
        Self {
            wishes: false,
            ..self
        }
    }

    /// How long a lease lasts without being renewed.
    pub fn term(&self) -> Duration {
        self.term
    }

    /// Whether what others have may be wanted.
    pub fn wishes(&self) -> bool {
        self.wishes
    }

    /// Tries to take a lease. `wanted`: also one that rests, and where another one has it, that one is
    /// told; to be repeated within two seconds.
    pub async fn take(&self, name: &str, wanted: bool) -> Result<Taken, JournalError> {
        let (this, name) = (self.clone(), name.to_owned());
        let taking = move || {
            this.store.take(&Taking {
                name: &name,
                holder: &this.holder,
                me: &this.me,
                term: this.term,
                wanted,
                wish: wanted && this.wishes,
            })
        };
        away(taking).await
    }

    /// Holds it for another term.
    pub async fn renew(&self, fence: &Fence) -> Result<Renewed, JournalError> {
        let (store, fence) = (Arc::clone(&self.store), fence.clone());
        away(move || store.renew(&fence)).await
    }

    /// Lets go of it. `rests`: because nobody used it, so that only whoever wants it takes it.
    pub async fn release(&self, fence: &Fence, rests: bool) -> Result<(), JournalError> {
        let (store, fence) = (Arc::clone(&self.store), fence.clone());
        away(move || store.release(&fence, rests)).await
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases")
            .field("holder", &self.holder)
            .finish_non_exhaustive()
    }
}

/// Away from the runtime.
async fn away<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Result<T, JournalError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(JournalError::Unusable {
            path: "leases".into(),
            reason: error.to_string(),
        }),
    }
}

/// The token as it is counted here; tables count in signed numbers.
pub(crate) fn token(stored: i64) -> u64 {
    stored.unsigned_abs()
}

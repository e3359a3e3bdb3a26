//! The table of leases in an SQLite file. Several processes of one machine use it, so their clock is one.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::{Fence, LeaseStore, Renewed, Taken, Taking, WISH, token};
use crate::JournalError;
use crate::ledger::int;
use crate::schema::open_leases;

/// The leases of a file, by a connection of their own: they are renewed whatever is being written.
pub(crate) struct FileLeases {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

impl FileLeases {
    pub(crate) fn of(path: PathBuf) -> Self {
        Self {
            path,
            connection: Mutex::default(),
        }
    }

    /// `durable`: on disk when it returns. What else is lost when the machine stops is lost with all who
    /// held something.
    fn with<T>(
        &self,
        durable: bool,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, JournalError> {
        let mut held = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => open_leases(&self.path)?,
        };
        let synchronous = if durable { "FULL" } else { "NORMAL" };
        let done = connection
            .pragma_update(None, "synchronous", synchronous)
            .and_then(|()| connection.transaction_with_behavior(TransactionBehavior::Immediate))
            .and_then(|transaction| {
                let done = work(&transaction)?;
                transaction.commit()?;
                Ok(done)
            });
        *held = Some(connection);
        done.map_err(|error| JournalError::sqlite(&self.path, &error))
    }
}

/// Now, and after this time from now.
fn now_and(after: Duration) -> (i64, i64) {
    let now = crate::run::now().as_microsecond();
    let after = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
    (now, now.saturating_add(after))
}

impl LeaseStore for FileLeases {
    fn take(&self, taking: &Taking<'_>) -> Result<Taken, JournalError> {
        self.with(true, |connection| {
            let (now, until) = now_and(taking.term);
            let taken: Option<i64> = connection
                .query_row(
                    "INSERT INTO leases (name, token, holder, taken_at, expires_at) VALUES (?1, 1, ?2, ?3, ?4)
                     ON CONFLICT (name) DO UPDATE SET token = token + 1, holder = excluded.holder,
                         taken_at = excluded.taken_at, expires_at = excluded.expires_at, rests = 0,
                         wanted_by = NULL, wanted_until = NULL
                     WHERE (holder IS NULL OR expires_at <= ?3)
                         AND (wanted_until IS NULL OR wanted_until <= ?3 OR wanted_by = ?5)
                         AND (?6 OR NOT rests)
                     RETURNING token",
                    params![taking.name, taking.holder, now, until, taking.me, taking.wanted],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(taken) = taken {
                return Ok(Taken::Here(taking.fence(taken)));
            }
            if taking.wish {
                connection.execute(
                    "UPDATE leases SET wanted_by = ?2, wanted_until = ?4
                     WHERE name = ?1 AND (wanted_until IS NULL OR wanted_until <= ?3 OR wanted_by = ?2)",
                    params![taking.name, taking.me, now, now_and(WISH).1],
                )?;
            }
            let holder = connection.query_row(
                "SELECT holder FROM leases WHERE name = ?1",
                [taking.name],
                |row| row.get(0),
            )?;
            Ok(Taken::Elsewhere(holder))
        })
    }

    fn renew(&self, fence: &Fence) -> Result<Renewed, JournalError> {
        self.with(false, |connection| {
            if !stands(connection, fence)? {
                return Ok(Renewed::Lost);
            }
            let wanted = connection.query_row(
                "SELECT coalesce(wanted_until > ?2, 0) FROM leases WHERE name = ?1",
                params![&*fence.name, now_and(Duration::ZERO).0],
                |row| row.get(0),
            )?;
            Ok(Renewed::Held { wanted })
        })
    }

    fn release(&self, fence: &Fence, rests: bool) -> Result<(), JournalError> {
        self.with(false, |connection| {
            connection.execute(
                "UPDATE leases SET holder = NULL, expires_at = NULL, rests = ?3
                 WHERE name = ?1 AND token = ?2",
                params![&*fence.name, int(fence.token), rests],
            )?;
            Ok(())
        })
    }
}

impl Taking<'_> {
    /// What is held with this token.
    pub(crate) fn fence(&self, stored: i64) -> Fence {
        Fence {
            name: self.name.into(),
            token: token(stored),
            term: self.term,
        }
    }
}

/// Whether nobody else has taken it; it is held for another term then. Inside of a transaction of the
/// caller, until whose end nobody takes it.
pub(crate) fn stands(connection: &Connection, fence: &Fence) -> rusqlite::Result<bool> {
    let renewed = connection
        .prepare_cached(
            "UPDATE leases SET expires_at = ?3 WHERE name = ?1 AND token = ?2 AND holder IS NOT NULL",
        )?
        .execute(params![
            &*fence.name,
            int(fence.token),
            now_and(fence.term).1
        ])?;
    Ok(renewed == 1)
}

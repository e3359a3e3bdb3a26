//! Which hosts are using the database, and what becomes of the calls of one that is gone.
//!
//! A host is there for as long as its connection holds the advisory lock with its number: the server
//! lets go of it when the process ends, however it ends, and when the network no longer reaches it. A
//! process that only hangs keeps it, since it may still go on. When a lock was free for the length of
//! the grace, which is for restarts of the server and short cuts, another host ends the calls: unknown
//! where an intent was written, not sent otherwise, and what waits for a person waits no more. That marks the run, and the database takes no more
//! lines of it, so that whoever comes back cannot contradict what was said meanwhile.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Row as _};

use super::approvals;
use super::error::PgError;
use super::ledger::{Batch, Head};
use crate::RunId;
use crate::ledger::{Change, Entry};
use crate::order::missing_end;

/// "Outr": the class of our advisory locks.
pub(super) const CLASS: i32 = 0x4F75_7472;

/// This host, as the database knows it.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) key: i32,
    pub(super) name: String,
}

/// A new host. Its row is seen by others only once it holds its lock.
pub(super) async fn register(
    connection: &mut PgConnection,
    replica: &str,
) -> Result<Host, PgError> {
    let random =
        getrandom::u64().map_err(|error| PgError::Settings(format!("no random name: {error}")))?;
    let name = format!("{random:016x}");
    let mut transaction = connection.begin().await?;
    let key: i32 =
        sqlx::query_scalar("INSERT INTO hosts (name, replica) VALUES ($1, $2) RETURNING key")
            .bind(&name)
            .bind(replica)
            .fetch_one(&mut *transaction)
            .await?;
    lock(&mut transaction, key).await?;
    transaction.commit().await?;
    Ok(Host { key, name })
}

/// Takes the lock again on a new connection; false when this host was given up meanwhile.
pub(super) async fn come_back(connection: &mut PgConnection, host: &Host) -> Result<bool, PgError> {
    // Waits for whoever is just giving it up, and for the server to notice that the old one is gone.
    lock(connection, host.key).await?;
    let known = sqlx::query("UPDATE hosts SET missed_at = NULL WHERE key = $1")
        .bind(host.key)
        .execute(&mut *connection)
        .await?;
    Ok(known.rows_affected() == 1)
}

async fn lock(connection: &mut PgConnection, key: i32) -> Result<(), PgError> {
    sqlx::query("SELECT pg_advisory_lock($1, $2)")
        .bind(CLASS)
        .bind(key)
        .execute(connection)
        .await?;
    Ok(())
}

/// Says that this host is done, so that nobody waits for it to come back.
pub(super) async fn leave(connection: &mut PgConnection, host: &Host) -> Result<(), PgError> {
    sqlx::query("UPDATE hosts SET missed_at = '-infinity' WHERE key = $1")
        .bind(host.key)
        .execute(&mut *connection)
        .await?;
    sqlx::query(
        "DELETE FROM hosts WHERE key = $1 AND NOT EXISTS (
             SELECT 1 FROM runs WHERE host = hosts.name AND ended_at IS NULL AND stopped_at IS NULL)",
    )
    .bind(host.key)
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends what hosts left open that have been away for the length of `grace`; whether this host is
/// still known.
pub(super) async fn look_after(
    connection: &mut PgConnection,
    host: &Host,
    grace: Duration,
) -> Result<bool, PgError> {
    let rows = sqlx::query(
        "SELECT key, name,
             NOT EXISTS (
                 SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
                     AND classid::bigint = $1 AND objid::bigint = hosts.key AND objsubid = 2
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
             missed_at <= clock_timestamp() - make_interval(secs => $2),
             missed_at IS NOT NULL
         FROM hosts",
    )
    .bind(i64::from(CLASS))
    .bind(grace.as_secs_f64())
    .fetch_all(&mut *connection)
    .await?;
    let mut known = false;
    for row in rows {
        let found = Host {
            key: row.try_get(0)?,
            name: row.try_get(1)?,
        };
        let (free, expired): (bool, Option<bool>) = (row.try_get(2)?, row.try_get(3)?);
        if found.key == host.key {
            known = true;
        } else if free && (expired == Some(true) || grace.is_zero()) {
            give_up(connection, &found).await?;
        } else if free != row.try_get::<bool, _>(4)? {
            note(connection, &found, free).await?;
        }
    }
    Ok(known)
}

/// Notes since when a host is missed, or that it is back.
async fn note(connection: &mut PgConnection, host: &Host, missed: bool) -> Result<(), PgError> {
    let sql = if missed {
        "UPDATE hosts SET missed_at = clock_timestamp() WHERE key = $1 AND missed_at IS NULL"
    } else {
        "UPDATE hosts SET missed_at = NULL WHERE key = $1 AND missed_at > '-infinity'"
    };
    sqlx::query(sql).bind(host.key).execute(connection).await?;
    Ok(())
}

/// Ends the calls of a host, unless it has come back, and forgets it.
async fn give_up(connection: &mut PgConnection, host: &Host) -> Result<(), PgError> {
    let mut transaction = connection.begin().await?;
    let free: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1, $2)")
        .bind(CLASS)
        .bind(host.key)
        .fetch_one(&mut *transaction)
        .await?;
    if !free {
        return Ok(transaction.rollback().await?);
    }
    let mut head = Head::load(&mut transaction).await?;
    let open: Vec<(i64, String)> = sqlx::query_as(
        "SELECT key, name FROM runs WHERE host = $1 AND ended_at IS NULL AND stopped_at IS NULL ORDER BY key",
    )
    .bind(&host.name)
    .fetch_all(&mut *transaction)
    .await?;
    for (run, name) in &open {
        let name = name
            .parse()
            .map_err(|_| PgError::Unreadable(format!("the run `{name}`")))?;
        end_calls(&mut transaction, &mut head, *run, &name).await?;
    }
    sqlx::query("DELETE FROM hosts WHERE key = $1")
        .bind(host.key)
        .execute(&mut *transaction)
        .await?;
    head.store(&mut transaction).await?;
    transaction.commit().await?;
    if !open.is_empty() {
        tracing::info!(
            runs = open.len(),
            "ended the calls of runs whose host is gone"
        );
    }
    Ok(())
}

async fn end_calls(
    connection: &mut PgConnection,
    head: &mut Head,
    run: i64,
    name: &RunId,
) -> Result<(), PgError> {
    let at = crate::run::now();
    let last: i64 = sqlx::query_scalar("SELECT coalesce(max(seq), 0) FROM events WHERE run = $1")
        .bind(run)
        .fetch_one(&mut *connection)
        .await?;
    let open: Vec<(i64, bool)> = sqlx::query_as(
        "SELECT call, intent_at IS NOT NULL FROM calls WHERE run = $1 AND outcome IS NULL ORDER BY call",
    )
    .bind(run)
    .fetch_all(&mut *connection)
    .await?;
    for (seq, (call, intent)) in (last.unsigned_abs() + 1..).zip(open) {
        let call = u32::try_from(call)
            .map_err(|_| PgError::Unreadable(format!("the number of call {call}")))?;
        let event = missing_end(call, intent, "the host stopped");
        let body = serde_json::to_string(&event)
            .map_err(|error| PgError::Unreadable(error.to_string()))?;
        let change = Change::of(&event);
        let entry = Entry {
            run,
            name,
            seq,
            at,
            body: &body,
            change: &change,
        };
        Batch::of(vec![(0, entry)])
            .write(connection, head)
            .await
            .map_err(|stopped| stopped.error)?;
    }
    approvals::end_all(connection, run, at).await?;
    sqlx::query("UPDATE runs SET stopped_at = $2 WHERE key = $1")
        .bind(run)
        .bind(at.as_microsecond())
        .execute(connection)
        .await?;
    Ok(())
}

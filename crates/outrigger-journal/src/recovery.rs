//! What a host that was stopped left open is given an end.
//!
//! A run is touched only when the lock of its host is free. A call whose intent was written becomes
//! unknown: it may have taken effect. A call without intent was not sent, and what it waited for ends
//! with it. The run itself gets no end; it is marked as stopped.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::approvals;
use crate::chain::Chain;
use crate::host::Hosts;
use crate::ledger::{Begun, Change, Entry, LedgerError, append};
use crate::order::missing_end;
use crate::read::unreadable;
use crate::{JournalError, RunId};

/// Ends what dead hosts left open. Only while `opening` is held.
pub(crate) fn recover(
    connection: &mut Connection,
    path: &Path,
    hosts: &Hosts,
) -> Result<(), JournalError> {
    let failed = |error: LedgerError| error.of_store(path);
    let stopped =
        stopped_runs(connection, hosts).map_err(|error| JournalError::sqlite(path, &error))?;
    if stopped.is_empty() {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| JournalError::sqlite(path, &error))?;
    let mut chain = Chain::load(&transaction).map_err(failed)?;
    for (run, name) in &stopped {
        end_calls(&transaction, &mut chain, *run, name).map_err(failed)?;
    }
    chain.store(&transaction).map_err(failed)?;
    transaction
        .commit()
        .map_err(|error| JournalError::sqlite(path, &error))?;
    tracing::info!(
        runs = stopped.len(),
        "ended the calls of runs whose host was stopped"
    );
    Ok(())
}

fn stopped_runs(connection: &Connection, hosts: &Hosts) -> rusqlite::Result<Vec<(i64, RunId)>> {
    let mut open = connection.prepare(
        "SELECT key, host, name FROM runs WHERE ended_at IS NULL AND stopped_at IS NULL ORDER BY key",
    )?;
    let open = open.query_map([], |row| {
        let name: String = row.get(2)?;
        let name = name.parse().map_err(|error| unreadable(2, error))?;
        Ok((row.get(0)?, row.get::<_, String>(1)?, name))
    })?;
    let mut stopped = Vec::new();
    for run in open {
        let (key, host, name) = run?;
        if !hosts.is_alive(&host) {
            stopped.push((key, name));
        }
    }
    Ok(stopped)
}

fn end_calls(
    connection: &Connection,
    chain: &mut Chain,
    run: i64,
    name: &RunId,
) -> Result<(), LedgerError> {
    let at = crate::run::now();
    let last = connection
        .query_row(
            "SELECT coalesce(max(seq), 0) FROM events WHERE run = ?1",
            [run],
            |row| row.get::<_, i64>(0),
        )?
        .unsigned_abs();
    let open = {
        let mut open = connection.prepare_cached(
            "SELECT call, intent_at IS NOT NULL FROM calls WHERE run = ?1 AND outcome IS NULL ORDER BY call",
        )?;
        let open = open.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
        open.collect::<rusqlite::Result<Vec<(u32, bool)>>>()?
    };
    for (seq, (call, intent)) in (last + 1..).zip(open) {
        let event = missing_end(call, intent, "the host stopped");
        let body = serde_json::to_string(&event)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let entry = Entry {
            run,
            name,
            seq,
            at,
            body: &body,
            change: &Change::of(&event),
        };
        append(connection, chain, (&entry, 0), &mut Begun::default())?;
    }
    approvals::end_all(connection, run, at)?;
    connection.execute(
        "UPDATE runs SET stopped_at = ?2 WHERE key = ?1",
        params![run, at.as_microsecond()],
    )?;
    Ok(())
}

//! The table of approvals in the journal's file. All functions that write work inside a transaction of
//! the caller, and say whether they changed anything.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::{Approval, ApprovalState, ApprovalSubject, ApprovalWork, AskedApproval, Decision};
use crate::ledger::{LedgerError, int};
use crate::read::{time, unreadable, word};
use crate::{DecidedBy, RunId};

const COLUMNS: &str = "SELECT id, name, call, asked_at, until, server, identity, tool, raw_tool, definition, arguments,
    rule, principal, remarks, state, decided_at, decided_by, reason, remember, lasts, closed_at, granted, kind
    FROM approvals JOIN runs ON key = run";

/// Does what the writer was asked to do.
pub(crate) fn work(connection: &Connection, work: &ApprovalWork) -> Result<bool, LedgerError> {
    let changed = match work {
        ApprovalWork::Ask { id, run, at, asked } => ask(connection, (id, run, *at), asked)?,
        ApprovalWork::Decide { id, at, decision } => decide(connection, (id, *at), decision)?,
        ApprovalWork::Use { id, at, granted } => connection
            .prepare_cached(
                "UPDATE approvals SET state = 'used', closed_at = ?2, granted = ?3
                 WHERE id = ?1 AND state = 'approved'",
            )?
            .execute(params![id, at.as_microsecond(), granted])?,
        ApprovalWork::Close { id, at } => connection
            .prepare_cached(
                "UPDATE approvals SET state = iif(state = 'declined', state, 'expired'), closed_at = ?2
                 WHERE id = ?1 AND closed_at IS NULL",
            )?
            .execute(params![id, at.as_microsecond()])?,
    };
    Ok(changed == 1)
}

fn ask(
    connection: &Connection,
    (id, run, at): (&str, &RunId, Timestamp),
    asked: &AskedApproval,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "INSERT INTO approvals (id, run, call, asked_at, until, server, identity, tool, raw_tool, definition,
                 arguments, rule, principal, remarks, kind)
             SELECT ?1, key, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 FROM runs WHERE name = ?2
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            id,
            run.as_str(),
            asked.subject.call(),
            at.as_microsecond(),
            asked.until.as_microsecond(),
            asked.server,
            asked.identity,
            asked.tool,
            asked.raw_tool,
            asked.definition,
            asked.arguments,
            asked.rule,
            asked.principal,
            asked.remarks.join("\n"),
            asked.subject.kind(),
        ])
}

fn decide(
    connection: &Connection,
    (id, at): (&str, Timestamp),
    decision: &Decision,
) -> rusqlite::Result<usize> {
    let state = if decision.allowed {
        ApprovalState::Approved
    } else {
        ApprovalState::Declined
    };
    let (remember, lasts) = decision
        .remember
        .as_ref()
        .map(|(pattern, seconds)| (pattern, int(*seconds)))
        .unzip();
    connection
        .prepare_cached(
            "UPDATE approvals SET state = ?2, decided_at = ?3, decided_by = ?4, reason = ?5, remember = ?6, lasts = ?7
             WHERE id = ?1 AND state = 'waiting' AND until > ?3",
        )?
        .execute(params![
            id,
            state.as_str(),
            at.as_microsecond(),
            decision.by.as_str(),
            decision.reason,
            remember,
            lasts,
        ])
}

/// Nobody waits any more for what waits of this run.
pub(crate) fn end_all(connection: &Connection, run: i64, at: Timestamp) -> rusqlite::Result<()> {
    let sql =
        "UPDATE approvals SET state = iif(state = 'declined', state, 'expired'), closed_at = ?2
         WHERE run = ?1 AND closed_at IS NULL";
    connection.execute(sql, params![run, at.as_microsecond()])?;
    Ok(())
}

/// Those that wait, then so many others.
pub(crate) fn list(connection: &Connection, others: u32) -> rusqlite::Result<Vec<Approval>> {
    let waiting =
        format!("{COLUMNS} WHERE closed_at IS NULL AND state = 'waiting' ORDER BY asked_at");
    let mut all = read(connection, &waiting, params![])?;
    let rest = format!("{COLUMNS} WHERE state <> 'waiting' ORDER BY asked_at DESC LIMIT ?1");
    all.extend(read(connection, &rest, params![others])?);
    Ok(all)
}

/// Those whose id begins so.
pub(crate) fn named(
    connection: &Connection,
    begins: &str,
    limit: u32,
) -> rusqlite::Result<Vec<Approval>> {
    let sql = format!("{COLUMNS} WHERE substr(id, 1, length(?1)) = ?1 LIMIT ?2");
    read(connection, &sql, params![begins, limit])
}

/// What has been decided of a run, and was neither taken nor closed.
pub(crate) fn decided(connection: &Connection, run: &RunId) -> rusqlite::Result<Vec<Approval>> {
    let sql = format!(
        "{COLUMNS} WHERE closed_at IS NULL AND state <> 'waiting' AND name = ?1 ORDER BY asked_at"
    );
    read(connection, &sql, params![run.as_str()])
}

fn read(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Vec<Approval>> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(values, approval)?.collect()
}

fn approval(row: &Row) -> rusqlite::Result<Approval> {
    let state = word(row, 14, &ApprovalState::ALL, ApprovalState::as_str)?;
    let state = state.ok_or_else(|| unreadable(14, "a state is missing"))?;
    let remarks: String = row.get(13)?;
    let when = |column| {
        let there = row.get::<_, Option<i64>>(column)?;
        there.map(|_| time(row, column)).transpose()
    };
    let decision = match word(row, 16, &DecidedBy::QUEUE, DecidedBy::as_str)? {
        None => None,
        Some(by) => {
            let lasts: Option<i64> = row.get(19)?;
            Some(Decision {
                // Only a yes can expire after it was given.
                allowed: state != ApprovalState::Declined,
                by,
                reason: row.get(17)?,
                remember: row
                    .get::<_, Option<String>>(18)?
                    .zip(lasts.map(i64::unsigned_abs)),
            })
        }
    };
    Ok(Approval {
        id: row.get(0)?,
        run: row
            .get::<_, String>(1)?
            .parse()
            .map_err(|error| unreadable(1, error))?,
        asked: AskedApproval {
            subject: subject(row)?,
            until: time(row, 4)?,
            server: row.get(5)?,
            identity: row.get(6)?,
            tool: row.get(7)?,
            raw_tool: row.get(8)?,
            definition: row.get(9)?,
            arguments: row.get(10)?,
            rule: row.get(11)?,
            principal: row.get(12)?,
            remarks: remarks.lines().map(ToOwned::to_owned).collect(),
        },
        at: time(row, 3)?,
        state,
        decision,
        decided: when(15)?,
        closed: when(20)?,
        granted: row.get(21)?,
    })
}

fn subject(row: &Row) -> rusqlite::Result<ApprovalSubject> {
    let kind: String = row.get(22)?;
    ApprovalSubject::stored(&kind, row.get(2)?)
        .ok_or_else(|| unreadable(22, format!("`{kind}` is nothing that waits")))
}

//! The table of approvals in PostgreSQL: the twin of `approvals/table.rs`. Each change is one statement
//! that looks and changes at once, so that of two replicas one wins.

use jiff::Timestamp;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};

use super::error::{PgError, text};
use super::read::{name, narrow, time, word};
use crate::approvals::{
    Approval, ApprovalState, ApprovalSubject, ApprovalWork, AskedApproval, Decision,
};
use crate::ledger::int;
use crate::{DecidedBy, RunId};

const COLUMNS: &str = "SELECT id, name, call, asked_at, until, server, identity, tool, raw_tool, definition, arguments,
    rule, principal, remarks, state, decided_at, decided_by, reason, remember, lasts, closed_at, granted, kind
    FROM approvals JOIN runs ON key = run";

/// Does what the writer was asked to do; whether that changed anything.
pub(super) async fn work(
    connection: &mut PgConnection,
    work: &ApprovalWork,
) -> Result<bool, PgError> {
    let statement = match work {
        ApprovalWork::Ask { id, run, at, asked } => ask((id, run, *at), asked),
        ApprovalWork::Decide { id, at, decision } => decide((id, *at), decision),
        ApprovalWork::Use { id, at, granted } => sqlx::query(
            "UPDATE approvals SET state = 'used', closed_at = $2, granted = $3
             WHERE id = $1 AND state = 'approved'",
        )
        .bind(id)
        .bind(at.as_microsecond())
        .bind(granted),
        ApprovalWork::Close { id, at } => sqlx::query(
            "UPDATE approvals SET closed_at = $2,
                 state = CASE state WHEN 'declined' THEN state ELSE 'expired' END
             WHERE id = $1 AND closed_at IS NULL",
        )
        .bind(id)
        .bind(at.as_microsecond()),
    };
    Ok(statement.execute(connection).await?.rows_affected() == 1)
}

/// After a connection has broken: whether this very change has arrived all the same.
pub(super) async fn was_done(
    connection: &mut PgConnection,
    work: &ApprovalWork,
) -> Result<bool, PgError> {
    let (id, at, sql) = match work {
        ApprovalWork::Ask { id, at, .. } => (id, at, "asked_at = $2"),
        ApprovalWork::Decide { id, at, .. } => (id, at, "decided_at = $2 AND decided_by = $3"),
        ApprovalWork::Use { id, at, .. } => (id, at, "state = 'used' AND closed_at = $2"),
        // Nobody waits for the answer.
        ApprovalWork::Close { .. } => return Ok(false),
    };
    let sql = format!("SELECT EXISTS (SELECT 1 FROM approvals WHERE id = $1 AND {sql})");
    let mut query = sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(id)
        .bind(at.as_microsecond());
    if let ApprovalWork::Decide { decision, .. } = work {
        query = query.bind(decision.by.as_str());
    }
    Ok(query.fetch_one(connection).await?)
}

fn ask<'q>(
    (id, run, at): (&'q str, &'q RunId, Timestamp),
    asked: &'q AskedApproval,
) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(
        "INSERT INTO approvals (id, run, call, asked_at, until, server, identity, tool, raw_tool, definition,
             arguments, rule, principal, remarks, kind)
         SELECT $1, key, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15 FROM runs WHERE name = $2
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(id)
    .bind(run.as_str())
    .bind(asked.subject.call().map(i64::from))
    .bind(at.as_microsecond())
    .bind(asked.until.as_microsecond())
    .bind(text(&asked.server))
    .bind(text(&asked.identity))
    .bind(text(&asked.tool))
    .bind(text(&asked.raw_tool))
    .bind(text(&asked.definition))
    .bind(text(&asked.arguments))
    .bind(text(&asked.rule))
    .bind(text(&asked.principal))
    .bind(text(&asked.remarks.join("\n")).into_owned())
    .bind(asked.subject.kind())
}

fn decide<'q>(
    (id, at): (&'q str, Timestamp),
    decision: &'q Decision,
) -> Query<'q, Postgres, PgArguments> {
    let state = if decision.allowed {
        ApprovalState::Approved
    } else {
        ApprovalState::Declined
    };
    let remember = decision.remember.as_ref();
    sqlx::query(
        "UPDATE approvals SET state = $2, decided_at = $3, decided_by = $4, reason = $5, remember = $6, lasts = $7
         WHERE id = $1 AND state = 'waiting' AND until > $3",
    )
    .bind(id)
    .bind(state.as_str())
    .bind(at.as_microsecond())
    .bind(decision.by.as_str())
    .bind(decision.reason.as_deref().map(text))
    .bind(remember.map(|(pattern, _)| text(pattern)))
    .bind(remember.map(|(_, seconds)| int(*seconds)))
}

/// Nobody waits any more for what waits of this run.
pub(super) async fn end_all(
    connection: &mut PgConnection,
    run: i64,
    at: Timestamp,
) -> Result<(), PgError> {
    sqlx::query(
        "UPDATE approvals SET closed_at = $2,
             state = CASE state WHEN 'declined' THEN state ELSE 'expired' END
         WHERE run = $1 AND closed_at IS NULL",
    )
    .bind(run)
    .bind(at.as_microsecond())
    .execute(connection)
    .await?;
    Ok(())
}

/// Those that wait, then so many others.
pub(super) async fn list(
    connection: &mut PgConnection,
    others: u32,
) -> Result<Vec<Approval>, PgError> {
    let sql = format!("{COLUMNS} WHERE closed_at IS NULL AND state = 'waiting' ORDER BY asked_at");
    let waiting = sqlx::query(AssertSqlSafe(sql))
        .fetch_all(&mut *connection)
        .await?;
    let sql = format!("{COLUMNS} WHERE state <> 'waiting' ORDER BY asked_at DESC LIMIT $1");
    let rest = sqlx::query(AssertSqlSafe(sql))
        .bind(i64::from(others))
        .fetch_all(connection)
        .await?;
    waiting.iter().chain(&rest).map(approval).collect()
}

/// Those whose id begins so.
pub(super) async fn named(
    connection: &mut PgConnection,
    begins: &str,
    limit: u32,
) -> Result<Vec<Approval>, PgError> {
    let sql = format!("{COLUMNS} WHERE starts_with(id, $1) LIMIT $2");
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(text(begins))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?;
    rows.iter().map(approval).collect()
}

/// What has been decided of a run, and was neither taken nor closed.
pub(super) async fn decided(
    connection: &mut PgConnection,
    run: &RunId,
) -> Result<Vec<Approval>, PgError> {
    let sql = format!(
        "{COLUMNS} WHERE closed_at IS NULL AND state <> 'waiting' AND name = $1 ORDER BY asked_at"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(run.as_str())
        .fetch_all(connection)
        .await?;
    rows.iter().map(approval).collect()
}

fn approval(row: &PgRow) -> Result<Approval, PgError> {
    let state = word(row, 14, &ApprovalState::ALL, ApprovalState::as_str)?;
    let state = state.ok_or_else(|| PgError::Unreadable("a state is missing".to_owned()))?;
    let remarks: String = row.try_get(13)?;
    let when = |column| {
        let there: Option<i64> = row.try_get(column)?;
        there.map(|_| time(row, column)).transpose()
    };
    let decision = match word(row, 16, &DecidedBy::QUEUE, DecidedBy::as_str)? {
        None => None,
        Some(by) => {
            let remember: Option<String> = row.try_get(18)?;
            let lasts: Option<i64> = row.try_get(19)?;
            Some(Decision {
                // Only a yes can expire after it was given.
                allowed: state != ApprovalState::Declined,
                by,
                reason: row.try_get(17)?,
                remember: remember.zip(lasts.map(i64::unsigned_abs)),
            })
        }
    };
    Ok(Approval {
        id: row.try_get(0)?,
        run: name(row, 1)?,
        asked: AskedApproval {
            subject: subject(row)?,
            until: time(row, 4)?,
            server: row.try_get(5)?,
            identity: row.try_get(6)?,
            tool: row.try_get(7)?,
            raw_tool: row.try_get(8)?,
            definition: row.try_get(9)?,
            arguments: row.try_get(10)?,
            rule: row.try_get(11)?,
            principal: row.try_get(12)?,
            remarks: remarks.lines().map(ToOwned::to_owned).collect(),
        },
        at: time(row, 3)?,
        state,
        decision,
        decided: when(15)?,
        closed: when(20)?,
        granted: row.try_get(21)?,
    })
}

fn subject(row: &PgRow) -> Result<ApprovalSubject, PgError> {
    let kind: String = row.try_get(22)?;
    let call: Option<i64> = row.try_get(2)?;
    ApprovalSubject::stored(&kind, call.map(narrow).transpose()?)
        .ok_or_else(|| PgError::Unreadable(format!("`{kind}` is nothing that waits")))
}

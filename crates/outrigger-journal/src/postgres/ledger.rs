//! What entries change in the tables: the twin of `ledger.rs` for PostgreSQL. All functions work inside
//! a transaction of the caller; whoever has loaded the [`Head`] is the only writer until it ends.

use std::collections::HashSet;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row as _};

use super::Stopped;
use super::error::{PgError, text};
use crate::chain::Content;
use crate::ledger::{Change, Entry, NewRun, Start, int};
use crate::{Digest, Tokens, VERSION};

/// The end of the chain, held until the transaction ends.
pub(super) struct Head {
    line: i64,
    hash: Digest,
    stored: i64,
}

impl Head {
    /// Waits for other writers. The second statement sees what the last of them has committed.
    pub(super) async fn load(connection: &mut PgConnection) -> Result<Self, PgError> {
        let rows = sqlx::raw_sql(
            "SELECT line, head, 0::bigint FROM chain FOR UPDATE;
             SELECT line, head, (SELECT coalesce(max(line), 0) FROM events) FROM chain",
        )
        .fetch_all(connection)
        .await?;
        let row = rows.last().ok_or(sqlx::Error::RowNotFound)?;
        let (line, last): (i64, i64) = (row.try_get(0)?, row.try_get(2)?);
        if line != last {
            return Err(PgError::BrokenChain { line, last });
        }
        let hash = digest(&row.try_get::<Vec<u8>, _>(1)?)?;
        let stored = line;
        Ok(Self { line, hash, stored })
    }

    /// Goes on by a line.
    fn add(&mut self, entry: &Entry<'_>) -> (i64, Digest) {
        let content = Content {
            line: self.line + 1,
            run: entry.name.as_str(),
            seq: int(entry.seq),
            at: entry.at.as_microsecond(),
            v: VERSION,
            body: entry.body,
        };
        self.hash = content.hash_after(&self.hash);
        self.line += 1;
        (self.line, self.hash)
    }

    pub(super) async fn store(&self, connection: &mut PgConnection) -> Result<(), PgError> {
        if self.line != self.stored {
            sqlx::query("UPDATE chain SET line = $1, head = $2")
                .bind(self.line)
                .bind(self.hash.as_bytes().as_slice())
                .execute(connection)
                .await?;
        }
        Ok(())
    }
}

/// A hash as it is stored.
pub(super) fn digest(bytes: &[u8]) -> Result<Digest, PgError> {
    <[u8; 32]>::try_from(bytes)
        .map(Digest::from)
        .map_err(|_| PgError::Unreadable("a hash that is not one".to_owned()))
}

/// Adds a run; its key, or `None` when the name is taken. Its first event is added by the caller.
pub(super) async fn begin(
    connection: &mut PgConnection,
    run: &NewRun<'_>,
) -> Result<Option<i64>, PgError> {
    let Start {
        command,
        question,
        model,
        workspace,
        version,
    } = run.start;
    let key = sqlx::query_scalar(
        "INSERT INTO runs (name, host, started_at, command, question, model, workspace, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING RETURNING key",
    )
    .bind(run.name.as_str())
    .bind(run.host)
    .bind(run.at.as_microsecond())
    .bind(text(command))
    .bind(question.as_deref().map(text))
    .bind(model.as_deref().map(text))
    .bind(text(workspace))
    .bind(text(version))
    .fetch_optional(connection)
    .await?;
    Ok(key)
}

/// The key of a run that this host has begun before without knowing it.
pub(super) async fn known(
    connection: &mut PgConnection,
    run: &NewRun<'_>,
) -> Result<Option<i64>, PgError> {
    let key = sqlx::query_scalar(
        "SELECT key FROM runs WHERE name = $1 AND host = $2 AND started_at = $3 AND stopped_at IS NULL",
    )
    .bind(run.name.as_str())
    .bind(run.host)
    .bind(run.at.as_microsecond())
    .fetch_optional(connection)
    .await?;
    Ok(key)
}

/// Which of these lines are there already, by run and position. One that another host has written in
/// their place is not among them.
pub(super) async fn there_already(
    connection: &mut PgConnection,
    lines: &[Entry<'_>],
) -> Result<HashSet<(i64, i64)>, PgError> {
    let of = |value: fn(&Entry<'_>) -> i64| lines.iter().map(value).collect::<Vec<_>>();
    let bodies: Vec<&str> = lines.iter().map(|line| line.body).collect();
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT run, seq FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])
             AS new (run, seq, at, body) JOIN events USING (run, seq, at, body)",
    )
    .bind(of(|line| line.run))
    .bind(of(|line| int(line.seq)))
    .bind(of(|line| line.at.as_microsecond()))
    .bind(bodies)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().collect())
}

/// Lines to be written together, each with its place among the entries that it came with.
pub(super) struct Batch<'a> {
    lines: Vec<(usize, Entry<'a>)>,
}

impl<'a> Batch<'a> {
    pub(super) fn of(lines: Vec<(usize, Entry<'a>)>) -> Self {
        Self { lines }
    }

    /// Writes all lines with one statement, then what each changes. Which line was refused is known
    /// where there is only one.
    pub(super) async fn write(
        &self,
        connection: &mut PgConnection,
        head: &mut Head,
    ) -> Result<(), Stopped> {
        let only = match self.lines.as_slice() {
            [] => return Ok(()),
            [(at, _)] => Some(*at),
            _ => None,
        };
        self.insert(connection, head)
            .await
            .map_err(|error| Stopped { at: only, error })?;
        for (at, entry) in &self.lines {
            change(connection, entry).await.map_err(Stopped::by(*at))?;
        }
        Ok(())
    }

    async fn insert(&self, connection: &mut PgConnection, head: &mut Head) -> Result<(), PgError> {
        let size = self.lines.len();
        let (mut lines, mut hashes) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let (mut runs, mut seqs) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let (mut ats, mut bodies) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for (_, entry) in &self.lines {
            let (line, hash) = head.add(entry);
            lines.push(line);
            hashes.push(hash.as_bytes().to_vec());
            runs.push(entry.run);
            seqs.push(int(entry.seq));
            ats.push(entry.at.as_microsecond());
            bodies.push(entry.body);
        }
        sqlx::query(
            "INSERT INTO events (line, run, seq, at, v, body, hash)
             SELECT line, run, seq, at, $7, body, hash
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[])
                 AS new (line, run, seq, at, body, hash) ORDER BY line",
        )
        .bind(lines)
        .bind(runs)
        .bind(seqs)
        .bind(ats)
        .bind(bodies)
        .bind(hashes)
        .bind(i64::from(VERSION))
        .execute(connection)
        .await?;
        Ok(())
    }
}

async fn change(connection: &mut PgConnection, entry: &Entry<'_>) -> Result<(), PgError> {
    let (statement, missing) = match entry.change {
        Change::Nothing => return Ok(()),
        Change::Spent(_) | Change::RunEnded { .. } => (of_run(entry), PgError::NoOpenRun),
        Change::Proposed { call, .. }
        | Change::Prepared { call, .. }
        | Change::Decided { call, .. }
        | Change::Intent { call }
        | Change::Ended { call, .. }
        | Change::Late { call, .. }
        | Change::Settled { call, .. } => (of_call(entry, *call), PgError::NoLine { call: *call }),
    };
    let Some(statement) = statement else {
        return Ok(());
    };
    if statement.execute(connection).await?.rows_affected() == 1 {
        Ok(())
    } else {
        Err(missing)
    }
}

type Statement<'q> = Query<'q, Postgres, PgArguments>;

fn of_run<'q>(entry: &'q Entry<'_>) -> Option<Statement<'q>> {
    Some(match entry.change {
        Change::Spent(Tokens {
            input,
            cached,
            output,
        }) => sqlx::query(
            "UPDATE runs SET input = input + $2, cached = cached + $3, output = output + $4 WHERE key = $1",
        )
        .bind(entry.run)
        .bind(int(*input))
        .bind(int(*cached))
        .bind(int(*output)),
        Change::RunEnded {
            status,
            usage:
                Tokens {
                    input,
                    cached,
                    output,
                },
        } => sqlx::query(
            "UPDATE runs SET ended_at = $2, status = $3, input = $4, cached = $5, output = $6
             WHERE key = $1 AND ended_at IS NULL",
        )
        .bind(entry.run)
        .bind(entry.at.as_microsecond())
        .bind(status.as_str())
        .bind(int(*input))
        .bind(int(*cached))
        .bind(int(*output)),
        _ => return None,
    })
}

fn of_call<'q>(entry: &'q Entry<'_>, call: u32) -> Option<Statement<'q>> {
    let at = entry.at.as_microsecond();
    let of = |sql| sqlx::query(sql).bind(entry.run).bind(i64::from(call));
    Some(match entry.change {
        Change::Proposed {
            turn,
            tool,
            arguments,
            ..
        } => of(PROPOSED)
            .bind(turn.map(i64::from))
            .bind(text(tool))
            .bind(text(arguments))
            .bind(at),
        Change::Prepared {
            server,
            raw_tool,
            arguments,
            ..
        } => of(PREPARED)
            .bind(text(server))
            .bind(text(raw_tool))
            .bind(text(arguments)),
        Change::Decided { allowed, rule, .. } => {
            of(DECIDED).bind(at).bind(*allowed).bind(text(rule))
        }
        Change::Intent { .. } => of(INTENT).bind(at),
        Change::Ended {
            outcome,
            is_error,
            summary,
            tokens,
            took_ms,
            ..
        } => of(ENDED)
            .bind(at)
            .bind(outcome.as_str())
            .bind(*is_error)
            .bind(text(summary))
            .bind(int(*tokens))
            .bind(int(*took_ms)),
        Change::Late {
            outcome, summary, ..
        } => of(LATE).bind(at).bind(outcome.as_str()).bind(text(summary)),
        // Into the line of another run, mostly.
        Change::Settled {
            of,
            call,
            happened,
            note,
        } => sqlx::query(SETTLED)
            .bind(of.as_str())
            .bind(i64::from(*call))
            .bind(at)
            .bind(*happened)
            .bind(note.as_deref().map(text)),
        Change::Nothing | Change::Spent(_) | Change::RunEnded { .. } => return None,
    })
}

const PROPOSED: &str = "INSERT INTO calls (run, call, turn, tool, arguments, proposed_at) VALUES ($1, $2, $3, $4, $5, $6)";
const PREPARED: &str =
    "UPDATE calls SET server = $3, raw_tool = $4, arguments = $5 WHERE run = $1 AND call = $2";
const DECIDED: &str =
    "UPDATE calls SET decided_at = $3, allowed = $4, rule = $5 WHERE run = $1 AND call = $2";
const INTENT: &str =
    "UPDATE calls SET intent_at = coalesce(intent_at, $3) WHERE run = $1 AND call = $2";
const ENDED: &str = "UPDATE calls SET ended_at = $3, outcome = $4, is_error = $5, summary = $6, tokens = $7, took_ms = $8
    WHERE run = $1 AND call = $2";
const LATE: &str =
    "UPDATE calls SET late_at = $3, outcome = $4, summary = $5 WHERE run = $1 AND call = $2";
const SETTLED: &str = "INSERT INTO settled (run, call, at, happened, note)
    SELECT key, $2, $3, $4, $5 FROM runs WHERE name = $1
    ON CONFLICT (run, call) DO UPDATE
        SET at = excluded.at, happened = excluded.happened, note = excluded.note";

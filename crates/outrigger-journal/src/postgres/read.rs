//! Reading a journal in PostgreSQL: the twin of `read.rs`.
//!
//! Connections for reading are kept, each with a runtime of its own, so that they can be used from any
//! thread, inside of a runtime or not.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use super::apart::Apart;
use super::beside::Beside;
use super::connect::connect;
use super::error::{PgError, text};
use super::ledger::digest;
use super::{approvals, index, schema};
use crate::approvals::Approval;
use crate::artifacts::index::{ArtifactLine, IndexDone, IndexWork, KnownOrigin};
use crate::audit::StoredLine;
use crate::ledger::int;
use crate::place::Database;
use crate::read::{CallLine, Finding, LISTED, RunSummary, UnknownCall};
use crate::store::{Records, Source};
use crate::{Digest, Event, JournalError, OutcomeKind, Recorded, RunId, RunStatus, Tokens};

/// How many lines are fetched at once.
const WINDOW: i64 = 500;

/// How many connections are kept for later.
const KEPT: usize = 4;

const SUMMARY: &str =
    "SELECT name, started_at, ended_at, command, question, model, workspace, status,
    (SELECT count(*) FROM calls WHERE run = key),
    (SELECT count(*) FROM calls LEFT JOIN settled USING (run, call)
        WHERE run = key AND outcome = 'unknown' AND settled.at IS NULL),
    input, cached, output, stopped_at IS NOT NULL AND ended_at IS NULL,
    (SELECT body FROM events WHERE run = key AND seq = 1) FROM runs";

/// Opens connections for reading.
pub(crate) struct Readers {
    database: Database,
    kept: Arc<Mutex<Vec<Link>>>,
    /// What changes the index of artifacts beside the writer.
    beside: Beside,
    /// Whether what is there is checked first: nobody has opened it to write.
    checked: bool,
}

/// A connection with its runtime.
struct Link {
    connection: PgConnection,
    runtime: Apart,
}

/// One reading.
pub(crate) struct Reader {
    database: Database,
    /// `None` once it broke.
    link: RefCell<Option<Link>>,
    /// See [`Records::one_state`].
    in_state: Cell<bool>,
    kept: Arc<Mutex<Vec<Link>>>,
}

impl Readers {
    /// For a database that this process has opened.
    pub(crate) fn new(database: Database) -> Self {
        Self {
            beside: Beside::of(database.clone()),
            database,
            kept: Arc::default(),
            checked: false,
        }
    }

    /// For a database as it is.
    pub(crate) fn as_it_is(database: Database) -> Self {
        Self {
            checked: true,
            ..Self::new(database)
        }
    }

    fn pop(&self) -> Option<Link> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.pop()
    }

    fn link(&self) -> Result<Link, PgError> {
        // One may have been lost while nobody used it.
        while let Some(mut link) = self.pop() {
            let ping = async { Ok::<_, PgError>(link.connection.ping().await?) };
            if link.runtime.run(ping).is_ok() {
                return Ok(link);
            }
        }
        let runtime = Apart::new()?;
        let connection = runtime.run(async {
            let mut connection = connect(&self.database).await?;
            if self.checked {
                schema::check(&mut connection).await?;
            }
            connection
                .execute("SET default_transaction_read_only = on")
                .await?;
            Ok::<_, PgError>(connection)
        })?;
        Ok(Link {
            connection,
            runtime,
        })
    }
}

impl Source for Readers {
    fn open(&self) -> Result<Box<dyn Records>, JournalError> {
        let name = self.database.name();
        let link = self.link().map_err(|error| error.of_store(name))?;
        Ok(Box::new(Reader {
            database: self.database.clone(),
            link: RefCell::new(Some(link)),
            in_state: Cell::new(false),
            kept: Arc::clone(&self.kept),
        }))
    }

    fn index(&self, work: &IndexWork) -> Option<Result<IndexDone, JournalError>> {
        Some(self.beside.index(work))
    }
}

impl Reader {
    /// The connection, for one statement or more; see [`Self::done`].
    fn take(&self) -> Result<Link, JournalError> {
        self.link.take().ok_or_else(|| {
            let gone = "the connection was lost while it was read".to_owned();
            PgError::Settings(gone).of_store(self.database.name())
        })
    }

    /// Gives the connection back, unless that broke it.
    fn done<T>(&self, link: Link, done: Result<T, PgError>) -> Result<T, JournalError> {
        if done.as_ref().err().is_none_or(PgError::leaves_connection) {
            self.link.replace(Some(link));
        }
        done.map_err(|error| error.of_store(self.database.name()))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = self.link.take()
            && !self.in_state.get()
            && kept.len() < KEPT
        {
            kept.push(link);
        }
    }
}

impl Records for Reader {
    fn runs(&self, limit: u32) -> Result<Vec<RunSummary>, JournalError> {
        let sql = format!("{SUMMARY} ORDER BY started_at DESC, key DESC LIMIT $1");
        let mut link = self.take()?;
        let done = link.runtime.run(async {
            let rows = sqlx::query(AssertSqlSafe(sql))
                .bind(i64::from(limit))
                .fetch_all(&mut link.connection)
                .await?;
            rows.iter().map(summary).collect::<Result<Vec<_>, _>>()
        });
        self.done(link, done)
    }

    fn find(&self, name: &str) -> Result<Option<RunSummary>, JournalError> {
        if name.is_empty() {
            return Ok(None);
        }
        let sql = format!(
            "{SUMMARY} WHERE left(name, length($1)) = $1 OR (length($1) = 4 AND right(name, 4) = $1)
             ORDER BY started_at DESC, key DESC LIMIT $2"
        );
        let mut link = self.take()?;
        let done = link.runtime.run(async {
            let rows = sqlx::query(AssertSqlSafe(sql))
                .bind(text(name))
                .bind(i64::from(LISTED))
                .fetch_all(&mut link.connection)
                .await?;
            rows.iter().map(summary).collect::<Result<Vec<_>, _>>()
        });
        let mut found = self.done(link, done)?;
        if found.len() > 1 {
            let matches = found.into_iter().map(|run| run.id.to_string()).collect();
            return Err(JournalError::Ambiguous {
                path: self.database.name().to_path_buf(),
                name: name.to_owned(),
                matches,
            });
        }
        Ok(found.pop())
    }

    fn events(
        &self,
        run: &RunId,
        take: &mut dyn FnMut(Recorded) -> bool,
    ) -> Result<(), JournalError> {
        let mut last = 0_i64;
        loop {
            let mut link = self.take()?;
            let done = link.runtime.run(async {
                let rows = sqlx::query(
                    "SELECT v, seq, at, body FROM events
                     WHERE run = (SELECT key FROM runs WHERE name = $1) AND seq > $2 ORDER BY seq LIMIT $3",
                )
                .bind(run.as_str())
                .bind(last)
                .bind(WINDOW)
                .fetch_all(&mut link.connection)
                .await?;
                rows.iter()
                    .map(|row| recorded(row, run))
                    .collect::<Result<Vec<_>, _>>()
            });
            let events = self.done(link, done)?;
            let Some(newest) = events.last() else {
                return Ok(());
            };
            last = int(newest.seq);
            for event in events {
                if !take(event) {
                    return Ok(());
                }
            }
        }
    }

    fn calls(&self, run: &RunId) -> Result<Vec<CallLine>, JournalError> {
        let mut link = self.take()?;
        let done = link.runtime.run(async {
            let rows = sqlx::query(
                "SELECT call, tool, server, arguments, intent_at IS NOT NULL, outcome, summary, took_ms,
                     proposed_at, settled.at, happened, note
                 FROM calls LEFT JOIN settled USING (run, call)
                 WHERE run = (SELECT key FROM runs WHERE name = $1) ORDER BY call",
            )
            .bind(run.as_str())
            .fetch_all(&mut link.connection)
            .await?;
            rows.iter()
                .map(|row| call(row, run))
                .collect::<Result<Vec<_>, _>>()
        });
        self.done(link, done)
    }

    fn unknown(&self) -> Result<Vec<UnknownCall>, JournalError> {
        let mut link = self.take()?;
        let done = link.runtime.run(async {
            // What was sent has a server and a tool.
            let rows = sqlx::query(
                "SELECT name, call, proposed_at, workspace, coalesce(server, ''), tool, coalesce(raw_tool, ''),
                     arguments, summary,
                     (SELECT body FROM events WHERE run = runs.key
                        AND starts_with(body, '{\"type\":\"call_checkable\",\"call\":' || call || ',') LIMIT 1)
                 FROM calls JOIN runs ON key = run LEFT JOIN settled USING (run, call)
                 WHERE outcome = 'unknown' AND settled.at IS NULL ORDER BY proposed_at, key, call",
            )
            .fetch_all(&mut link.connection)
            .await?;
            rows.iter()
                .map(unknown)
                .collect::<Result<Vec<_>, _>>()
        });
        self.done(link, done)
    }

    fn approvals(&self, others: u32) -> Result<Vec<Approval>, JournalError> {
        let mut link = self.take()?;
        let done = link
            .runtime
            .run(approvals::list(&mut link.connection, others));
        self.done(link, done)
    }

    fn approvals_named(&self, begins: &str, limit: u32) -> Result<Vec<Approval>, JournalError> {
        let mut link = self.take()?;
        let done = link
            .runtime
            .run(approvals::named(&mut link.connection, begins, limit));
        self.done(link, done)
    }

    fn approvals_decided(&self, run: &RunId) -> Result<Vec<Approval>, JournalError> {
        let mut link = self.take()?;
        let done = link
            .runtime
            .run(approvals::decided(&mut link.connection, run));
        self.done(link, done)
    }

    fn artifacts(&self, limit: u32) -> Result<Vec<ArtifactLine>, JournalError> {
        let mut link = self.take()?;
        let done = link.runtime.run(index::list(&mut link.connection, limit));
        self.done(link, done)
    }

    fn artifacts_named(&self, digits: &str, limit: u32) -> Result<Vec<ArtifactLine>, JournalError> {
        let mut link = self.take()?;
        let done = link
            .runtime
            .run(index::named(&mut link.connection, digits, limit));
        self.done(link, done)
    }

    fn origins(&self, artifact: &Digest) -> Result<Vec<KnownOrigin>, JournalError> {
        let mut link = self.take()?;
        let done = link
            .runtime
            .run(index::origins(&mut link.connection, artifact));
        self.done(link, done)
    }

    fn collectable(&self) -> Result<Vec<(ArtifactLine, bool)>, JournalError> {
        let mut link = self.take()?;
        let done = link.runtime.run(index::candidates(&mut link.connection));
        self.done(link, done)
    }

    fn strangers(&self, contents: &[Digest]) -> Result<Vec<Digest>, JournalError> {
        let mut link = self.take()?;
        let done = link
            .runtime
            .run(index::strangers(&mut link.connection, contents));
        self.done(link, done)
    }

    fn one_state(&self, begin: bool) -> Result<(), JournalError> {
        let sql = if begin {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        } else {
            "COMMIT"
        };
        let mut link = self.take()?;
        let done = link
            .runtime
            .run(async { Ok(link.connection.execute(sql).await.map(drop)?) });
        self.in_state.set(begin);
        self.done(link, done)
    }

    fn lines(
        &self,
        run: Option<&str>,
        take: &mut dyn FnMut(StoredLine) -> bool,
    ) -> Result<(), JournalError> {
        let mut last = 0_i64;
        loop {
            let mut link = self.take()?;
            let done = link.runtime.run(async {
                let rows = sqlx::query(
                    "SELECT line, runs.name, seq, at, v, body, hash, run,
                         (SELECT hash FROM events AS before WHERE before.line < events.line
                            ORDER BY before.line DESC LIMIT 1)
                     FROM events LEFT JOIN runs ON runs.key = run
                     WHERE line > $1 AND ($2::text IS NULL OR runs.name = $2) ORDER BY line LIMIT $3",
                )
                .bind(last)
                .bind(run)
                .bind(WINDOW)
                .fetch_all(&mut link.connection)
                .await?;
                rows.iter()
                    .map(stored)
                    .collect::<Result<Vec<_>, _>>()
            });
            let lines = self.done(link, done)?;
            let Some(newest) = lines.last() else {
                return Ok(());
            };
            last = newest.line;
            for line in lines {
                if !take(line) {
                    return Ok(());
                }
            }
        }
    }

    fn beginning(&self) -> Result<Option<Digest>, JournalError> {
        let mut link = self.take()?;
        let done = link.runtime.run(async {
            let found = sqlx::query("SELECT hash FROM events ORDER BY line LIMIT 1")
                .fetch_optional(&mut link.connection)
                .await?;
            found.map(|row| digest(row.try_get(0)?)).transpose()
        });
        self.done(link, done)
    }

    fn chain_end(&self) -> Result<(i64, Digest), JournalError> {
        let mut link = self.take()?;
        let done = link.runtime.run(async {
            let row = sqlx::query("SELECT line, head FROM chain")
                .fetch_one(&mut link.connection)
                .await?;
            Ok((row.try_get(0)?, digest(row.try_get(1)?)?))
        });
        self.done(link, done)
    }

    fn ends(
        &self,
        take: &mut dyn FnMut(i64, u32, Option<&str>) -> bool,
    ) -> Result<(), JournalError> {
        let mut last = (0_i64, -1_i64);
        loop {
            let mut link = self.take()?;
            let done = link.runtime.run(async {
                let rows: Vec<(i64, i64, Option<String>)> = sqlx::query_as(
                    "SELECT run, call, outcome FROM calls WHERE (run, call) > ($1, $2) ORDER BY run, call LIMIT $3",
                )
                .bind(last.0)
                .bind(last.1)
                .bind(WINDOW)
                .fetch_all(&mut link.connection)
                .await?;
                Ok(rows)
            });
            let ends = self.done(link, done)?;
            let Some((run, call, _)) = ends.last() else {
                return Ok(());
            };
            last = (*run, *call);
            for (run, call, outcome) in ends {
                let call = u32::try_from(call).unwrap_or(u32::MAX);
                if !take(run, call, outcome.as_deref()) {
                    return Ok(());
                }
            }
        }
    }
}

fn stored(row: &PgRow) -> Result<StoredLine, PgError> {
    let before: Option<&[u8]> = row.try_get(8)?;
    Ok(StoredLine {
        line: row.try_get(0)?,
        run: row.try_get(1)?,
        seq: row.try_get(2)?,
        at: row.try_get(3)?,
        v: narrow(row.try_get(4)?)?,
        body: row.try_get(5)?,
        hash: Some(digest(row.try_get(6)?)?),
        key: row.try_get(7)?,
        previous: before.map(digest).transpose()?,
    })
}

fn recorded(row: &PgRow, run: &RunId) -> Result<Recorded, PgError> {
    let event: Event = serde_json::from_str(row.try_get(3)?)
        .map_err(|error| PgError::Unreadable(error.to_string()))?;
    Ok(Recorded {
        v: narrow(row.try_get(0)?)?,
        seq: count(row, 1)?,
        at: time(row, 2)?,
        run: run.clone(),
        event,
    })
}

fn call(row: &PgRow, run: &RunId) -> Result<CallLine, PgError> {
    let outcome = word(row, 5, &OutcomeKind::ALL, OutcomeKind::as_str)?;
    let not_sent = matches!(outcome, Some(OutcomeKind::NotSent | OutcomeKind::Rejected));
    let settled: Option<i64> = row.try_get(9)?;
    Ok(CallLine {
        run: run.clone(),
        call: narrow(row.try_get(0)?)?,
        tool: row.try_get(1)?,
        server: row.try_get(2)?,
        arguments: row.try_get(3)?,
        sent: row.try_get::<bool, _>(4)? && !not_sent,
        outcome,
        summary: row.try_get(6)?,
        took_ms: count(row, 7)?,
        at: time(row, 8)?,
        settled: match settled {
            None => None,
            Some(_) => Some(Finding {
                at: time(row, 9)?,
                happened: row.try_get(10)?,
                note: row.try_get(11)?,
            }),
        },
    })
}

fn unknown(row: &PgRow) -> Result<UnknownCall, PgError> {
    let checkable: Option<String> = row.try_get(9)?;
    let checks = match checkable.and_then(|body| serde_json::from_str(&body).ok()) {
        Some(Event::CallCheckable { tools, .. }) => tools,
        _ => Vec::new(),
    };
    Ok(UnknownCall {
        run: name(row, 0)?,
        call: narrow(row.try_get(1)?)?,
        at: time(row, 2)?,
        workspace: row.try_get(3)?,
        server: row.try_get(4)?,
        tool: row.try_get(5)?,
        raw_tool: row.try_get(6)?,
        arguments: row.try_get(7)?,
        why: row.try_get(8)?,
        checks,
    })
}

fn summary(row: &PgRow) -> Result<RunSummary, PgError> {
    let ended: Option<i64> = row.try_get(2)?;
    Ok(RunSummary {
        id: name(row, 0)?,
        started: time(row, 1)?,
        ended: ended.map(|_| time(row, 2)).transpose()?,
        command: row.try_get(3)?,
        question: row.try_get(4)?,
        model: row.try_get(5)?,
        workspace: row.try_get(6)?,
        status: word(row, 7, &RunStatus::ALL, RunStatus::as_str)?,
        calls: count(row, 8)?,
        unknown: count(row, 9)?,
        usage: Tokens {
            input: count(row, 10)?,
            cached: count(row, 11)?,
            output: count(row, 12)?,
        },
        stopped: row.try_get(13)?,
        principal: principal(row.try_get(14)?),
    })
}

/// Whom the first event of a run names.
fn principal(started: Option<String>) -> Option<String> {
    match started.and_then(|body| serde_json::from_str(&body).ok()) {
        Some(Event::RunStarted { principal, .. }) => principal,
        _ => None,
    }
}

pub(super) fn name(row: &PgRow, column: usize) -> Result<RunId, PgError> {
    let name: String = row.try_get(column)?;
    name.parse()
        .map_err(|_| PgError::Unreadable(format!("the run `{name}`")))
}

/// One of the words that are stored for an enum.
pub(super) fn word<T: Copy>(
    row: &PgRow,
    column: usize,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Result<Option<T>, PgError> {
    let Some(word) = row.try_get::<Option<String>, _>(column)? else {
        return Ok(None);
    };
    let known = all.iter().copied().find(|known| as_str(*known) == word);
    known
        .map(Some)
        .ok_or_else(|| PgError::Unreadable(format!("`{word}` is not a word that belongs here")))
}

/// Counts are stored from unsigned numbers.
pub(super) fn count(row: &PgRow, column: usize) -> Result<u64, PgError> {
    Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
}

pub(super) fn narrow(number: i64) -> Result<u32, PgError> {
    u32::try_from(number).map_err(|_| PgError::Unreadable(format!("the number {number}")))
}

pub(super) fn time(row: &PgRow, column: usize) -> Result<Timestamp, PgError> {
    Timestamp::from_microsecond(row.try_get(column)?)
        .map_err(|error| PgError::Unreadable(error.to_string()))
}

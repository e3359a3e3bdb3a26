//! What the journal says: runs, events, ledger lines.

mod unknown;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use serde::Serialize;

pub use unknown::{Finding, UnknownCall};

use crate::approvals::{self, Approval};
use crate::artifacts::index::{self, ArtifactLine, KnownOrigin};
use crate::audit::StoredLine;
use crate::schema::{open_as_it_is, open_reader};
use crate::store::{Records, Source};
use crate::{Digest, Event, JournalError, OutcomeKind, Recorded, RunId, RunStatus, Tokens};

/// How many runs an ambiguous name lists.
pub(crate) const LISTED: u32 = 6;

const SUMMARY: &str =
    "SELECT name, started_at, ended_at, command, question, model, workspace, status,
    (SELECT count(*) FROM calls WHERE run = key),
    (SELECT count(*) FROM calls WHERE run = key AND outcome = 'unknown')
        - (SELECT count(*) FROM settled JOIN calls USING (run, call) WHERE run = key AND outcome = 'unknown'),
    input, cached, output, stopped_at IS NOT NULL AND ended_at IS NULL,
    (SELECT json_extract(body, '$.principal') FROM events WHERE run = key AND seq = 1) FROM runs";

/// One line of `outrigger runs`.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Its name.
    pub id: RunId,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; `None` while it goes on, or when the host was stopped.
    pub ended: Option<Timestamp>,
    /// `ask`, `call`, …
    pub command: String,
    /// The question, where there was one.
    pub question: Option<String>,
    /// The model, where there was one.
    pub model: Option<String>,
    /// The folder.
    pub workspace: String,
    /// How it ended.
    pub status: Option<RunStatus>,
    /// Calls proposed.
    pub calls: u64,
    /// Calls whose outcome is unknown, and of which nobody has said what came of them.
    pub unknown: u64,
    /// Tokens of all turns.
    pub usage: Tokens,
    /// Whether its host was stopped before it ended.
    pub stopped: bool,
    /// The client of the gateway that it was for, where that has shown who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// One line of the ledger of calls.
#[derive(Debug, Clone, Serialize)]
pub struct CallLine {
    /// Its run.
    pub run: RunId,
    /// Number within the run.
    pub call: u32,
    /// Model-facing name.
    pub tool: String,
    /// Configured name of the server; `None` when the tool was not found.
    pub server: Option<String>,
    /// Arguments: those sent, else those proposed.
    pub arguments: String,
    /// Whether an intent was written, and the end does not say that nothing was sent after all.
    pub sent: bool,
    /// How it ended; `None` while it goes on. A host that was stopped leaves such lines only until
    /// the journal is opened again.
    pub outcome: Option<OutcomeKind>,
    /// One line for a person.
    pub summary: String,
    /// Milliseconds from sending to the end.
    pub took_ms: u64,
    /// When it was proposed.
    pub at: Timestamp,
    /// What a person found out about it, where its outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<Finding>,
}

/// A file to be read.
pub(crate) struct Readers {
    pub(crate) path: PathBuf,
}

impl Source for Readers {
    fn open(&self) -> Result<Box<dyn Records>, JournalError> {
        Ok(Box::new(Reader::open(&self.path)?))
    }
}

/// A connection for reading.
pub(crate) struct Reader {
    path: PathBuf,
    connection: Connection,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        Ok(Self {
            path: path.to_path_buf(),
            connection: open_reader(path)?,
        })
    }

    /// For a file that nobody has opened before.
    pub(crate) fn as_it_is(path: &Path) -> Result<Self, JournalError> {
        Ok(Self {
            path: path.to_path_buf(),
            connection: open_as_it_is(path)?,
        })
    }

    /// Whatever is to be read.
    pub(crate) fn with<T>(
        &self,
        reading: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, JournalError> {
        reading(&self.connection).map_err(|error| JournalError::sqlite(&self.path, &error))
    }

    fn list<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, JournalError> {
        let failed = |error: rusqlite::Error| JournalError::sqlite(&self.path, &error);
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let rows = statement.query_map(values, read).map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }
}

impl Records for Reader {
    fn runs(&self, limit: u32) -> Result<Vec<RunSummary>, JournalError> {
        self.list(
            &format!("{SUMMARY} ORDER BY started_at DESC, key DESC LIMIT ?1"),
            params![limit],
            summary,
        )
    }

    fn find(&self, name: &str) -> Result<Option<RunSummary>, JournalError> {
        if name.is_empty() {
            return Ok(None);
        }
        let sql = format!(
            "{SUMMARY} WHERE substr(name, 1, length(?1)) = ?1 OR (length(?1) = 4 AND substr(name, -4) = ?1)
             ORDER BY started_at DESC, key DESC LIMIT ?2"
        );
        let mut found = self.list(&sql, params![name, LISTED], summary)?;
        if found.len() > 1 {
            let matches = found.into_iter().map(|run| run.id.to_string()).collect();
            return Err(JournalError::Ambiguous {
                path: self.path.clone(),
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
        let sql = "SELECT v, seq, at, body FROM events WHERE run = (SELECT key FROM runs WHERE name = ?1) ORDER BY seq";
        self.with(|connection| {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([run.as_str()])?;
            while let Some(row) = rows.next()? {
                let body = row.get_ref(3)?.as_str()?;
                let event: Event =
                    serde_json::from_str(body).map_err(|error| unreadable(3, error))?;
                let recorded = Recorded {
                    v: row.get(0)?,
                    seq: count(row, 1)?,
                    at: time(row, 2)?,
                    run: run.clone(),
                    event,
                };
                if !take(recorded) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn calls(&self, run: &RunId) -> Result<Vec<CallLine>, JournalError> {
        let sql = "SELECT call, tool, server, arguments, intent_at IS NOT NULL, outcome, summary, took_ms, proposed_at,
                 at, happened, note
             FROM calls LEFT JOIN settled USING (run, call)
             WHERE run = (SELECT key FROM runs WHERE name = ?1) ORDER BY call";
        self.list(sql, params![run.as_str()], |row| {
            let outcome = word(row, 5, &OutcomeKind::ALL, OutcomeKind::as_str)?;
            let not_sent = matches!(outcome, Some(OutcomeKind::NotSent | OutcomeKind::Rejected));
            Ok(CallLine {
                run: run.clone(),
                call: row.get(0)?,
                tool: row.get(1)?,
                server: row.get(2)?,
                arguments: row.get(3)?,
                sent: row.get::<_, bool>(4)? && !not_sent,
                outcome,
                summary: row.get(6)?,
                took_ms: count(row, 7)?,
                at: time(row, 8)?,
                settled: unknown::finding(row, 9)?,
            })
        })
    }

    fn unknown(&self) -> Result<Vec<UnknownCall>, JournalError> {
        self.unknown_calls()
    }

    fn approvals(&self, others: u32) -> Result<Vec<Approval>, JournalError> {
        self.with(|connection| approvals::list(connection, others))
    }

    fn approvals_named(&self, begins: &str, limit: u32) -> Result<Vec<Approval>, JournalError> {
        self.with(|connection| approvals::named(connection, begins, limit))
    }

    fn approvals_decided(&self, run: &RunId) -> Result<Vec<Approval>, JournalError> {
        self.with(|connection| approvals::decided(connection, run))
    }

    fn artifacts(&self, limit: u32) -> Result<Vec<ArtifactLine>, JournalError> {
        self.with(|connection| index::list(connection, limit))
    }

    fn artifacts_named(&self, digits: &str, limit: u32) -> Result<Vec<ArtifactLine>, JournalError> {
        self.with(|connection| index::named(connection, digits, limit))
    }

    fn origins(&self, artifact: &Digest) -> Result<Vec<KnownOrigin>, JournalError> {
        self.with(|connection| index::origins(connection, artifact))
    }

    fn collectable(&self) -> Result<Vec<(ArtifactLine, bool)>, JournalError> {
        self.with(index::candidates)
    }

    fn strangers(&self, contents: &[Digest]) -> Result<Vec<Digest>, JournalError> {
        self.with(|connection| index::strangers(connection, contents))
    }

    fn one_state(&self, begin: bool) -> Result<(), JournalError> {
        self.with(|connection| connection.execute_batch(if begin { "BEGIN" } else { "COMMIT" }))
    }

    fn lines(
        &self,
        run: Option<&str>,
        take: &mut dyn FnMut(StoredLine) -> bool,
    ) -> Result<(), JournalError> {
        self.with(|connection| lines(connection, run, take))
    }

    fn chain_end(&self) -> Result<(i64, Digest), JournalError> {
        self.with(|connection| {
            connection.query_row("SELECT line, head FROM chain", [], |row| {
                Ok((row.get(0)?, row.get::<_, [u8; 32]>(1)?.into()))
            })
        })
    }

    fn ends(
        &self,
        take: &mut dyn FnMut(i64, u32, Option<&str>) -> bool,
    ) -> Result<(), JournalError> {
        self.with(|connection| {
            let mut statement = connection.prepare("SELECT run, call, outcome FROM calls")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if !take(row.get(0)?, row.get(1)?, row.get_ref(2)?.as_str_or_null()?) {
                    break;
                }
            }
            Ok(())
        })
    }
}

fn lines(
    connection: &Connection,
    run: Option<&str>,
    take: &mut dyn FnMut(StoredLine) -> bool,
) -> rusqlite::Result<()> {
    // Whoever looks at all lines has seen the one before.
    let sql = match run {
        None => {
            "SELECT line, runs.name, seq, at, v, body, hash, run, NULL
             FROM events LEFT JOIN runs ON runs.key = run ORDER BY line"
        }
        Some(_) => {
            "SELECT line, runs.name, seq, at, v, body, hash, run,
                 (SELECT hash FROM events AS before WHERE before.line < events.line
                    ORDER BY before.line DESC LIMIT 1)
             FROM events LEFT JOIN runs ON runs.key = run
             WHERE run = (SELECT key FROM runs WHERE name = ?1) ORDER BY line"
        }
    };
    let mut statement = connection.prepare(sql)?;
    let mut rows = match run {
        None => statement.query([])?,
        Some(run) => statement.query([run])?,
    };
    let mut previous = None;
    while let Some(row) = rows.next()? {
        let hash = |column| row.get::<_, Option<[u8; 32]>>(column);
        let line = StoredLine {
            line: row.get(0)?,
            run: row.get(1)?,
            seq: row.get(2)?,
            at: row.get(3)?,
            v: row.get(4)?,
            body: row.get(5)?,
            hash: hash(6)?.map(Digest::from),
            key: row.get(7)?,
            previous: hash(8)?.map(Digest::from).or(previous),
        };
        previous = line.hash;
        if !take(line) {
            break;
        }
    }
    Ok(())
}

fn summary(row: &Row) -> rusqlite::Result<RunSummary> {
    Ok(RunSummary {
        id: row
            .get::<_, String>(0)?
            .parse()
            .map_err(|error| unreadable(0, error))?,
        started: time(row, 1)?,
        ended: row
            .get::<_, Option<i64>>(2)?
            .map(|_| time(row, 2))
            .transpose()?,
        command: row.get(3)?,
        question: row.get(4)?,
        model: row.get(5)?,
        workspace: row.get(6)?,
        status: word(row, 7, &RunStatus::ALL, RunStatus::as_str)?,
        calls: count(row, 8)?,
        unknown: count(row, 9)?,
        usage: Tokens {
            input: count(row, 10)?,
            cached: count(row, 11)?,
            output: count(row, 12)?,
        },
        stopped: row.get(13)?,
        principal: row.get(14)?,
    })
}

/// Counts are stored from unsigned numbers.
pub(crate) fn count(row: &Row, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}

pub(crate) fn time(row: &Row, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|error| unreadable(column, error))
}

/// One of the words that are stored for an enum.
pub(crate) fn word<T: Copy>(
    row: &Row,
    column: usize,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> rusqlite::Result<Option<T>> {
    let Some(word) = row.get::<_, Option<String>>(column)? else {
        return Ok(None);
    };
    let known = all.iter().copied().find(|known| as_str(*known) == word);
    known
        .map(Some)
        .ok_or_else(|| unreadable(column, format!("`{word}` is not a word that belongs here")))
}

pub(crate) fn unreadable(
    column: usize,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

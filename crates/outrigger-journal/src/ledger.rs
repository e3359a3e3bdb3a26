//! What an event changes in the tables: its own line, the run, the ledger line of its call. All
//! functions work inside a transaction of the caller.

mod begun;

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::chain::{Chain, Content};
use crate::{Event, JournalError, OutcomeKind, RunId, RunStatus, Tokens, VERSION};

pub(crate) use begun::Begun;

/// A run to begin.
pub(crate) struct NewRun<'a> {
    pub(crate) name: &'a RunId,
    pub(crate) host: &'a str,
    pub(crate) at: Timestamp,
    pub(crate) start: &'a Start,
    pub(crate) body: &'a str,
}

/// What the line of a run says about its start.
#[derive(Clone)]
pub(crate) struct Start {
    pub(crate) command: String,
    pub(crate) question: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) workspace: String,
    pub(crate) version: String,
}

/// One event with its place.
pub(crate) struct Entry<'a> {
    pub(crate) run: i64,
    pub(crate) name: &'a RunId,
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) body: &'a str,
    pub(crate) change: &'a Change,
}

/// What an event changes beyond being there.
pub(crate) enum Change {
    Nothing,
    Proposed {
        call: u32,
        turn: Option<u32>,
        tool: String,
        arguments: String,
    },
    Prepared {
        call: u32,
        server: String,
        raw_tool: String,
        arguments: String,
    },
    Decided {
        call: u32,
        allowed: bool,
        rule: String,
    },
    Intent {
        call: u32,
    },
    Ended {
        call: u32,
        outcome: OutcomeKind,
        is_error: bool,
        summary: String,
        tokens: u64,
        took_ms: u64,
    },
    Late {
        call: u32,
        outcome: OutcomeKind,
        summary: String,
    },
    Settled {
        of: RunId,
        call: u32,
        happened: bool,
        note: Option<String>,
    },
    Spent(Tokens),
    RunEnded {
        status: RunStatus,
        usage: Tokens,
    },
}

/// Why an event could not be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    File(std::io::Error),
    #[error(
        "another program has removed or added lines at its end: the chain ends at line {line}, the file at line {last}, and `outrigger audit verify` says more"
    )]
    BrokenChain { line: i64, last: i64 },
    #[error("call {call} has no line")]
    NoLine { call: u32 },
    #[error("the run has no line, or has ended")]
    NoOpenRun,
}

impl LedgerError {
    /// As an error of the whole file.
    pub(crate) fn of_store(self, path: &Path) -> JournalError {
        match self {
            Self::Sqlite(error) => JournalError::sqlite(path, &error),
            other => JournalError::Corrupt {
                path: path.to_path_buf(),
                reason: other.to_string(),
            },
        }
    }
}

impl Change {
    pub(crate) fn of(event: &Event) -> Self {
        match event {
            Event::CallProposed {
                call,
                turn,
                tool,
                arguments,
                client: _,
            } => Self::Proposed {
                call: *call,
                turn: *turn,
                tool: tool.clone(),
                arguments: arguments.clone(),
            },
            Event::CallPrepared {
                call,
                server,
                raw_tool,
                arguments,
                repairs: _,
                artifacts: _,
            } => Self::Prepared {
                call: *call,
                server: server.clone(),
                raw_tool: raw_tool.clone(),
                arguments: arguments.get().to_owned(),
            },
            Event::CallDecided {
                call,
                allowed,
                rule,
                by: _,
                reason: _,
            } => Self::Decided {
                call: *call,
                allowed: *allowed,
                rule: rule.clone(),
            },
            Event::CallIntent { call } => Self::Intent { call: *call },
            Event::CallEnded { .. } => Self::of_end(event),
            Event::LateAnswer {
                call,
                outcome,
                summary,
                result: _,
                kept: _,
            } => Self::Late {
                call: *call,
                outcome: *outcome,
                summary: summary.clone(),
            },
            Event::CallSettled { .. } => Self::of_settled(event),
            Event::ModelAnswered { usage, .. } => Self::Spent(*usage),
            Event::RunEnded { status, usage, .. } => Self::RunEnded {
                status: *status,
                usage: *usage,
            },
            _ => Self::Nothing,
        }
    }

    fn of_settled(event: &Event) -> Self {
        match event {
            Event::CallSettled {
                of,
                call,
                happened,
                note,
            } => Self::Settled {
                of: of.clone(),
                call: *call,
                happened: *happened,
                note: note.clone(),
            },
            _ => Self::Nothing,
        }
    }

    fn of_end(event: &Event) -> Self {
        match event {
            Event::CallEnded {
                call,
                outcome,
                is_error,
                summary,
                result: _,
                kept: _,
                artifacts: _,
                tokens,
                took_ms,
            } => Self::Ended {
                call: *call,
                outcome: *outcome,
                is_error: *is_error,
                summary: summary.clone(),
                tokens: *tokens,
                took_ms: *took_ms,
            },
            _ => Self::Nothing,
        }
    }

    /// It is about a line that is there.
    pub(crate) fn needs_a_line(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Settled { .. })
    }

    /// Bytes of memory that it takes beside the event, roughly.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Proposed { arguments, .. } | Self::Prepared { arguments, .. } => arguments.len(),
            Self::Ended { summary, .. } | Self::Late { summary, .. } => summary.len(),
            _ => 0,
        }
    }
}

/// Adds a run with its first event; `None` when the name is taken.
pub(crate) fn begin(
    connection: &Connection,
    chain: &mut Chain,
    run: &NewRun,
) -> Result<Option<i64>, LedgerError> {
    let Start {
        command,
        question,
        model,
        workspace,
        version,
    } = run.start;
    let key = connection
        .prepare_cached(
            "INSERT INTO runs (name, host, started_at, command, question, model, workspace, version)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (name) DO NOTHING RETURNING key",
        )?
        .query_row(
            params![run.name.as_str(), run.host, run.at.as_microsecond(), command, question, model, workspace, version],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(key) = key {
        let first = Entry {
            run: key,
            name: run.name,
            seq: 1,
            at: run.at,
            body: run.body,
            change: &Change::Nothing,
        };
        append(connection, chain, (&first, 0), &mut Begun::default())?;
    }
    Ok(key)
}

/// Adds an event and updates what it changes, or leaves that to `begun`, which is to be written before
/// anything that looks at the lines of calls. The number counts the entries of the transaction.
pub(crate) fn append<'a>(
    connection: &Connection,
    chain: &mut Chain,
    (entry, of): (&Entry<'a>, usize),
    begun: &mut Begun<'a>,
) -> Result<(), LedgerError> {
    let content = Content {
        line: chain.next(),
        run: entry.name.as_str(),
        seq: int(entry.seq),
        at: entry.at.as_microsecond(),
        v: VERSION,
        body: entry.body,
    };
    let hash = chain.add(&content);
    connection
        .prepare_cached(
            "INSERT INTO events (line, run, seq, at, v, body, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            content.line,
            entry.run,
            content.seq,
            content.at,
            content.v,
            content.body,
            hash.as_bytes()
        ])?;
    match entry.change {
        Change::Nothing => Ok(()),
        Change::Spent(_) | Change::RunEnded { .. } => change_run(connection, entry),
        _ if begun.take(entry, of) => Ok(()),
        _ => change_call(connection, entry),
    }
}

fn change_run(connection: &Connection, entry: &Entry) -> Result<(), LedgerError> {
    let changed = match entry.change {
        Change::Spent(Tokens { input, cached, output }) => connection
            .prepare_cached(
                "UPDATE runs SET input = input + ?2, cached = cached + ?3, output = output + ?4 WHERE key = ?1",
            )?
            .execute(params![entry.run, int(*input), int(*cached), int(*output)])?,
        Change::RunEnded { status, usage: Tokens { input, cached, output } } => connection
            .prepare_cached(
                "UPDATE runs SET ended_at = ?2, status = ?3, input = ?4, cached = ?5, output = ?6
                 WHERE key = ?1 AND ended_at IS NULL",
            )?
            .execute(params![
                entry.run,
                entry.at.as_microsecond(),
                status.as_str(),
                int(*input),
                int(*cached),
                int(*output)
            ])?,
        _ => return Ok(()),
    };
    if changed == 1 {
        Ok(())
    } else {
        Err(LedgerError::NoOpenRun)
    }
}

fn change_call(connection: &Connection, entry: &Entry) -> Result<(), LedgerError> {
    let (run, at) = (entry.run, entry.at.as_microsecond());
    let (call, sql, values): (u32, &str, &[&dyn rusqlite::ToSql]) = match entry.change {
        Change::Proposed { call, turn, tool, arguments } => (
            *call,
            "INSERT INTO calls (run, call, turn, tool, arguments, proposed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            &[&run, call, turn, tool, arguments, &at],
        ),
        Change::Prepared { call, server, raw_tool, arguments } => (
            *call,
            "UPDATE calls SET server = ?3, raw_tool = ?4, arguments = ?5 WHERE run = ?1 AND call = ?2",
            &[&run, call, server, raw_tool, arguments],
        ),
        Change::Decided { call, allowed, rule } => (
            *call,
            "UPDATE calls SET decided_at = ?3, allowed = ?4, rule = ?5 WHERE run = ?1 AND call = ?2",
            &[&run, call, &at, allowed, rule],
        ),
        Change::Intent { call } => (
            *call,
            "UPDATE calls SET intent_at = coalesce(intent_at, ?3) WHERE run = ?1 AND call = ?2",
            &[&run, call, &at],
        ),
        Change::Ended { call, outcome, is_error, summary, tokens, took_ms } => (
            *call,
            "UPDATE calls SET ended_at = ?3, outcome = ?4, is_error = ?5, summary = ?6, tokens = ?7, took_ms = ?8
             WHERE run = ?1 AND call = ?2",
            &[&run, call, &at, &outcome.as_str(), is_error, summary, &int(*tokens), &int(*took_ms)],
        ),
        Change::Late { call, outcome, summary } => (
            *call,
            "UPDATE calls SET late_at = ?3, outcome = ?4, summary = ?5 WHERE run = ?1 AND call = ?2",
            &[&run, call, &at, &outcome.as_str(), summary],
        ),
        // Into the line of another run, mostly.
        Change::Settled { of, call, happened, note } => (
            *call,
            "INSERT INTO settled (run, call, at, happened, note)
             SELECT key, ?2, ?3, ?4, ?5 FROM runs WHERE name = ?1
             ON CONFLICT (run, call) DO UPDATE SET at = ?3, happened = ?4, note = ?5",
            &[&of.as_str(), call, &at, happened, note],
        ),
        Change::Nothing | Change::Spent(_) | Change::RunEnded { .. } => return Ok(()),
    };
    let changed = connection.prepare_cached(sql)?.execute(values)?;
    if changed == 1 {
        Ok(())
    } else {
        Err(LedgerError::NoLine { call })
    }
}

/// SQLite counts in signed numbers; a count beyond 2^63 does not happen.
pub(crate) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{PATIENCE, open_writer};

    #[test]
    fn a_taken_name_is_told_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let connection = open_writer(&path, PATIENCE, || false).unwrap().connection;
        let text = String::new;
        let start = Start {
            command: text(),
            question: None,
            model: None,
            workspace: text(),
            version: text(),
        };
        let at = crate::run::now();
        let begin_as = |digits| {
            let run = NewRun {
                name: &RunId::new(at, digits),
                host: "",
                at,
                start: &start,
                body: "{}",
            };
            let mut chain = Chain::load(&connection).unwrap();
            let key = begin(&connection, &mut chain, &run).unwrap();
            chain.store(&connection).unwrap();
            key
        };
        assert_eq!(begin_as(1), Some(1));
        assert_eq!(begin_as(1), None);
        assert_eq!(begin_as(2), Some(2));
        let count = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(count("SELECT count(*) FROM runs"), Ok(2));
        assert_eq!(count("SELECT count(*) FROM events"), Ok(2));
    }
}

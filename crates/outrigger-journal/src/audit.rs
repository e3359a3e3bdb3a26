//! Looking at a journal file as it is: whether its chain holds, and its lines for others to check.
//!
//! Nothing is brought up, recovered or otherwise changed, so that what is found is what was there.

mod verify;

use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use self::verify::Walk;
use crate::read::Reader;
use crate::store::Records as _;
use crate::{Digest, JournalError, RunSummary};

/// A journal file to be looked at.
pub struct Audit {
    path: PathBuf,
    reader: Reader,
}

/// One line of the journal with its hash, as it is exported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditLine {
    /// Its number in the file.
    pub line: i64,
    /// Name of its run.
    pub run: String,
    /// Position within the run.
    pub seq: i64,
    /// Microseconds since 1970-01-01 UTC.
    pub at: i64,
    /// Version of the vocabulary.
    pub v: u32,
    /// The event, as it is stored.
    pub body: String,
    /// The hash of the line before it.
    pub previous: Digest,
    /// Its own.
    pub hash: Digest,
}

/// What looking came to.
#[derive(Debug, Clone, Serialize)]
pub struct AuditReport {
    /// Lines that were looked at and found right.
    pub lines: u64,
    /// Number of the last of them; 0 where there is none.
    pub last: i64,
    /// Its hash: whoever keeps both elsewhere can later tell whether the file still holds that line.
    pub head: Digest,
    /// The first thing that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<AuditFault>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFault {
    /// The first line that it shows at; `None` where it is not about one.
    pub line: Option<i64>,
    /// In words.
    pub what: String,
}

/// Lines with the names of their runs.
const LINES: &str = "SELECT line, runs.name, seq, at, v, body, hash, run
    FROM events LEFT JOIN runs ON runs.key = run";

impl Audit {
    /// Opens a file that has the format of this version.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Ok(Self {
            path: path.to_path_buf(),
            reader: Reader::as_it_is(path)?,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A run, as [`crate::Journal::find`] finds it.
    pub fn find(&self, name: &str) -> Result<Option<RunSummary>, JournalError> {
        self.reader.find(&name.trim().to_ascii_lowercase())
    }

    /// Computes the chain anew, compares each line and the end, and then the ledger of calls with
    /// what the lines say. `expected` is a line and the hash that it had.
    pub fn verify(&self, expected: Option<(i64, Digest)>) -> Result<AuditReport, JournalError> {
        self.reader.with(|connection| {
            // One state, whatever others write meanwhile.
            connection.execute_batch("BEGIN")?;
            let report = Walk::new(expected).over(connection);
            connection.execute_batch("COMMIT")?;
            report
        })
    }

    /// Gives the lines of the file, or of the run with this name, to `take`, in order, until it says
    /// false.
    pub fn lines(
        &self,
        run: Option<&str>,
        mut take: impl FnMut(AuditLine) -> bool,
    ) -> Result<(), JournalError> {
        let only = match run {
            None => "",
            Some(_) => "WHERE run = (SELECT key FROM runs WHERE name = ?1)",
        };
        self.reader.with(|connection| {
            let mut statement = connection.prepare(&format!("{LINES} {only} ORDER BY line"))?;
            let mut before = connection
                .prepare("SELECT hash FROM events WHERE line < ?1 ORDER BY line DESC LIMIT 1")?;
            let mut last = (0, Digest::from([0; 32]));
            let mut rows = match run {
                None => statement.query([])?,
                Some(run) => statement.query(params![run])?,
            };
            while let Some(row) = rows.next()? {
                let line: i64 = row.get(0)?;
                if line != last.0 + 1 {
                    let found = before.query_row([line], |row| hash(row, 0)).optional()?;
                    last.1 = found.unwrap_or_else(|| [0; 32].into());
                }
                let exported = AuditLine {
                    line,
                    run: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
                    seq: row.get(2)?,
                    at: row.get(3)?,
                    v: row.get(4)?,
                    body: row.get(5)?,
                    previous: last.1,
                    hash: hash(row, 6)?,
                };
                last = (line, exported.hash);
                if !take(exported) {
                    break;
                }
            }
            Ok(())
        })
    }
}

fn hash(row: &Row, column: usize) -> rusqlite::Result<Digest> {
    Ok(row.get::<_, [u8; 32]>(column)?.into())
}

//! Looking at a journal as it is: whether its chain holds, and its lines for others to check.
//!
//! Nothing is brought up, recovered or otherwise changed, so that what is found is what was there.

mod verify;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::verify::Walk;
use crate::read::Reader;
use crate::store::Records;
use crate::{Digest, JournalError, Place, RunSummary};

/// A journal to be looked at.
pub struct Audit {
    path: PathBuf,
    records: Box<dyn Records>,
}

/// One line as it is stored.
pub(crate) struct StoredLine {
    pub(crate) line: i64,
    /// `None` where its run was removed.
    pub(crate) run: Option<String>,
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) v: u32,
    pub(crate) body: String,
    pub(crate) hash: Option<Digest>,
    /// The hash of the line before it; `None` at the first.
    pub(crate) previous: Option<Digest>,
    /// The key of its run.
    pub(crate) key: i64,
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

impl Audit {
    /// Opens a file that has the format of this version.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Ok(Self {
            path: path.to_path_buf(),
            records: Box::new(Reader::as_it_is(path)?),
        })
    }

    /// Opens a journal that has the format of this version.
    pub fn open_in(place: &Place) -> Result<Self, JournalError> {
        match place {
            Place::File(path) => Self::open(path),
            #[cfg(feature = "postgres")]
            Place::Database(database) => {
                use crate::store::Source as _;
                let readers = crate::postgres::Readers::as_it_is(database.clone());
                Ok(Self {
                    path: database.name().to_path_buf(),
                    records: readers.open()?,
                })
            }
            #[cfg(not(feature = "postgres"))]
            Place::Database(database) => Err(JournalError::no_database(database)),
        }
    }

    /// The file, or the address of the database without its password.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A run, as [`crate::Journal::find`] finds it.
    pub fn find(&self, name: &str) -> Result<Option<RunSummary>, JournalError> {
        self.records.find(&name.trim().to_ascii_lowercase())
    }

    /// Computes the chain anew, compares each line and the end, and then the ledger of calls with
    /// what the lines say. `expected` is a line and the hash that it had.
    pub fn verify(&self, expected: Option<(i64, Digest)>) -> Result<AuditReport, JournalError> {
        self.records.one_state(true)?;
        let report = Walk::new(expected).over(&*self.records);
        self.records.one_state(false)?;
        report
    }

    /// Gives the lines of the journal, or of the run with this name, to `take`, in order, until it
    /// says false.
    pub fn lines(
        &self,
        run: Option<&str>,
        mut take: impl FnMut(AuditLine) -> bool,
    ) -> Result<(), JournalError> {
        let none = Digest::from([0; 32]);
        self.records.lines(run, &mut |stored| {
            take(AuditLine {
                line: stored.line,
                run: stored.run.unwrap_or_default(),
                seq: stored.seq,
                at: stored.at,
                v: stored.v,
                body: stored.body,
                previous: stored.previous.unwrap_or(none),
                hash: stored.hash.unwrap_or(none),
            })
        })
    }
}

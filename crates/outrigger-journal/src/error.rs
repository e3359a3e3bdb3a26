//! Why a journal could not be used, and how the words of SQLite and the system become that.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::Misplaced;

/// Why the journal could not be used; every variant that has a file names it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The run is only watched, see [`crate::Run::unrecorded`].
    #[error("this run is not recorded, so nothing in it can be made durable")]
    NotRecorded,
    /// The folder or file cannot be made, opened, read or written.
    #[error("the journal `{}` cannot be used: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The folder or file may not be written.
    #[error(
        "the journal `{}` cannot be written: {reason}; make its folder and files writable for this user",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// No room is left on its disk.
    #[error("no room is left on the disk of the journal `{}`; free some and try again", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another program keeps it locked.
    #[error(
        "the journal `{}` is kept locked by another program; end that program, or wait and try again",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a newer version.
    #[error(
        "the journal `{}` has format {found}; this version reads up to {known}: use the newer version, or move the file aside",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// It was written by an older version, which is using it.
    #[error(
        "the journal `{}` has format {found} and is in use by the older version of the program that made it; end that, then try again",
        path.display()
    )]
    OlderInUse {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It is not a journal, or damaged.
    #[error("`{}` is not a usable journal: {reason}; move the file aside to begin a new one", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// An event contradicts what its run has recorded; it was not recorded.
    #[error("the journal `{}` refused an event: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Which rule it broke.
        reason: Misplaced,
    },
    /// Events came faster than the disk took them; the rest of the run is not recorded.
    #[error(
        "events came faster than the disk of the journal `{}` took them; the rest of this run is not recorded",
        path.display()
    )]
    Overrun {
        /// The file.
        path: PathBuf,
    },
    /// A file that it refers to cannot be looked at or removed.
    #[error("a file of the journal `{}` cannot be used: {reason}", path.display())]
    Files {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It is in a database, which this program knows nothing of.
    #[error(
        "the journal `{}` cannot be used: this program was built without PostgreSQL; build it with `--features postgres`",
        path.display()
    )]
    NoDatabase {
        /// The address of the database, without its password.
        path: PathBuf,
    },
    /// It was closed before.
    #[error("the journal `{}` is closed", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
    /// A beginning of a name fits several runs.
    #[error(
        "`{name}` fits several runs in the journal `{}`: {}; write more of the name",
        path.display(),
        matches.join(", ")
    )]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// The newest that it fits, at most six, the newest first.
        matches: Vec<String>,
    },
}

impl JournalError {
    #[cfg(not(feature = "postgres"))]
    pub(crate) fn no_database(database: &crate::Database) -> Self {
        Self::NoDatabase {
            path: database.name().to_path_buf(),
        }
    }

    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly {
                path,
                reason: error.to_string(),
            },
            _ => Self::Unusable {
                path,
                reason: error.to_string(),
            },
        }
    }

    pub(crate) fn sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        let reason = error.to_string();
        let Some(code) = error.sqlite_error() else {
            return Self::Corrupt { path, reason };
        };
        match code.code {
            ErrorCode::DiskFull => Self::DiskFull { path },
            // The shared-memory file could not grow: the one write that SQLite does not check for
            // a full disk.
            ErrorCode::SystemIoFailure
                if code.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE =>
            {
                Self::DiskFull { path }
            }
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed => Self::Locked { path },
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
                Self::ReadOnly { path, reason }
            }
            // `Unknown` is what a missing table or column gives.
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown => {
                Self::Corrupt { path, reason }
            }
            _ => Self::Unusable { path, reason },
        }
    }
}

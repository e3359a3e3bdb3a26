//! Why an artifact could not be kept, found or read.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Digest;
use crate::JournalError;

/// Why an artifact could not be kept, found or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ArtifactError {
    /// Not written like a handle.
    #[error(
        "`{text}` is not an artifact: one is written `artifact://` and at least four of its hex digits"
    )]
    NotAHandle {
        /// What was written.
        text: String,
    },
    /// No artifact has this handle.
    #[error("there is no artifact `{handle}`")]
    NoSuch {
        /// As written.
        handle: String,
    },
    /// It fits several artifacts.
    #[error("`{handle}` fits several artifacts: {}; write more of its digits", matches.join(", "))]
    Ambiguous {
        /// As written.
        handle: String,
        /// The first that it fits, at most six.
        matches: Vec<String>,
    },
    /// It was removed to make room.
    #[error("the content of artifact `{handle}` was removed on {} to make room", at.strftime("%F"))]
    Collected {
        /// Its handle.
        handle: String,
        /// When.
        at: Timestamp,
    },
    /// Its file is not there, though nobody here removed it.
    #[error("the file `{}` of an artifact is missing; it was removed by hand", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Its file holds something else.
    #[error("the file `{}` of an artifact is damaged: its content is not that of its name", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The folder may not be written.
    #[error(
        "the artifact folder `{}` cannot be written: {reason}; make it writable for this user",
        path.display()
    )]
    ReadOnly {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// No room is left.
    #[error(
        "no room is left on the disk of the artifact folder `{}`; free some, or run `outrigger artifacts gc`",
        path.display()
    )]
    DiskFull {
        /// The folder.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be used.
    #[error("the artifact folder `{}` cannot be used: {reason}", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The bucket is away, or refuses.
    #[error("`{place}` cannot be {did}: {reason}")]
    Bucket {
        /// The object, or where all are: `s3://BUCKET/KEY`.
        place: String,
        /// What was to be done with it.
        did: &'static str,
        /// What the service or the system said.
        reason: String,
    },
    /// Whoever was given the content could not take it.
    #[error("the content cannot be written: {0}")]
    Export(String),
    /// The index cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl ArtifactError {
    pub(crate) fn io(folder: &Path, error: &io::Error) -> Self {
        Self::of(folder, Some(error.kind()), error.to_string())
    }

    pub(crate) fn store(folder: &Path, error: &object_store::Error) -> Self {
        let mut source = error.source();
        let mut found: Option<&io::Error> = None;
        while let Some(error) = source {
            found = error.downcast_ref().or(found);
            source = error.source();
        }
        match found {
            Some(found) => Self::io(folder, found),
            None => Self::of(folder, None, error.to_string()),
        }
    }

    fn of(folder: &Path, kind: Option<io::ErrorKind>, reason: String) -> Self {
        let path = folder.to_path_buf();
        match kind {
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                Self::DiskFull { path }
            }
            Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
                Self::ReadOnly { path, reason }
            }
            _ => Self::Unusable { path, reason },
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn bucket(place: String, did: &'static str, reason: String) -> Self {
        Self::Bucket { place, did, reason }
    }

    pub(crate) fn damaged(path: PathBuf) -> Self {
        Self::Damaged { path }
    }

    pub(crate) fn missing(path: PathBuf) -> Self {
        Self::Missing { path }
    }

    pub(crate) fn no_such(digest: &Digest) -> Self {
        Self::NoSuch {
            handle: format!("{}{digest}", super::SCHEME),
        }
    }
}

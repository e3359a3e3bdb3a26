//! What can go wrong with a path, a file or a search, worded for the model that asked.
//!
//! Promises: each names the path or the argument, and what to do instead.

use std::{io, path::PathBuf};

use thiserror::Error;
use tokio::task::JoinError;

use super::LARGEST_FILE;

#[derive(Debug, Error)]
pub(crate) enum WorkspaceError {
    #[error("the workspace {} cannot be opened: {source}", root.display())]
    Root { root: PathBuf, source: io::Error },
    #[error("`path` is empty: name a file, relative to the workspace")]
    EmptyPath,
    #[error("`path` contains a NUL character, which no file name can have")]
    Nul,
    #[error("`path` must be relative to the workspace, not absolute: {path}{hint}")]
    Absolute { path: String, hint: String },
    #[error("{path} leads outside of the workspace; only what is inside can be used")]
    Escapes { path: String },
    #[error("{path} does not exist in the workspace; `list` shows what does")]
    NotFound { path: String },
    #[error("{path} is a folder; use `list` for it")]
    IsFolder { path: String },
    #[error("{path} is a file, not a folder; use `read` for it")]
    IsFile { path: String },
    #[error("{path} is {kind}; only regular files and folders can be used")]
    Special { path: String, kind: &'static str },
    #[error("{path} is too large: {size} bytes, at most {LARGEST_FILE} can be read")]
    TooLarge { path: String, size: u64 },
    #[error("{path} is not text but {kind} ({size} bytes); only text can be read")]
    Binary {
        path: String,
        kind: &'static str,
        size: u64,
    },
    #[error(
        "{path} is not UTF-8 text: line {line} has an invalid byte (0x{byte:02X} at offset \
        {offset} of {size} bytes)"
    )]
    NotUtf8 {
        path: String,
        line: usize,
        offset: usize,
        byte: u8,
        size: u64,
    },
    #[error("`offset` {offset} is past the end: {path} has {total} lines")]
    PastEnd {
        path: String,
        offset: usize,
        total: usize,
    },
    #[error("`pattern` is empty: write a regular expression, such as `fn \\w+`")]
    EmptyPattern,
    #[error("`pattern` is too long: {length} bytes, at most {limit}")]
    LongPattern { length: usize, limit: usize },
    #[error("`pattern` is not a regular expression (Rust syntax): {0}")]
    Pattern(#[source] Box<regex::Error>),
    #[error("`glob` is not a glob such as `*.rs` or `src/**/*.md`: {0}")]
    Glob(#[source] Box<globset::Error>),
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("cancelled")]
    Cancelled,
    #[error("the work on files stopped unexpectedly: {0}")]
    Died(#[source] JoinError),
}

impl WorkspaceError {
    /// `source` happened to `path`.
    pub(super) fn from_io(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            // The refusal of `cap-std` carries no number from the system, a real one does.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => {
                Self::Escapes { path }
            }
            _ => Self::Io { path, source },
        }
    }
}

//! What can go wrong with a call, worded for the model.

use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum ArtifactsError {
    #[error("there are no artifacts here")]
    None,
    #[error("`{handle}` cannot be read: {reason}")]
    Unknown { handle: String, reason: String },
    #[error("`{handle}` cannot be read: {reason}")]
    Unreadable { handle: String, reason: String },
    #[error("give either `line`, `byte` or `pointer`, not several of them")]
    TwoPlaces,
    #[error("there is no line {line}: the artifact has {total}")]
    NoLine { line: u64, total: u64 },
    #[error("there is no byte {byte}: the artifact has {size}")]
    NoByte { byte: u64, size: u64 },
    #[error("the artifact is no JSON ({reason}), so `pointer` cannot be used")]
    NotJson { reason: String },
    #[error(
        "the artifact has {size} bytes, and `pointer` works up to {limit}; use `line` or `byte`"
    )]
    LargeJson { size: u64, limit: u64 },
    #[error("`pointer` must be empty or begin with `/` (RFC 6901), as in `/rows/0/name`")]
    NotAPointer,
    #[error("there is nothing at `{pointer}`: {there}")]
    NothingThere { pointer: String, there: String },
    #[error("`pattern` is no regular expression: {0}")]
    Pattern(String),
}

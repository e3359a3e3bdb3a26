//! Why a turn could not be had.

use std::time::Duration;

/// A failed turn, worded for a person.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{model}: {message}")]
pub struct ModelError {
    /// What kind of failure it was; decides about retries and exit codes.
    pub kind: ModelErrorKind,
    /// `provider:name` of the model.
    pub model: String,
    /// One sentence: what happened.
    pub message: String,
    /// What a person could do about it, most useful first.
    pub hints: Vec<String>,
}

/// The kinds of [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The key is missing, wrong or has no access.
    Unauthorized,
    /// Too many requests; `retry_after` as the provider said, after our own retries were used up.
    RateLimited {
        /// How long the provider asked to wait.
        retry_after: Option<Duration>,
    },
    /// The provider could not be reached, or answered 5xx, after retries.
    Unavailable,
    /// The conversation does not fit the model's context.
    ContextTooLong,
    /// The provider did not accept the request (unknown model, a schema it refuses).
    Rejected,
    /// The stream broke off after it had begun; what had arrived is not a turn.
    Interrupted,
    /// The provider sent something that is not its own protocol.
    Malformed,
}

//! What the flags that hold everywhere can be.

use clap::ValueEnum;

/// How diagnosis is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For programs: a JSON document a line
    Json,
}

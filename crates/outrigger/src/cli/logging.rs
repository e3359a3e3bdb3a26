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

/// How diagnosis is written.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct LogArgs {
    /// How that is written: `text`, or `json`, a document a line
    #[arg(
        long = "log-format",
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Everywhere"
    )]
    pub(crate) format: LogFormat,
}

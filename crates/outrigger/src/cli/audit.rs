//! `outrigger audit`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use outrigger_journal::Digest;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Compute the chain of hashes anew; exit code 1 at the first line that is not as it was written
    Verify {
        /// A line and the hash that it had, as an earlier `verify` told it
        #[arg(long, value_name = "LINE:HASH")]
        expect: Option<Expected>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the lines with their hashes
    Export {
        /// A JSON document a line, which is the only form
        #[arg(long, required = true)]
        jsonl: bool,
        /// Only those of one run: its name, or the beginning or the last part of it
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
    },
}

/// A line and its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) line: i64,
    pub(crate) hash: Digest,
}

impl FromStr for Expected {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let parts = written.split_once(':');
        let read = parts.and_then(|(line, hash)| {
            Some(Self {
                line: line.parse().ok().filter(|line| *line > 0)?,
                hash: hash.parse().ok()?,
            })
        });
        read.ok_or_else(|| "written as `13:`, then 64 hex digits".to_owned())
    }
}

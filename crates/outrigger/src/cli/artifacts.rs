//! `outrigger artifacts`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use outrigger_host::config::{parse_duration, parse_size};

use super::runs::LatestArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ArtifactsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ArtifactsCommand>,
    #[command(flatten)]
    pub(crate) list: LatestArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsCommand {
    /// The artifacts, those used last first
    List(LatestArgs),
    /// One artifact: what it is, where it came from, how it begins
    Show {
        /// `artifact://…`, or the first digits of it
        handle: String,
        /// As JSON, without its content
        #[arg(long)]
        json: bool,
    },
    /// Write the content, byte for byte, into a file or to standard output
    Export {
        /// `artifact://…`, or the first digits of it
        handle: String,
        /// The file; `-` is standard output
        file: PathBuf,
        /// Replace a file that is there
        #[arg(long)]
        force: bool,
        /// Say as JSON what was written
        #[arg(long)]
        json: bool,
    },
    /// Remove contents that were not used for long; what a run that goes on was given stays
    Gc(GcArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Remove what was not used for so long: `30d`, `12h` [default: `artifacts.older_than` of the
    /// configuration, else 30 days]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) older_than: Option<Duration>,
    /// Then remove what was not used for the longest time, until the rest fits: `1GB`, `500MB`
    /// [default: `artifacts.keep` of the configuration, else no limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) keep: Option<u64>,
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn time(written: &str) -> Result<Duration, String> {
    parse_duration(written).ok_or_else(|| "a time is written `30d`, `12h` or `90m`".to_owned())
}

fn size(written: &str) -> Result<u64, String> {
    let size = parse_size(written).and_then(|size| u64::try_from(size).ok());
    size.ok_or_else(|| "a size is written `1GB`, `500MB` or as a number of bytes".to_owned())
}

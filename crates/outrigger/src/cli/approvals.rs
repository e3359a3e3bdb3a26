//! `outrigger approvals`.

use std::time::Duration;

use clap::{Args, Subcommand};
use outrigger_host::config::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ApprovalsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// The calls, prompts and resources that wait, the earliest first
    List {
        /// Also so many that do not wait any more, the latest first
        #[arg(long, short = 'n', default_value_t = 0)]
        limit: u32,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// All about one
    Show {
        /// Its id, or how it begins
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a call run, or a prompt or resource be read
    Approve(ApproveArgs),
    /// Do not let it run, or be read
    Decline {
        /// Its id, or how it begins
        id: String,
        /// Why not, for whoever wanted it
        #[arg(long, value_name = "WORDS")]
        reason: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Open the page of a gateway over HTTP in a browser, to decide there
    Open(OpenArgs),
    /// Show each as it comes, and ask about it where there is a terminal
    Watch {
        /// A line of JSON for each, and nobody is asked
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// Print its address and open nothing; it is good for one browser
    #[arg(long)]
    pub(crate) print: bool,
    /// Of the gateway at this port
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// Its id, or how it begins
    pub(crate) id: String,
    /// Calls to come too, where it is a call: alone, of this tool with exactly these arguments; `*`:
    /// with any; or KEY=GLOB, for example `path=docs/*`
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) remember: Option<String>,
    /// How long that is remembered: `8h`, `7d` [default: 30 days]
    #[arg(long = "for", value_name = "TIME", value_parser = time, requires = "remember")]
    pub(crate) lasts: Option<Duration>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn time(written: &str) -> Result<Duration, String> {
    parse_duration(written).ok_or_else(|| "a time is written `30d`, `12h` or `90m`".to_owned())
}

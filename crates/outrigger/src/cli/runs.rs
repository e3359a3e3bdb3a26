//! The flags of `runs` and `resume`, as typed.

use clap::{ArgGroup, Args, Subcommand};

use super::RunMode;

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// The latest runs
    List {
        /// How many
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: u32,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// One run: its turns, calls, decisions and outcomes
    Show {
        /// Its name, or the beginning or the last part of it
        run: String,
        /// The recorded events, a JSON document a line
        #[arg(long)]
        json: bool,
    },
    /// The calls of all runs whose outcome nobody knows, and how to find out
    Unknown {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what came of a call whose outcome is unknown, once you have looked
    Settle(SettleArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("finding").required(true).args(["happened", "did_not"])))]
pub(crate) struct SettleArgs {
    /// The run's name, or the beginning or the last part of it
    pub(crate) run: String,
    /// The number of the call within it
    pub(crate) call: u32,
    /// The call took effect
    #[arg(long)]
    pub(crate) happened: bool,
    /// The call did not take effect
    #[arg(long)]
    pub(crate) did_not: bool,
    /// What you found, in your own words
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run's name, or the beginning or the last part of it
    pub(crate) run: String,
    /// What you have to say now; needed where the model had answered
    pub(crate) more: Option<String>,
    /// The model [default: that of the run]
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Answer the questions of policy with yes for tools whose name matches (repeatable); never the
    /// question whether a call whose outcome is unknown may be made again
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow: Vec<String>,
    /// How freely to act: `plan` only reads, `auto` does not ask about what a rule allows; a deny
    /// stays a deny [default: `policy.mode` of the configuration]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<RunMode>,
    /// One JSON document with answer, calls, outcomes and usage
    #[arg(long)]
    pub(crate) json: bool,
    /// Afterwards, say what each server and turn cost
    #[arg(long)]
    pub(crate) stats: bool,
    /// Threads of a local model [default: the physical cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

//! The flags of `runs` and `resume`, as typed.

use clap::{ArgGroup, Args, Subcommand};

use super::talk::AnswerArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
    #[command(flatten)]
    pub(crate) list: LatestArgs,
}

/// How a list is shown that has the latest first; also without the word `list`.
#[derive(Debug, Args)]
pub(crate) struct LatestArgs {
    /// How many
    #[arg(long, short = 'n', default_value_t = 20)]
    pub(crate) limit: u32,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// The latest runs
    List(LatestArgs),
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
    #[command(flatten)]
    pub(crate) how: AnswerArgs,
}

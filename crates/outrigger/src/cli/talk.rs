//! The flags of `ask` (and how `resume` answers), `chat`, `prompt` and `resource`.

use clap::Args;

use super::{RunMode, SearchArgs};

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The question; from standard input when it is left out or `-`
    pub(crate) question: Option<String>,
    #[command(flatten)]
    pub(crate) how: AnswerArgs,
}

/// How a model is to answer.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The model, as `provider:name`, `provider`, or `local[:NAME]` [default: the configured one; of
    /// `resume`, that of the run]
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
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// Threads of a local model [default: the physical cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The model, as `provider:name`, `provider`, or `local[:NAME]`
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Answer the questions of policy with yes for tools whose name matches (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow: Vec<String>,
    /// How freely to act: `plan` only reads, `auto` does not ask about what a rule allows; a deny
    /// stays a deny [default: `policy.mode` of the configuration]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<RunMode>,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// Threads of a local model [default: the physical cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The prompt; SERVER alone lists its prompts, and without anything all are listed
    #[arg(value_name = "SERVER[:NAME]")]
    pub(crate) prompt: Option<String>,
    /// What it is told
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// As JSON; of one prompt, the answer of the server as it came
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResourceArgs {
    /// The resource; SERVER alone lists its resources, and without anything all are listed
    #[arg(value_name = "SERVER[:URI]")]
    pub(crate) resource: Option<String>,
    /// Follow it: print its address whenever the server says that it was updated
    #[arg(long, requires = "resource")]
    pub(crate) watch: bool,
    /// End after this many updates [default: at an interrupt]
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) count: Option<u64>,
    /// How long to wait for it, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// As JSON; of one resource, the answer of the server as it came
    #[arg(long)]
    pub(crate) json: bool,
}

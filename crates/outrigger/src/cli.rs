//! The flags as typed.

mod approvals;
mod artifacts;
mod audit;
mod gateway;
mod hosts;
mod logging;

use std::net::SocketAddr;
mod runs;
mod search;
mod talk;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use outrigger_host::config::Mode;

pub(crate) use runs::{LatestArgs, ResumeArgs, RunsArgs, RunsCommand, SettleArgs};

use crate::error::Exit;
use crate::recording::Recorder;
use crate::replay::Playback;

pub(crate) use self::approvals::{ApprovalsArgs, ApprovalsCommand, ApproveArgs, OpenArgs};
pub(crate) use self::artifacts::{ArtifactsArgs, ArtifactsCommand, GcArgs};
pub(crate) use self::gateway::{GatewayArgs, GatewayCommand};
pub(crate) use self::logging::{LogArgs, LogFormat};

pub(crate) use self::audit::{AuditArgs, AuditCommand, Expected};
pub(crate) use self::hosts::{ImportArgs, InstallArgs};

pub(crate) use self::search::SearchArgs;
pub(crate) use self::talk::{AnswerArgs, AskArgs, ChatArgs, PromptArgs, ResourceArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed
  2    usage or configuration
  3    refused: a rule said no, or asked and nobody was there to answer
  4    a server or the model is not available
  5    the outcome of a call is unknown
  130  interrupted";

const ABOUT: &str = "Connects an agent to other people's tools over the Model Context Protocol, and governs every call";

/// What was typed.
#[derive(Debug, Parser)]
#[command(name = "outrigger", version, about = ABOUT, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// The folder that the run is bound to: root of the built-in workspace server, working folder of
    /// servers, `${workspace}` in configuration [default: the current folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) workspace: Option<PathBuf>,
    /// A further configuration file, nearer than the user's and the project's (TOML, YAML, JSON or an
    /// mcp.json)
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Vec<PathBuf>,
    /// Where the journal and tokens are kept [default: the XDG state folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Trust the configuration that comes with the workspace, for this run: its servers are started,
    /// and its rules may open something
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) trust_project: bool,
    /// Hold back every tool that is not approved in `outrigger.lock` as it is; where there is one, `ask`
    /// and `tools` end with 3
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) locked: bool,
    /// See and start only what this `[profiles.NAME]` of the configuration names
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    pub(crate) profile: Option<String>,
    /// Write every message to and from servers into FILE, a JSON document a line; `-` is standard
    /// error. An existing file is replaced
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) wire: Option<PathBuf>,
    /// Record everything that goes to and comes from servers, model, people and hooks, without known
    /// secrets, in DIR, for `outrigger replay`. The folder must be new or empty
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) record: Option<PathBuf>,
    /// What records.
    #[arg(skip)]
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// What stands in the place of the world.
    #[arg(skip)]
    pub(crate) playback: Option<Arc<Playback>>,
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Everywhere"
    )]
    pub(crate) color: Color,
    /// Say nothing on stderr but errors
    #[arg(long, short, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
    /// Diagnosis on stderr; twice for more
    #[arg(long, short, global = true, action = clap::ArgAction::Count, help_heading = "Everywhere")]
    pub(crate) verbose: u8,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Also into files and pipes
    Always,
    /// Not at all
    Never,
}

/// How freely a run may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunMode {
    /// Only tools that local configuration says only read
    Plan,
    /// The rules as they stand
    Default,
    /// What a rule allows runs also where another of no stronger layer asks
    Auto,
}

impl From<RunMode> for Mode {
    fn from(mode: RunMode) -> Self {
        match mode {
            RunMode::Plan => Self::Plan,
            RunMode::Default => Self::Default,
            RunMode::Auto => Self::Auto,
        }
    }
}

/// Everything the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer a question with the tools of all configured servers
    Ask(AskArgs),
    /// Talk with the model, question after question, with the tools of all configured servers
    Chat(ChatArgs),
    /// List the prompts of servers, or show the messages of one
    Prompt(PromptArgs),
    /// List the resources of servers, or read one
    Resource(ResourceArgs),
    /// List servers and tools, and what their declarations cost
    Tools(ToolsArgs),
    /// Call one tool
    Call(CallArgs),
    /// Show the configuration in force
    Config(ConfigArgs),
    /// List references to secrets, and move secrets out of configuration files
    Secrets(SecretsArgs),
    /// List what you have said about calls to come, and take it back
    Grants(GrantsArgs),
    /// List what clients of the gateway want and you have to allow, and decide about it
    Approvals(ApprovalsArgs),
    /// Show which tools are new or have changed, and approve them as they are
    Pin(PinArgs),
    /// Show what this folder's own configuration brings, and trust it or not
    Trust(TrustArgs),
    /// Try out the policy: test it, ask why, replay a run
    Policy(PolicyArgs),
    /// Say how far a tool comes: discovered, set aside, let through, allowed, active
    Why(WhyArgs),
    /// Sign in at a server that wants a token (OAuth 2.1)
    Login(LoginArgs),
    /// Forget the token of a server
    Logout(LogoutArgs),
    /// Serve the governed tools of all configured servers to other hosts, as one MCP server
    Serve(ServeArgs),
    /// Look after those who may connect to `serve`
    Gateway(GatewayArgs),
    /// Take over the servers that other hosts have configured
    Import(ImportArgs),
    /// Enter this program in the server list of other hosts, or take it out again
    Install(InstallArgs),
    /// Run a built-in server over standard input and output, for any MCP host
    Server(ServerArgs),
    /// List, fetch and remove weights of local models
    Model(ModelArgs),
    /// Check each server: reachable, era, version, tools, problems, what to do
    Doctor(DoctorArgs),
    /// Show what one server is: era, capabilities, what it offers, timings, processes, warnings
    Inspect(InspectArgs),
    /// Look at what happened in earlier runs, and what is not known of it
    Runs(RunsArgs),
    /// Look at what tools returned that was too large or not text, export it, make room
    Artifacts(ArtifactsArgs),
    /// Verify that the journal is as it was written, and export its lines for others to check
    Audit(AuditArgs),
    /// Go on where an earlier `ask` stopped; calls that were made are not made again
    Resume(ResumeArgs),
    /// Run a recording again, offline, and say what differs first; exit code 1 when something does
    Replay(ReplayArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write man pages into a folder
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Only this server, with all particulars of its tools
    pub(crate) server: Option<String>,
    /// What each server and each tool costs in every request, in tokens
    #[arg(long)]
    pub(crate) tokens: bool,
    /// What a provider is told of one tool, and what that changes of the server's schema
    #[arg(long, value_name = "TOOL", conflicts_with = "tokens")]
    pub(crate) schema: Option<String>,
    /// Who is told: a provider, or one of openai, openai-strict, anthropic, gemini, generic
    /// [default: the configured model's, else openai]
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// The model whose vocabulary counts, as for `ask` [default: the provider's usual one]
    #[arg(short, long, value_name = "PROVIDER:MODEL")]
    pub(crate) model: Option<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl ToolsArgs {
    /// Whether it matters who reads.
    pub(crate) fn wants_reader(&self) -> bool {
        self.tokens || self.schema.is_some() || self.provider.is_some() || self.model.is_some()
    }
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The server, as configured
    pub(crate) server: String,
    /// The tool, as the server calls it
    pub(crate) tool: String,
    /// Arguments; values are read as the tool's schema wants them
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// All arguments as one JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "pairs")]
    pub(crate) args: Option<String>,
    /// Answer the questions of policy with yes for tools whose name matches (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow: Vec<String>,
    /// How freely to act: `plan` only reads, `auto` does not ask about what a rule allows; a deny
    /// stays a deny [default: `policy.mode` of the configuration]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<RunMode>,
    /// Make it although the outcome of the same call, made earlier, is unknown
    #[arg(long)]
    pub(crate) repeat: bool,
    /// How long to wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// The outcome and the whole result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the configuration in force, secrets masked
    Show {
        /// Say for each value in which file and line it was written
        #[arg(long)]
        origin: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GrantsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<GrantsCommand>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// All grants
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Take grants back
    Revoke {
        /// Their names
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// All of them
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// The server, as configured [default: all]
    pub(crate) server: Option<String>,
    /// Tools, as the server calls them [default: all]
    #[arg(value_name = "TOOL")]
    pub(crate) tools: Vec<String>,
    /// Approve without a question
    #[arg(long)]
    pub(crate) yes: bool,
    /// Write `outrigger.lock` of the workspace, for everybody who works there; only servers that come
    /// with it
    #[arg(long)]
    pub(crate) project: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TrustCommand>,
    /// Trust it without a question
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// The folders that are trusted
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Take it back
    Revoke {
        /// The folder [default: the workspace]
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Compare a table of calls with what the policy decides about them; exit code 1 when one differs
    Test {
        /// The table: TOML, JSON or YAML
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say which rules are about a tool or a call of it, and which one decides
    Why(PolicyWhyArgs),
    /// Decide again about the calls of a recorded run, by another policy
    Replay {
        /// The run's name, or the beginning or the last part of it
        run: String,
        /// A configuration file; its policy stands in the place of the user's and the project's
        #[arg(long, value_name = "FILE")]
        policy: PathBuf,
        /// The mode to decide in [default: that of FILE]
        #[arg(long, value_name = "MODE")]
        mode: Option<RunMode>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PolicyWhyArgs {
    /// The tool, as the model sees it: `mcp__SERVER__TOOL`
    pub(crate) tool: String,
    /// Arguments of a call: KEY=VALUE pairs, or one JSON object; without any, all calls are meant
    #[arg(value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
    /// The mode to decide in [default: `policy.mode` of the configuration]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<RunMode>,
    /// A server whose results were shown before (repeatable)
    #[arg(long, value_name = "SERVER")]
    pub(crate) origin: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The tool, as the model sees it or as its server calls it
    pub(crate) tool: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    pub(crate) command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Each reference, where it stands, and whether it can be followed; never a value
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Move secrets that stand in your configuration files into a store, and leave references
    Import {
        /// Where they go
        #[arg(long, value_name = "STORE", default_value = "file")]
        to: Store,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Where secrets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// A file of its own in the configuration folder, for its owner only
    File,
    /// The system's keyring (needs the feature `keyring`)
    Keyring,
    /// An encrypted file in the configuration folder (needs the feature `age`)
    Age,
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server, as configured
    pub(crate) server: String,
    /// Print the address to open, and take the one that the browser is led back to from standard
    /// input: for a machine without a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// For the calls of a principal of the gateway, in the place of your own
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The server, as configured
    pub(crate) server: String,
    /// Of a principal of the gateway, in the place of your own
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Streamable HTTP at `http://ADDRESS/mcp`; beyond loopback, clients have to show who they are
    /// (`[gateway]`) [default: standard input and output]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    /// A Unix socket, a message a line
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Only this server, its tools under their own names
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Answer the questions of policy with yes for tools whose name matches (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow: Vec<String>,
    /// How freely clients may act: `plan` only reads, `auto` does not ask about what a rule allows; a
    /// deny stays a deny [default: `policy.mode` of the configuration]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<RunMode>,
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Which one: time, echo or workspace
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Known models, and which are here
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch the weights of a model
    Pull {
        /// Its name, `default`, or `file:PATH`
        #[arg(default_value = "default")]
        name: String,
    },
    /// Remove the weights of a model
    Rm {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The server, as configured
    pub(crate) server: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The folder that `--record` has written
    pub(crate) dir: PathBuf,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder
    pub(crate) dir: PathBuf,
}

/// What clap has to say: help and version are data, everything else is a usage error.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() || printed.is_err() {
        Exit::Usage.into()
    } else {
        Exit::Done.into()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_flags_fit_together() {
        super::Cli::command().debug_assert();
    }
}

//! The command line: parse, then one `match` that names everything the program can do.

mod address;
mod answer;
mod approver;
mod browser;
mod builtin;
mod cli;
mod command;
mod cpu;
mod display;
mod eras;
mod error;
mod hooks;
mod hosts;
mod keyboard;
mod loopback;
mod models;
mod program;
mod questions;
mod recording;
mod replay;
mod reports;
mod rewrite;
mod sampler;
mod screen;
mod secrets;
mod session;
mod shelf;
mod storage;
mod surroundings;
mod telemetry;
mod traces;
mod trust;
mod visible;
mod wire;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::error::{CommandError, Exit};
use crate::recording::Recorder;
use crate::screen::Screen;

fn main() -> ExitCode {
    // The supervisor is plain blocking code and must not be inside a runtime.
    let mut arguments = std::env::args_os();
    if arguments
        .nth(1)
        .is_some_and(|word| word == session::SUPERVISE)
    {
        return outrigger_sandbox::supervisor::run(arguments);
    }
    if let Some(complaint) = cpu::complaint() {
        let screen = Screen::plain();
        return screen.fail(&complaint);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::explain(&error),
    };
    let screen = Screen::new(&cli.common);
    match recorded(cli, screen) {
        Ok(code) => code,
        Err(error) => screen.fail(&error),
    }
}

/// Runs the command, and records what it does where that was asked for.
fn recorded(mut cli: Cli, screen: Screen) -> Result<ExitCode, CommandError> {
    let Some(folder) = &cli.common.record else {
        return run(cli, screen);
    };
    let workspace = surroundings::workspace(&cli.common)?;
    let words = surroundings::words();
    let recorder = Recorder::begin(folder, words, workspace, screen.can_ask())?;
    cli.common.recorder = Some(recorder.clone());
    let ended = run(cli, screen);
    recorder.finish(Exit::of(&ended), screen);
    ended
}

fn run(cli: Cli, screen: Screen) -> Result<ExitCode, CommandError> {
    screen.trace(cli.common.verbose, cli.common.log.format);
    let common = &cli.common;
    match cli.command {
        Command::Completions(args) => command::completions::run(&args, screen),
        Command::Man(args) => command::man::run(&args, screen),
        Command::Ask(args) => runtime()?.block_on(command::ask::run(common, args, screen)),
        Command::Chat(args) => runtime()?.block_on(command::chat::run(common, args, screen)),
        Command::Prompt(args) => runtime()?.block_on(command::prompt::run(common, &args, screen)),
        Command::Resource(args) => {
            runtime()?.block_on(command::resource::run(common, &args, screen))
        }
        Command::Tools(args) => runtime()?.block_on(command::tools::run(common, &args, screen)),
        Command::Call(args) => runtime()?.block_on(command::call::run(common, args, screen)),
        Command::Secrets(args) => runtime()?.block_on(command::secrets::run(common, &args, screen)),
        Command::Config(args) => command::config::run(common, &args, screen),
        Command::Policy(args) => runtime()?.block_on(command::policy::run(common, args, screen)),
        Command::Why(args) => runtime()?.block_on(command::why::run(common, &args, screen)),
        Command::Login(args) => runtime()?.block_on(command::login::run(common, &args, screen)),
        Command::Logout(args) => runtime()?.block_on(command::logout::run(common, &args, screen)),
        Command::Serve(args) => {
            let runtime = runtime()?;
            let ended = runtime.block_on(Box::pin(command::serve::run(common, args, screen)));
            // A read of standard input that nobody ends must not hold up the end.
            runtime.shutdown_background();
            ended
        }
        Command::Gateway(args) => command::gateway::run(&args, screen),
        Command::Import(args) => runtime()?.block_on(command::import::run(common, &args, screen)),
        Command::Install(args) => runtime()?.block_on(command::install::run(common, &args, screen)),
        Command::Server(args) => runtime()?.block_on(command::server::run(common, &args)),
        Command::Model(args) => runtime()?.block_on(command::model::run(args, screen)),
        Command::Doctor(args) => runtime()?.block_on(command::doctor::run(common, &args, screen)),
        Command::Grants(args) => runtime()?.block_on(command::grants::run(common, &args, screen)),
        Command::Approvals(args) => {
            runtime()?.block_on(command::approvals::run(common, args, screen))
        }
        Command::Pin(args) => runtime()?.block_on(command::pin::run(common, &args, screen)),
        Command::Trust(args) => command::trust::run(common, &args, screen),
        Command::Inspect(args) => runtime()?.block_on(command::inspect::run(common, &args, screen)),
        Command::Artifacts(args) => {
            runtime()?.block_on(command::artifacts::run(common, args, screen))
        }
        Command::Audit(args) => runtime()?.block_on(command::audit::run(common, args, screen)),
        Command::Runs(args) => runtime()?.block_on(command::runs::run(common, args, screen)),
        Command::Resume(args) => runtime()?.block_on(command::resume::run(common, args, screen)),
        Command::Replay(args) => runtime()?.block_on(command::replay::run(&args, screen)),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    built.map_err(|error| {
        CommandError::failed(format!("the program cannot start its threads: {error}"))
    })
}

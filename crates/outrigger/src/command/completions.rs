//! `outrigger completions`: a script for the shell.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsArgs};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;

pub(crate) fn run(args: &CompletionsArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "outrigger", &mut script);
    screen.data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done.into())
}

//! `outrigger man`: a page for the program and one for each command.

use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::cli::{Cli, ManArgs};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;

pub(crate) fn run(args: &ManArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    let dir = &args.dir;
    let failed = |error| {
        CommandError::failed(format!(
            "the pages cannot be written to `{}`: {error}",
            dir.display()
        ))
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(failed)?;
    screen.say(format_args!("man pages are in `{}`", dir.display()));
    Ok(Exit::Done.into())
}

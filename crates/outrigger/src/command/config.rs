//! `outrigger config show`: what is in force, and where it was written.

use std::process::ExitCode;

use outrigger_host::config;

use crate::cli::{Common, ConfigArgs, ConfigCommand};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::{surroundings, visible};

pub(crate) fn run(
    common: &Common,
    args: &ConfigArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let ConfigCommand::Show { origin, json } = args.command;
    let loaded = config::load(&surroundings::of_configuration(common)?);
    for problem in loaded.all_problems() {
        screen.say(visible::lines(problem.render().trim_end()));
    }
    if json {
        screen.json(&config::show::to_json(&loaded))?;
    } else {
        screen.foreign(&config::show::render(&loaded, origin))?;
    }
    let exit = if loaded.fatal().next().is_some() {
        Exit::Usage
    } else {
        Exit::Done
    };
    Ok(exit.into())
}

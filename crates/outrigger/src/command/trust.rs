//! `outrigger trust`: what the folder brings, and whether it may.

use std::process::ExitCode;

use outrigger_host::config::{self, ProjectStanding};
use serde_json::json;

use crate::cli::{Common, TrustArgs, TrustCommand};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::trust::{self, Said, TrustStore};
use crate::{surroundings, visible};

pub(crate) fn run(
    common: &Common,
    args: &TrustArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let store = TrustStore::of(common)?;
    match &args.command {
        None => this_folder(common, args.yes, &store, screen),
        Some(TrustCommand::List { json }) => list(&store, *json, screen),
        Some(TrustCommand::Revoke { folder }) => {
            let folder = match folder {
                Some(folder) => surroundings::absolute(folder)?,
                None => surroundings::workspace(common)?,
            };
            let shown = folder.display().to_string();
            let shown = visible::line(&shown);
            if store.revoke(&folder)? {
                screen.say(format_args!("`{shown}` is not trusted any more"));
            } else {
                screen.say(format_args!("`{shown}` was not trusted"));
            }
            Ok(Exit::Done.into())
        }
    }
}

fn this_folder(
    common: &Common,
    yes: bool,
    store: &TrustStore,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let loaded = config::load(&surroundings::of_configuration(common)?);
    let Some(project) = loaded.project.filter(|project| !project.brings.is_empty()) else {
        screen.say("this folder brings nothing that needs trust");
        return Ok(Exit::Done.into());
    };
    if project.standing == ProjectStanding::Trusted {
        trust::show(&project, screen);
        return Ok(Exit::Done.into());
    }
    let said = if yes {
        trust::show(&project, screen);
        Said::Always
    } else if screen.can_ask() {
        trust::ask(&project, screen)
    } else {
        trust::show(&project, screen);
        let error = CommandError::new(Exit::Refused, "nobody is there to say whether to trust it");
        return Err(error.hint("`outrigger trust --yes`, when you have read the above"));
    };
    match said {
        Said::Always => {
            store.trust(&project)?;
            screen.say(
                "trusted, until one of these files changes; `outrigger trust revoke` takes it back",
            );
            Ok(Exit::Done.into())
        }
        Said::ThisRun => {
            screen
                .say("this command starts nothing; `--trust-project` trusts a folder for one run");
            Ok(Exit::Done.into())
        }
        Said::No => Err(CommandError::new(Exit::Refused, "not trusted")),
    }
}

fn list(store: &TrustStore, as_json: bool, screen: Screen) -> Result<ExitCode, CommandError> {
    let all = store.all();
    if as_json {
        screen.json(&json!(all))?;
    } else if all.is_empty() {
        screen.say("no folder is trusted");
    } else {
        for one in all {
            let folder = one.folder.display().to_string();
            screen.data(&format!(
                "{}  since {}\n",
                visible::line(&folder),
                one.since.strftime("%F %H:%M UTC")
            ))?;
        }
    }
    Ok(Exit::Done.into())
}

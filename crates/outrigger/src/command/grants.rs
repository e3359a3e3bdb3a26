//! `outrigger grants`: what was said about calls to come, and taking it back.

use std::process::ExitCode;

use jiff::Timestamp;
use outrigger_host::grants::{Grant, Matcher, Pattern};
use serde_json::json;

use crate::cli::{Common, GrantsArgs, GrantsCommand};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::storage::Storage;
use crate::visible;

pub(crate) async fn run(
    common: &Common,
    args: &GrantsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let grants = Storage::of(common).await?.grants(common)?;
    match &args.command {
        None => list(&grants.all(), args.json, screen),
        Some(GrantsCommand::List { json }) => list(&grants.all(), *json, screen),
        Some(GrantsCommand::Revoke { ids, all }) => {
            if let Some(id) = ids
                .iter()
                .find(|id| !grants.all().iter().any(|grant| grant.id == **id))
            {
                let error = CommandError::usage(format!("there is no grant `{id}`"));
                return Err(error.hint("`outrigger grants` lists them"));
            }
            let gone = grants
                .revoke(|grant| *all || ids.contains(&grant.id))
                .map_err(|error| CommandError::failed(error.to_string()))?;
            screen.say(format_args!(
                "taken back: {}",
                visible::count(gone.len() as u64, "grant")
            ));
            Ok(Exit::Done.into())
        }
    }
}

fn list(grants: &[Grant], as_json: bool, screen: Screen) -> Result<ExitCode, CommandError> {
    if as_json {
        screen.json(&json!(grants))?;
        return Ok(Exit::Done.into());
    }
    if grants.is_empty() {
        screen.say("no grants");
    }
    for grant in grants {
        let ended = grant.until <= Timestamp::now();
        let until = format!("until {}", grant.until.strftime("%F"));
        let whose = grant.principal.iter().map(|name| format!(" for {name}"));
        let whose: String = whose.collect();
        screen.data(&format!(
            "{}{} {} {} {}\n",
            screen.ink(Label::Name, &grant.id),
            visible::line(&whose),
            visible::line(&grant.tool),
            visible::line(&arguments(&grant.arguments)),
            screen.ink(Label::Dim, if ended { "ended" } else { &until })
        ))?;
    }
    Ok(Exit::Done.into())
}

fn arguments(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Any => "with any arguments".to_owned(),
        Pattern::Keys(keys) if keys.is_empty() => "without arguments".to_owned(),
        Pattern::Keys(keys) => {
            let keys = keys.iter().map(|(key, matcher)| match matcher {
                Matcher::Is(value) => format!("{key}={value}"),
                Matcher::Glob(glob) => format!("{key}~{glob}"),
            });
            format!("with {}", keys.collect::<Vec<_>>().join(" "))
        }
    }
}

//! `outrigger import`: takes over the servers that other hosts have configured.
//!
//! Promises: their files are only read; nothing is written or stored before it was shown and agreed to; a
//! server that is there already is not touched without `--replace`; secrets that stand in their files go
//! into a store, and ours gets references; comments and everything else of our file stay; of every server
//! it is said where it came from, and what of it was not taken. Leaves out: approving anything. What hosts
//! may call without asking is not taken over, and a file of the project still has to be trusted.

mod plan;
mod render;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use outrigger_host::config::foreign::{self, Found, Host, Left};
use outrigger_host::config::{Config, Format, Layer, load};
use serde_json::json;

use crate::cli::{Common, ImportArgs};
use crate::error::{CommandError, Exit};
use crate::hosts;
use crate::rewrite::{self, Rewrite, agreed};
use crate::screen::{Label, Screen};
use crate::secrets::store;
use crate::{surroundings, visible};

use plan::{Fate, Item, Plan};

pub(crate) async fn run(
    common: &Common,
    args: &ImportArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let reading = read(common, args, screen)?;
    let config = load(&surroundings::of_configuration(common)?);
    for problem in config.fatal() {
        screen.insist(visible::lines(problem.render().trim_end()));
    }
    let target = target(common, args)?;
    let plan = Plan::of(reading.found, &config, args, &target)?;
    let rewrite = rewrite(&plan, &target.0)?;
    if args.json {
        screen.json(&json!({
            "file": rewrite.file.to_string_lossy(),
            "servers": plan.items.iter().map(render::as_json).collect::<Vec<_>>(),
            "left": reading.left.iter().map(|(file, left)| json!({
                "file": file.to_string_lossy(),
                "key": left.key,
                "why": left.why,
            })).collect::<Vec<_>>(),
        }))?;
        return Ok(reading.exit.into());
    }
    for item in &plan.items {
        screen.data(&render::told(item, screen))?;
    }
    for (file, left) in &reading.left {
        let file = file.display().to_string();
        screen.say(format_args!(
            "{} {}: {}{}",
            screen.talk(Label::Warn, "not taken:"),
            visible::line(&file),
            visible::line(&render::key_of(left)),
            visible::line(&left.why)
        ));
    }
    if !plan.items.iter().any(Item::is_taken) {
        screen.say("there is nothing to take over");
        return Ok(reading.exit.into());
    }
    rewrite.show(&plan.masked(), screen)?;
    if args.dry_run {
        return Ok(reading.exit.into());
    }
    if !args.yes {
        agreed("Take these servers over?", screen).await?;
    }
    carry_out(&plan, &rewrite, screen)?;
    Ok(reading.exit.into())
}

/// What was read of all files.
struct Reading {
    found: Vec<Found>,
    /// What is outside of servers, with its file.
    left: Vec<(PathBuf, Left)>,
    /// `Failed` when a file could not be read.
    exit: Exit,
}

fn read(common: &Common, args: &ImportArgs, screen: Screen) -> Result<Reading, CommandError> {
    let places = surroundings::hosts(common)?;
    let mut reading = Reading {
        found: Vec::new(),
        left: Vec::new(),
        exit: Exit::Done,
    };
    let asked = if args.from.is_empty() {
        &Host::ALL[..]
    } else {
        &args.from
    };
    for &host in asked {
        let (mut looked, mut there) = (Vec::new(), false);
        for file in places.of(host) {
            if file.project != args.project {
                // A checkout's list is for the checkout, and a person's for the person.
                if file.project && file.path.exists() {
                    let why = "the list of this folder; `--project` takes it over".to_owned();
                    let key = String::new();
                    reading.left.push((file.path, Left { key, why }));
                }
                continue;
            }
            match foreign::read(host, &file.path, &places.workspace) {
                Ok(Some(mut found)) => {
                    there = true;
                    let left = found.left.drain(..);
                    let left = left.map(|left| (file.path.clone(), left));
                    reading.left.extend(left);
                    reading.found.push(found);
                }
                Ok(None) => {}
                Err(problem) => {
                    there = true;
                    reading.exit = Exit::Failed;
                    screen.insist(visible::lines(problem.render().trim_end()));
                }
            }
            looked.push(format!("`{}`", file.path.display()));
        }
        if !there && args.from.contains(&host) {
            return Err(none_of(host, &looked));
        }
    }
    Ok(reading)
}

fn none_of(host: Host, looked: &[String]) -> CommandError {
    let error = CommandError::usage(format!("no server list of {} was found", host.title()));
    if looked.is_empty() {
        return error.hint("it has none of that kind; `.mcp.json` of a folder is read by itself");
    }
    let hint = format!("looked for {}", looked.join(", "));
    error.hint(visible::line(&hint).into_owned())
}

/// The file that is written.
fn target(common: &Common, args: &ImportArgs) -> Result<(PathBuf, Layer), CommandError> {
    Ok(if args.project {
        let folder = surroundings::workspace(common)?.join(".outrigger");
        (folder.join("outrigger.toml"), Layer::Project)
    } else {
        let folder = surroundings::configuration_folder()?;
        (folder.join("outrigger.toml"), Layer::User)
    })
}

fn rewrite(plan: &Plan, file: &Path) -> Result<Rewrite, CommandError> {
    let (file, before) = rewrite::read(file)?;
    let mut after = before.clone().unwrap_or_default();
    for item in &plan.items {
        let Fate::Taken { name, .. } = &item.fate else {
            continue;
        };
        let Ok(settings) = &item.server.settings else {
            continue;
        };
        let wanted = render::wanted(settings, item);
        after =
            hosts::edited(Format::Toml, &after, &["servers", name], &wanted).map_err(|error| {
                CommandError::failed(format!("`{}` is left as it is: {error}", file.display()))
            })?;
    }
    Ok(Rewrite {
        file,
        before,
        after,
    })
}

fn carry_out(plan: &Plan, rewrite: &Rewrite, screen: Screen) -> Result<(), CommandError> {
    let moved = plan.items.iter().flat_map(|item| &item.moved);
    let secrets = moved.map(|moved| (moved.reference.clone(), moved.secret.as_str()));
    let backup = store::keep_while(secrets, || rewrite.carry_out())?;
    let taken = plan.items.iter().filter(|item| item.is_taken()).count();
    let moved: usize = plan.items.iter().map(|item| item.moved.len()).sum();
    let mut line = format!(
        "{} taken over into {}",
        visible::count(taken as u64, "server"),
        rewrite.file.display()
    );
    if moved > 0 {
        let secrets = visible::count(moved as u64, "secret");
        line.extend([
            "; ",
            &secrets,
            " moved into the store, and still in the other host's file",
        ]);
    }
    if let Some(backup) = backup {
        line.extend(["; the file as it was is ", &backup.to_string_lossy()]);
    }
    screen.say(format_args!(
        "{} {}",
        screen.talk(Label::Good, "done:"),
        visible::line(&line)
    ));
    screen.say(format_args!(
        "{} `outrigger doctor` tries each server; what may run without asking is said in `[policy]`",
        screen.talk(Label::Good, "hint:")
    ));
    Ok(())
}

/// Where the servers of a layer are configured, by name.
fn there(config: &Config, layer: Layer) -> Vec<(String, String)> {
    let of_layer = |other: Layer| {
        let project = |layer| matches!(layer, Layer::Project | Layer::TrustedProject);
        other == layer || (project(other) && project(layer))
    };
    let entries = config.servers.values();
    let entries = entries.map(|entry| (entry.name.to_string(), &entry.origin));
    let shadowed = config.shadowed.iter();
    let shadowed = shadowed.map(|shadowed| (shadowed.name.to_string(), &shadowed.origin));
    entries
        .chain(shadowed)
        .filter(|(_, origin)| of_layer(origin.layer))
        .map(|(name, origin)| (name, origin.to_string()))
        .collect()
}

//! `outrigger artifacts`: what tools returned that was too large or not text.

mod export;
mod show;

use std::process::ExitCode;

use outrigger_journal::{ArtifactLine, Artifacts, GcReport, GcRules};

use crate::cli::{ArtifactsArgs, ArtifactsCommand, Common, GcArgs, LatestArgs};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::storage::Storage;
use crate::{session, visible};

pub(crate) async fn run(
    common: &Common,
    args: ArtifactsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let command = args.command.unwrap_or(ArtifactsCommand::List(args.list));
    let storage = Storage::of(common).await?;
    let journal = storage.open(screen)?;
    let artifacts = storage.artifacts(common, &journal)?;
    match command {
        ArtifactsCommand::List(LatestArgs { limit, json }) => {
            list(&artifacts, limit, json, screen).await?;
        }
        ArtifactsCommand::Show { handle, json } => {
            show::run(&artifacts, &handle, json, screen).await?;
        }
        ArtifactsCommand::Export {
            handle,
            file,
            force,
            json,
        } => {
            let target = export::Target::of(file, force, screen)?;
            export::run(&artifacts, &handle, &target, json, screen).await?;
        }
        ArtifactsCommand::Gc(args) => gc(common, &artifacts, args, screen).await?,
    }
    journal.close().await?;
    Ok(Exit::Done.into())
}

async fn list(
    artifacts: &Artifacts,
    limit: u32,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let lines = artifacts.list(limit).await?;
    if json {
        return screen.json(&lines);
    }
    if lines.is_empty() {
        screen.say("no artifacts; results that are large or not text become some");
    }
    for line in &lines {
        screen.data(&row(line, screen))?;
    }
    Ok(())
}

fn row(line: &ArtifactLine, screen: Screen) -> String {
    let from = line.origin.as_ref().map_or_else(String::new, |known| {
        let origin = &known.origin;
        format!("  {} {}  {}", origin.server, origin.tool, origin.run)
    });
    let age = match line.collected {
        Some(at) => format!("removed {}", visible::age(at)),
        None => visible::age(line.used),
    };
    format!(
        "{}  {:>9}  {}  {}\n",
        screen.ink(Label::Name, &line.handle),
        visible::size(line.bytes),
        visible::line(&format!("{}{from}", line.media_type)),
        screen.ink(Label::Dim, &age)
    )
}

async fn gc(
    common: &Common,
    artifacts: &Artifacts,
    args: GcArgs,
    screen: Screen,
) -> Result<(), CommandError> {
    let settings = session::configuration(common, screen)?.artifacts;
    let keep = settings
        .keep
        .value
        .and_then(|keep| u64::try_from(keep).ok());
    let rules = GcRules {
        older_than: args.older_than.or(settings.older_than.value),
        keep_bytes: args.keep.or(keep),
    };
    let report = artifacts.gc(rules, args.dry_run).await?;
    if args.json {
        return screen.json(&report);
    }
    for line in &report.removed {
        screen.data(&row(line, screen))?;
    }
    screen.say(told(&report));
    Ok(())
}

fn told(report: &GcReport) -> String {
    let removed = report.removed.len() as u64;
    let verb = if report.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let mut told = vec![format!(
        "{verb} {}, {}; {} of {} stay",
        visible::count(removed, "artifact"),
        visible::size(report.removed_bytes),
        report.stay,
        visible::size(report.stay_bytes)
    )];
    if !report.in_use.is_empty() {
        let more = visible::count(report.in_use.len() as u64, "more artifact");
        told.push(format!(
            "{more} would go, but runs that go on were given them"
        ));
    }
    if report.left_over > 0 {
        let files = visible::count(report.left_over, "file");
        told.push(format!("{verb} {files} that processes had left unfinished"));
    }
    told.join("\n")
}

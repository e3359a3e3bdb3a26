//! `outrigger runs`: what happened earlier.

mod story;

use std::process::ExitCode;

use outrigger_journal::{Event, Journal, RunSummary};

use crate::cli::{Common, RunsArgs, RunsCommand};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::{answer, surroundings, visible};

pub(crate) async fn run(
    common: &Common,
    args: RunsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let command = args.command.unwrap_or(RunsCommand::List {
        limit: 20,
        json: false,
    });
    let journal = Journal::open(&surroundings::journal(common)?)?;
    match command {
        RunsCommand::List { limit, json } => list(&journal, limit, json, screen).await?,
        RunsCommand::Show { run, json } => show(&journal, &run, json, screen).await?,
    }
    journal.close().await?;
    Ok(Exit::Done.into())
}

async fn list(
    journal: &Journal,
    limit: u32,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let runs = journal.runs(limit).await?;
    if json {
        return screen.json(&runs);
    }
    if runs.is_empty() {
        screen.say("no runs yet; `outrigger ask \"…\"` makes one");
    }
    for run in &runs {
        let about = visible::beginning(run.question.as_deref().unwrap_or(""), 48);
        let id = run.id.to_string();
        let line = format!(
            "{}  {:<11} {:<5} {:>9}{}  {about}",
            screen.ink(Label::Name, &id),
            status(run),
            run.command,
            visible::count(run.calls, "call"),
            unknown(run, screen),
        );
        screen.data(&format!("{}\n", line.trim_end()))?;
    }
    Ok(())
}

fn status(run: &RunSummary) -> &'static str {
    match (run.status, run.ended) {
        (Some(status), _) => status.as_str(),
        (None, Some(_)) => "stopped",
        (None, None) => "running",
    }
}

fn unknown(run: &RunSummary, screen: Screen) -> String {
    if run.unknown == 0 {
        return String::new();
    }
    screen
        .ink(Label::Bad, &format!(", {} unknown", run.unknown))
        .to_string()
}

async fn show(
    journal: &Journal,
    name: &str,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let Some(run) = journal.find(name).await? else {
        return Err(CommandError::usage(format!("there is no run `{name}`"))
            .hint("`outrigger runs` lists them"));
    };
    let events = journal.events(&run.id).await?;
    if json {
        for event in &events {
            let line = serde_json::to_string(event).map_err(|error| {
                CommandError::failed(format!("an event cannot be written as JSON: {error}"))
            })?;
            screen.data(&format!("{}\n", visible::json(&line)))?;
        }
        return Ok(());
    }
    head(&run, screen)?;
    let calls = journal.calls(&run.id).await?;
    let mut servers = None;
    for event in &events {
        if let Some(told) = story::told(&event.event, &calls) {
            screen.data(&format!("  {told}\n"))?;
        }
        // What each server costs is said again only when it is no longer so.
        if let Event::ModelAnswered {
            counted: Some(counted),
            ..
        } = &event.event
            && servers.replace(&counted.servers) != Some(&counted.servers)
        {
            for line in answer::per_server(counted) {
                screen.data(&format!("    {line}\n"))?;
            }
        }
    }
    Ok(())
}

fn head(run: &RunSummary, screen: Screen) -> std::io::Result<()> {
    let id = run.id.to_string();
    screen.data(&format!(
        "run {}  {}  {}\n",
        screen.ink(Label::Name, &id),
        run.command,
        status(run)
    ))?;
    let rows = [
        (
            "began",
            run.started.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        ),
        ("model", run.model.clone().unwrap_or_default()),
        ("folder", run.workspace.clone()),
        ("question", run.question.clone().unwrap_or_default()),
        (
            "tokens",
            format!(
                "{} in ({} cached), {} out",
                run.usage.input, run.usage.cached, run.usage.output
            ),
        ),
    ];
    for (key, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        screen.data(&format!(
            "{} {}\n",
            screen.ink(Label::Dim, &format!("{key:<9}")),
            visible::line(value)
        ))?;
    }
    Ok(())
}

//! `outrigger runs`: what happened earlier.

mod settle;
mod story;
pub(super) mod unknown;

use std::process::ExitCode;

use outrigger_journal::{Event, Journal, RunSummary};

use crate::cli::{Common, LatestArgs, RunsArgs, RunsCommand};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::{answer, storage, visible};

pub(crate) async fn run(
    common: &Common,
    args: RunsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let command = args.command.unwrap_or(RunsCommand::List(args.list));
    let journal = storage::open_journal(common, screen).await?;
    match command {
        RunsCommand::List(LatestArgs { limit, json }) => {
            list(&journal, limit, json, screen).await?;
        }
        RunsCommand::Show { run, json } => show(&journal, &run, json, screen).await?,
        RunsCommand::Unknown { json } => unknown::list(&journal, json, screen).await?,
        RunsCommand::Settle(args) => settle::run(common, &journal, args, screen).await?,
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
        let about = match (&run.question, &run.principal) {
            (None, Some(principal)) => format!("for {}", visible::beginning(principal, 44)),
            (question, _) => visible::beginning(question.as_deref().unwrap_or(""), 48),
        };
        let id = run.id.to_string();
        let line = format!(
            "{}  {:<11} {:<6} {:>9}{}  {about}",
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
    match run.status {
        Some(status) => status.as_str(),
        None if run.stopped => "stopped",
        None => "running",
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

/// The run of this name.
pub(super) async fn find(journal: &Journal, name: &str) -> Result<RunSummary, CommandError> {
    let found = journal.find(name).await?;
    found.ok_or_else(|| {
        CommandError::usage(format!("there is no run `{name}`")).hint("`outrigger runs` lists them")
    })
}

async fn show(
    journal: &Journal,
    name: &str,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let run = find(journal, name).await?;
    if json {
        return events_as_json(journal, &run, screen).await;
    }
    head(&run, screen)?;
    let calls = journal.calls(&run.id).await?;
    let settled: Vec<_> = calls
        .iter()
        .filter_map(|line| Some(settle::told(line.call, line.settled.as_ref()?)))
        .collect();
    let state = (screen.pages(), Vec::new());
    let told = journal.fold_events(&run.id, state, move |(pages, servers), event| {
        let told = story::told(&event.event, &calls);
        let mut lines: Vec<_> = told.iter().map(|told| format!("  {told}")).collect();
        // What each server costs is said again only when it is no longer so.
        if let Event::ModelAnswered {
            counted: Some(counted),
            ..
        } = event.event
            && *servers != counted.servers
        {
            let costs = answer::per_server(&counted);
            lines.extend(costs.into_iter().map(|line| format!("    {line}")));
            *servers = counted.servers;
        }
        let mut lines = lines.iter();
        lines.all(|line| pages.add(screen.broken(line, 4).as_bytes()))
    });
    let (mut pages, _) = told.await?;
    for told in settled {
        pages.add(screen.broken(&format!("  {told}"), 4).as_bytes());
    }
    Ok(pages.end()?)
}

async fn events_as_json(
    journal: &Journal,
    run: &RunSummary,
    screen: Screen,
) -> Result<(), CommandError> {
    let state = (screen.pages(), None);
    let written =
        journal.fold_events(
            &run.id,
            state,
            |(pages, unwritable), event| match serde_json::to_string(&event) {
                Ok(line) => pages.add(format!("{}\n", visible::json(&line)).as_bytes()),
                Err(error) => {
                    *unwritable = Some(error);
                    false
                }
            },
        );
    let (pages, unwritable) = written.await?;
    pages.end()?;
    match unwritable {
        None => Ok(()),
        Some(error) => Err(CommandError::failed(format!(
            "an event cannot be written as JSON: {error}"
        ))),
    }
}

/// From beginning to end, waiting for the person included.
fn took(run: &RunSummary) -> String {
    let took = run.ended.map(|ended| ended.duration_since(run.started));
    let millis = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(0));
    millis.map(crate::display::seconds).unwrap_or_default()
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
        ("took", took(run)),
        ("client", run.principal.clone().unwrap_or_default()),
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

//! `outrigger runs`: what happened earlier.

mod story;

use std::process::ExitCode;

use outrigger_journal::{Journal, RunSummary};

use crate::cli::{Common, RunsArgs, RunsCommand};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::{session, visible};

pub(crate) async fn run(
    common: &Common,
    args: RunsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let command = args.command.unwrap_or(RunsCommand::List {
        limit: 20,
        json: false,
    });
    let journal = session::open_journal(common, screen)?;
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
    if json {
        return events_as_json(journal, &run, screen).await;
    }
    head(&run, screen)?;
    let calls = journal.calls(&run.id).await?;
    let told = journal.fold_events(
        &run.id,
        screen.pages(),
        move |pages, event| match story::told(&event.event, &calls) {
            Some(told) => pages.add(format!("  {told}\n").as_bytes()),
            None => true,
        },
    );
    Ok(told.await?.end()?)
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

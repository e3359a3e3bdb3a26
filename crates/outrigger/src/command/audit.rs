//! `outrigger audit`: whether the journal is as it was written, and its lines for others to check.

use std::process::ExitCode;

use outrigger_journal::{Audit, Place};

use crate::cli::{AuditArgs, AuditCommand, Common, Expected};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::storage::Storage;
use crate::visible;

pub(crate) async fn run(
    common: &Common,
    args: AuditArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let storage = Storage::of(common).await?;
    if let Place::File(path) = storage.place()
        && !path.exists()
    {
        let error = CommandError::failed(format!("there is no journal `{}`", path.display()));
        return Err(error.hint("`outrigger ask` and `outrigger call` write one"));
    }
    let audit = Audit::open_in(storage.place())?;
    match args.command {
        AuditCommand::Verify { expect, json } => verify(&audit, expect, json, screen),
        AuditCommand::Export { jsonl: _, run } => export(&audit, run.as_deref(), screen),
    }
}

fn verify(
    audit: &Audit,
    expect: Option<Expected>,
    json: bool,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let report = audit.verify(expect.map(|Expected { line, hash }| (line, hash)))?;
    if json {
        screen.json(&report)?;
    }
    let Some(fault) = &report.fault else {
        if !json {
            screen.data(&format!(
                "{}: {}, each as it was written\n{} {}:{}\n",
                visible::line(&audit.path().display().to_string()),
                visible::count(report.lines, "line"),
                screen.ink(Label::Dim, "the last:"),
                report.last,
                report.head
            ))?;
        }
        return Ok(Exit::Done.into());
    };
    let line = fault
        .line
        .map(|line| format!("line {line}: "))
        .unwrap_or_default();
    let error = format!(
        "the journal `{}` is not as it was written: {line}{}",
        audit.path().display(),
        fault.what
    );
    let hint = format!(
        "{} before it hold; keep the file as it is, and move it aside for a new one",
        visible::count(report.lines, "line")
    );
    Err(CommandError::failed(error).hint(hint))
}

fn export(audit: &Audit, run: Option<&str>, screen: Screen) -> Result<ExitCode, CommandError> {
    let run = match run {
        None => None,
        Some(name) => Some(audit.find(name)?.ok_or_else(|| {
            CommandError::usage(format!("there is no run `{name}`"))
                .hint("`outrigger runs` lists them")
        })?),
    };
    let mut pages = screen.pages();
    let mut unwritable = None;
    let name = run.as_ref().map(|run| run.id.as_str());
    audit.lines(name, |line| match serde_json::to_string(&line) {
        Ok(text) => pages.add(format!("{}\n", visible::json(&text)).as_bytes()),
        Err(error) => {
            unwritable = Some(error);
            false
        }
    })?;
    pages.end()?;
    match unwritable {
        None => Ok(Exit::Done.into()),
        Some(error) => Err(CommandError::failed(format!(
            "a line cannot be written as JSON: {error}"
        ))),
    }
}

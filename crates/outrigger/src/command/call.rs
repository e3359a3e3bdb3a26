//! `outrigger call`: one tool call, through the same gate as a model's.

mod record;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use outrigger_host::catalog::CatalogTool;
use outrigger_host::outcome::{CallOutcome, Rejection, UnknownReason};
use outrigger_host::policy::Principal;
use outrigger_host::toolset::Toolset;
use outrigger_host::words;
use outrigger_host::{CallContext, CallReport, ProposedCall};
use outrigger_journal::{Event, RunStatus, Tokens};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::cli::{CallArgs, Common};
use crate::display::{Display, Show, seconds};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::session::{self, Asked, Opening, Record, Session};
use crate::visible;

pub(crate) async fn run(
    common: &Common,
    args: CallArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, Box::pin(call(common, args, screen, &cancel))).await
}

async fn call(
    common: &Common,
    args: CallArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let mut config = session::configuration_in(args.mode, common, screen)?;
    session::only(&mut config, &args.server)?;
    let started = session::run_started(common, "call", None, None)?;
    let session = Session::open(Opening {
        common,
        config: &config,
        screen,
        record: Record::Journal(started),
        observers: vec![Arc::new(Display::new(screen, Show::Servers))],
        person: Asked::Person,
        sampler: None,
        allow: &args.allow,
    })
    .await?;
    let session = if args.repeat {
        session
    } else {
        session.knowing_what_is_unknown(common, &[], screen).await?
    };
    let mut made = Box::pin(make(&session, &args, cancel)).await;
    if let Ok(report) = &mut made {
        what_came_late(report, &session, cancel, screen).await;
    }
    let (status, reason) = match &made {
        Ok(report) if report.outcome.is_error() => (status_of(&report.outcome), None),
        Ok(_) => (RunStatus::Done, None),
        Err(error) => (status_of_failure(error.exit), Some(error.to_string())),
    };
    session
        .close(
            Some(Event::RunEnded {
                status,
                reason,
                answer: None,
                usage: Tokens::default(),
            }),
            screen,
        )
        .await?;
    let report = made?;
    print(&report, args.json, screen)?;
    verdict(&report, cancel.is_cancelled())
}

async fn make(
    session: &Session,
    args: &CallArgs,
    cancel: &CancellationToken,
) -> Result<CallReport, CommandError> {
    session.host.wake(false);
    tokio::select! {
        () = cancel.cancelled() => return Err(CommandError::new(Exit::Interrupted, "interrupted before anything was sent")),
        starting = session.host.settled(Duration::from_secs(600)) => drop(starting),
    }
    let toolset = session.host.toolset();
    let tool = find(session, &toolset, args)?;
    let arguments = match &args.args {
        Some(text) => text.clone(),
        None => from_pairs(&args.pairs, &tool.input_schema)?.to_string(),
    };
    let deadline = args.timeout.map(|seconds| {
        Duration::try_from_secs_f64(seconds).map_err(|error| {
            CommandError::usage(format!("`--timeout {seconds}` is not a time: {error}"))
        })
    });
    let context = CallContext {
        cancel: cancel.clone(),
        deadline: deadline.transpose()?,
        caller: None,
        principal: Principal::Person,
        client: None,
        on_progress: None,
        may_send: None,
    };
    let proposed = ProposedCall {
        tool: tool.name.to_string(),
        arguments,
        turn: None,
    };
    Ok(session.host.call(&toolset, proposed, context).await)
}

/// Waits a little for the answer to a call that was given up, and takes what came of it. The person is
/// told at once what is known so far.
async fn what_came_late(
    report: &mut CallReport,
    session: &Session,
    cancel: &CancellationToken,
    screen: Screen,
) {
    if !matches!(report.outcome, CallOutcome::Unknown(_)) {
        return;
    }
    if !cancel.is_cancelled()
        && let Some(patience) = session.host.late_patience()
    {
        let patience = seconds(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        screen.say(format_args!(
            "{}; waiting up to {patience} for it to come late",
            visible::line(&report.summary)
        ));
        tokio::select! {
            () = cancel.cancelled() => {}
            () = session.host.await_late() => {}
        }
    }
    // A server may answer while it is being closed, and not after that.
    session.host.close().await;
    let notes = session.host.late_notes().await.into_iter();
    for note in notes.filter(|note| note.of.call == report.call) {
        report.summary = words::for_person(&note.outcome);
        report.words = note.words;
        report.outcome = note.outcome;
    }
}

/// The tool by the server's own name for it, or by the model's.
fn find<'a>(
    session: &Session,
    toolset: &'a Toolset,
    args: &CallArgs,
) -> Result<&'a CatalogTool, CommandError> {
    let wanted = args.tool.as_str();
    let found = toolset
        .tools()
        .iter()
        .find(|tool| tool.raw_name == wanted || tool.name.as_str() == wanted);
    if let Some(tool) = found {
        return Ok(tool);
    }
    for status in session.host.servers() {
        if let Some(failure) = status.state.failure() {
            let error = CommandError::new(
                unavailable(failure),
                format!("`{}`: {}", status.name, failure.error),
            );
            return Err(error.hints(failure.hints.clone()));
        }
        let catalog = status.catalog.unwrap_or_default();
        if let Some(held) = catalog
            .held
            .iter()
            .find(|held| held.tool.raw_name == wanted)
        {
            let error = format!(
                "the tool `{wanted}` of `{}` is held back: {}",
                status.name,
                held.reason()
            );
            return Err(CommandError::new(Exit::Refused, error));
        }
        if let Some(tool) = catalog.set_aside.iter().find(|tool| tool.tool == wanted) {
            let error = format!(
                "the tool `{wanted}` of `{}` was set aside: {}",
                status.name, tool.reason
            );
            return Err(CommandError::failed(error));
        }
        if let Some(tool) = catalog.tools.iter().find(|tool| tool.raw_name == wanted) {
            let verdict = session.host.policy().outlook(&**tool).verdict;
            let reason = verdict.reason.map(|reason| format!(": {reason}"));
            let error = format!(
                "`{wanted}` is denied by {}{}",
                verdict.rule,
                reason.unwrap_or_default()
            );
            return Err(CommandError::new(Exit::Refused, error));
        }
    }
    let error = CommandError::usage(format!(
        "the server `{}` has no tool `{wanted}`",
        args.server
    ));
    let near = toolset.nearest(wanted).into_iter();
    let near = near.filter_map(|name| toolset.get(name));
    let near: Vec<_> = near.map(|tool| tool.raw_name.as_str()).collect();
    let lists = format!("`outrigger tools {}` lists what it has", args.server);
    Err(error.did_you_mean(&near, &lists))
}

/// How a command ends that needed this server.
pub(super) fn unavailable(failure: &outrigger_host::Failure) -> Exit {
    match failure.kind {
        outrigger_host::FailureKind::Config => Exit::Usage,
        outrigger_host::FailureKind::NeedsTrust => Exit::Refused,
        _ => Exit::Unavailable,
    }
}

/// Values as the schema wants them; where it says nothing, JSON when it is JSON, else text.
pub(super) fn from_pairs(pairs: &[String], schema: &Value) -> Result<Value, CommandError> {
    let mut object = Map::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            let error = CommandError::usage(format!("`{pair}` is not `key=value`"));
            return Err(
                error.hint("or give all arguments as JSON: `--args '{\"key\": \"value\"}'`")
            );
        };
        let wanted = &schema["properties"][key]["type"];
        let value = match wanted.as_str() {
            Some("string") => Value::from(value),
            _ => serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
        };
        if object.insert(key.to_owned(), value).is_some() {
            return Err(CommandError::usage(format!("`{key}` is given twice")));
        }
    }
    Ok(Value::Object(object))
}

fn print(report: &CallReport, as_json: bool, screen: Screen) -> Result<(), CommandError> {
    if as_json {
        return screen.json(&record::of(report));
    }
    if let CallOutcome::Completed(result) = &report.outcome {
        for text in words::plain(result) {
            screen.foreign(&format!("{}\n", text.trim_end_matches('\n')))?;
        }
    }
    Ok(())
}

fn status_of_failure(exit: Exit) -> RunStatus {
    match exit {
        Exit::Refused => RunStatus::Refused,
        Exit::Interrupted => RunStatus::Interrupted,
        _ => RunStatus::Failed,
    }
}

fn status_of(outcome: &CallOutcome) -> RunStatus {
    match outcome {
        CallOutcome::Rejected(rejection) if rejection.is_refusal() => RunStatus::Refused,
        CallOutcome::Rejected(Rejection::Cancelled)
        | CallOutcome::Unknown(UnknownReason::Cancelled) => RunStatus::Interrupted,
        CallOutcome::Unknown(_) => RunStatus::Unknown,
        _ => RunStatus::Failed,
    }
}

fn verdict(report: &CallReport, interrupted: bool) -> Result<ExitCode, CommandError> {
    let exit = match &report.outcome {
        CallOutcome::Completed(result) if result.is_error => return Ok(Exit::Failed.into()),
        CallOutcome::Completed(_) => return Ok(Exit::Done.into()),
        _ if interrupted => Exit::Interrupted,
        CallOutcome::Rejected(rejection) if rejection.is_refusal() => Exit::Refused,
        CallOutcome::Rejected(Rejection::Changed | Rejection::NotRecorded { .. })
        | CallOutcome::Violated(_) => Exit::Failed,
        CallOutcome::Rejected(_) => Exit::Usage,
        CallOutcome::NotSent(_) => Exit::Unavailable,
        CallOutcome::Unknown(_) => Exit::Unknown,
    };
    let error = CommandError::new(exit, &report.summary);
    Err(match &report.outcome {
        CallOutcome::Rejected(Rejection::NobodyToAsk { .. }) => {
            error.hint("allow it with `--allow 'GLOB'`, or run it in a terminal to be asked")
        }
        CallOutcome::Rejected(Rejection::Repeats(repeat)) => error
            .hint("look what came of it: `outrigger runs unknown` says how")
            .hint(format!(
                "then say so: `outrigger runs settle {} {} --happened` (or `--did-not`); `--repeat` makes it all the same",
                repeat.of.run, repeat.of.call
            )),
        CallOutcome::Unknown(_) => {
            error.hint("it may have taken effect; look before you repeat it: `outrigger runs unknown` says how")
        }
        CallOutcome::Violated(_) => {
            error.hint("it may have taken effect; the journal has the answer as it came")
        }
        _ => error,
    })
}

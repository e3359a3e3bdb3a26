//! `outrigger runs settle`: a person says what came of a call whose outcome is unknown. It is recorded
//! as a run of its own; the call's line in the ledger stays what it is.

use outrigger_journal::{
    Event, Finding, Journal, OutcomeKind, RunOptions, RunStatus, RunSummary, Tokens,
};

use crate::cli::{Common, SettleArgs};
use crate::error::CommandError;
use crate::screen::Screen;
use crate::{session, visible};

pub(super) async fn run(
    common: &Common,
    journal: &Journal,
    args: SettleArgs,
    screen: Screen,
) -> Result<(), CommandError> {
    let run = super::find(journal, &args.run).await?;
    check(journal, &run, args.call).await?;
    let SettleArgs {
        call,
        happened,
        note,
        ..
    } = args;
    let started = session::run_started(common, "settle", None, None)?;
    let recording = journal.begin(started, RunOptions::default()).await?;
    let settled = recording
        .record_durable(Event::CallSettled {
            of: run.id.clone(),
            call,
            happened,
            note,
        })
        .await;
    recording.record(Event::RunEnded {
        status: match settled {
            Ok(()) => RunStatus::Done,
            Err(_) => RunStatus::Failed,
        },
        reason: None,
        answer: None,
        usage: Tokens::default(),
    });
    settled?;
    screen.say(format_args!(
        "call {call} of {}: settled: {}",
        run.id,
        word(happened)
    ));
    Ok(())
}

async fn check(journal: &Journal, run: &RunSummary, call: u32) -> Result<(), CommandError> {
    if run.ended.is_none() && !run.stopped {
        let error = format!("the run {} is still going on", run.id);
        return Err(CommandError::usage(error).hint("its answer may still come; wait for its end"));
    }
    let calls = journal.calls(&run.id).await?;
    let Some(line) = calls.iter().find(|line| line.call == call) else {
        let error = format!("the run {} has no call {call}", run.id);
        return Err(
            CommandError::usage(error).hint(format!("`outrigger runs show {}` lists them", run.id))
        );
    };
    match line.outcome {
        Some(OutcomeKind::Unknown) => Ok(()),
        outcome => {
            let outcome = outcome.map_or("not ended", OutcomeKind::as_str);
            Err(CommandError::usage(format!(
                "call {call} of {} is {outcome}; only an unknown outcome can be settled",
                run.id
            )))
        }
    }
}

/// What was found, in words.
pub(super) fn word(happened: bool) -> &'static str {
    if happened {
        "it took effect"
    } else {
        "it did not take effect"
    }
}

/// A finding as a line of the run that the call belongs to.
pub(super) fn told(call: u32, found: &Finding) -> String {
    let at = found.at.strftime("%F %H:%M UTC");
    let note = found.note.as_deref();
    let note = note.map(|note| format!(": {}", visible::line(note)));
    format!(
        "call {call}: settled by a person, {at}: {}{}",
        word(found.happened),
        note.unwrap_or_default()
    )
}

//! `outrigger resume`: goes on where an earlier `ask` stopped.

use std::process::ExitCode;

use outrigger_agent::{Earlier, RESUME, RunRecord};
use outrigger_journal::{Event, Journal, RunId, RunSummary, UnknownCall};
use tokio_util::sync::CancellationToken;

use super::ask::{self, Job, Wanted};
use super::runs;
use crate::cli::{AnswerArgs, Common, ResumeArgs};
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::{session, storage, surroundings};

/// A run that resumes one that resumes one that … : more than this is a circle.
const LONGEST: usize = 1000;

pub(crate) async fn run(
    common: &Common,
    args: ResumeArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    Box::pin(session::interruptible(
        &cancel,
        resume(common, args, screen, &cancel),
    ))
    .await
}

async fn resume(
    common: &Common,
    args: ResumeArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let journal = storage::open_journal(common, screen).await?;
    let run = runs::find(&journal, &args.run).await?;
    check(common, &run)?;
    let chain = chain(&journal, &run.id).await?;
    let ids: Vec<RunId> = chain.iter().map(|record| record.id.clone()).collect();
    let unknown = journal.unknown().await?;
    journal.close().await?;
    let unknown: Vec<UnknownCall> = unknown
        .into_iter()
        .filter(|call| ids.contains(&call.run))
        .collect();
    let earlier = Earlier::read(&chain).map_err(|error| {
        CommandError::failed(error.to_string())
            .hint("go on with the run before it: `outrigger runs` lists them")
    })?;
    let Some(earlier) = earlier else {
        return Err(CommandError::failed("the run has no record"));
    };
    if args.more.is_none() && earlier.is_finished() {
        let error = format!("the run {} has its answer", run.id);
        return Err(CommandError::usage(error).hint(format!(
            "say what more you want: outrigger resume {} \"…\"",
            run.id
        )));
    }
    tell(&unknown, screen);
    let question = args.more.as_deref().or(earlier.question());
    let job = Job {
        command: RESUME,
        question: question.map(ToOwned::to_owned),
        how: AnswerArgs {
            model: args.how.model.or(run.model),
            ..args.how
        },
        chain: ids,
        wanted: Wanted::More(Box::new(earlier), chain, args.more),
    };
    ask::answer(common, job, screen, cancel).await
}

fn check(common: &Common, run: &RunSummary) -> Result<(), CommandError> {
    if run.ended.is_none() && !run.stopped {
        let error = format!("the run {} is still going on", run.id);
        return Err(CommandError::usage(error).hint("end it first, or wait for its answer"));
    }
    if run.model.is_none() {
        let error = format!(
            "the run {} is one of `outrigger {}`: there is no conversation to go on with",
            run.id, run.command
        );
        return Err(CommandError::usage(error)
            .hint(format!("`outrigger runs show {}` says what it did", run.id)));
    }
    let here = surroundings::workspace(common)?.display().to_string();
    if run.workspace != here {
        let error = format!("the run {} is bound to another folder", run.id);
        return Err(CommandError::usage(error).hint(format!(
            "go on there: outrigger --workspace '{}' resume {}",
            run.workspace, run.id
        )));
    }
    Ok(())
}

/// The run, and before it those that it goes on with, the oldest first.
async fn chain(journal: &Journal, run: &RunId) -> Result<Vec<RunRecord>, CommandError> {
    let mut chain = Vec::new();
    let mut next = Some(run.clone());
    while let Some(id) = next.take().filter(|_| chain.len() < LONGEST) {
        let events = journal.events(&id).await?;
        next = events.iter().find_map(|recorded| match &recorded.event {
            Event::RunResumed { from } => Some(from.clone()),
            _ => None,
        });
        let calls = journal.calls(&id).await?;
        chain.push(RunRecord { id, events, calls });
    }
    chain.reverse();
    Ok(chain)
}

/// What the person should know before anything goes on.
fn tell(unknown: &[UnknownCall], screen: Screen) {
    if unknown.is_empty() {
        return;
    }
    let heading = "Nobody knows what came of:";
    screen.insist(screen.talk(Label::Warn, heading));
    for call in unknown {
        for line in runs::unknown::told(call, |text| screen.talk(Label::Name, text).to_string()) {
            screen.insist(line);
        }
    }
}

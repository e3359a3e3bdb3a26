//! `outrigger ask`: one question, one answer.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;
use std::sync::Arc;

use outrigger_agent::{Agent, Answer, Conversation, Earlier, Ending, Limits, RunRecord};
use outrigger_host::config::RunLimits;
use outrigger_host::policy::Policy;
use outrigger_journal::{Journal, RunId};
use outrigger_model::ModelErrorKind;
use tokio_util::sync::CancellationToken;

use crate::answer;
use crate::cli::{AskArgs, Common, RunMode};
use crate::display::{Display, Show, seconds};
use crate::error::{CommandError, Exit};
use crate::sampler::RunModel;
use crate::screen::{Label, Screen};
use crate::session::{self, Asked, Opening, Record, Session};
use crate::{models, surroundings, visible};

pub(crate) async fn run(
    common: &Common,
    args: AskArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, Box::pin(ask(common, args, screen, &cancel))).await
}

async fn ask(
    common: &Common,
    args: AskArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let question = question(args.question)?;
    let job = Job {
        command: "ask",
        question: Some(question.clone()),
        model: args.model,
        allow: args.allow,
        mode: args.mode,
        json: args.json,
        stats: args.stats,
        threads: args.threads,
        chain: Vec::new(),
        wanted: Wanted::Question(question),
    };
    answer(common, job, screen, cancel).await
}

/// What a model is to do, and how.
pub(super) struct Job {
    /// The command, as the run is called.
    pub(super) command: &'static str,
    /// What the run is about.
    pub(super) question: Option<String>,
    pub(super) model: Option<String>,
    pub(super) allow: Vec<String>,
    pub(super) mode: Option<RunMode>,
    pub(super) json: bool,
    pub(super) stats: bool,
    pub(super) threads: Option<usize>,
    /// The runs that it goes on with.
    pub(super) chain: Vec<RunId>,
    pub(super) wanted: Wanted,
}

/// What is asked of the model.
pub(super) enum Wanted {
    /// To answer this.
    Question(String),
    /// To go on with these runs, and what the person says now.
    More(Box<Earlier>, Vec<RunRecord>, Option<String>),
}

/// Has a model answer, with the tools of all configured servers.
pub(super) async fn answer(
    common: &Common,
    job: Job,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let mut config = session::configuration_in(job.mode, common, screen)?;
    // A mistyped glob is told before a model is loaded for it.
    Policy::new(&config.policy, &job.allow)?;
    let wanted = job.model.as_deref();
    let model = models::of_run(common, wanted, &mut config, job.threads, screen).await?;
    let show = if screen.data_is_read_live() && !job.json {
        Show::RunAndText
    } else {
        Show::Run
    };
    let display = Arc::new(Display::new(screen, show));
    let question = job.question.as_deref();
    let started = session::run_started(common, job.command, question, Some(model.id()))?;
    let session = Session::open(Opening {
        common,
        config: &config,
        screen,
        record: match job.chain.last() {
            Some(from) => Record::Resumed(started, from.clone()),
            None => Record::Journal(started),
        },
        observers: vec![display.clone()],
        person: Asked::Person,
        sampler: Some(Arc::new(RunModel(Arc::clone(&model)))),
        allow: &job.allow,
    })
    .await?;
    let session = session
        .knowing_what_is_unknown(common, &job.chain, screen)
        .await?;
    wait_for_servers(&session, screen, cancel).await;
    let agent = Agent {
        model,
        host: session.host.clone(),
        run: session.run.clone(),
        limits: limits(&config.limits),
    };
    let mut answer = Box::pin(have_answered(&agent, job.wanted, &display, cancel)).await;
    drop(agent);
    if !job.json && !answer.text.is_empty() && !display.has_printed(&answer.text) {
        screen.foreign(&format!("{}\n", answer.text.trim_end()))?;
    }
    wait_for_late(&session, screen, cancel).await;
    answer.calls.unknown = u32::try_from(session.host.unknown_calls()).unwrap_or(u32::MAX);
    let (run, journal) = (session.run.id().clone(), session.journal.clone());
    session.close(Some(answer.run_ended()), screen).await?;
    if job.json {
        answer::print_json(&answer, &run, &reopen(journal, common)?, screen).await?;
    } else if job.stats {
        answer::print_stats(&run, &reopen(journal, common)?, screen).await?;
    }
    verdict(&answer, &run, screen)
}

async fn have_answered(
    agent: &Agent,
    wanted: Wanted,
    display: &Display,
    cancel: &CancellationToken,
) -> Answer {
    let mut conversation = Conversation::default();
    match wanted {
        Wanted::Question(question) => {
            agent.host.name_artifacts(&question).await;
            agent
                .ask(&mut conversation, &question, display, cancel)
                .await
        }
        Wanted::More(earlier, chain, more) => {
            for run in &chain {
                agent.host.given_before(&run.events).await;
            }
            agent
                .host
                .name_artifacts(more.as_deref().unwrap_or_default())
                .await;
            agent
                .resume(
                    &mut conversation,
                    (*earlier, more.as_deref()),
                    display,
                    cancel,
                )
                .await
        }
    }
}

/// Waits a little for the answers to calls that were given up, and closes the servers: after that
/// nothing more is to be known.
async fn wait_for_late(session: &Session, screen: Screen, cancel: &CancellationToken) {
    if !cancel.is_cancelled()
        && session.host.unknown_calls() > 0
        && let Some(patience) = session.host.late_patience()
    {
        let patience = seconds(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        let line = format!("waiting up to {patience} for answers that come late");
        screen.say(screen.talk(Label::Dim, &line));
        tokio::select! {
            () = cancel.cancelled() => {}
            () = session.host.await_late() => {}
        }
    }
    session.host.close().await;
}

/// A closed journal no longer writes, and still reads.
fn reopen(journal: Option<Journal>, common: &Common) -> Result<Journal, CommandError> {
    match journal {
        Some(journal) => Ok(journal),
        None => Ok(Journal::open(&surroundings::journal(common)?)?),
    }
}

pub(super) async fn wait_for_servers(
    session: &Session,
    screen: Screen,
    cancel: &CancellationToken,
) {
    let slow = tokio::select! {
        () = cancel.cancelled() => return,
        slow = session.host.settled(session::PATIENCE) => slow,
    };
    for name in slow {
        let name = visible::line(name.as_str());
        let line = format!("{name:<12} still starting; going on without it for now");
        screen.say(screen.talk(Label::Warn, &line));
    }
}

pub(super) fn limits(limits: &RunLimits) -> Limits {
    Limits {
        turns: limits.max_turns.value,
        calls: limits.max_calls.value,
        tokens: limits.max_tokens.value,
        time: limits.max_time.value,
    }
}

fn question(typed: Option<String>) -> Result<String, CommandError> {
    let question = match typed {
        Some(question) if question != "-" => question,
        _ => from_stdin()?,
    };
    let question = question.trim();
    if question.is_empty() {
        return Err(CommandError::usage("there is no question")
            .hint("outrigger ask \"What day is it today?\""));
    }
    Ok(question.to_owned())
}

fn from_stdin() -> Result<String, CommandError> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err(CommandError::usage("there is no question")
            .hint("outrigger ask \"What day is it today?\""));
    }
    let mut text = String::new();
    stdin.read_to_string(&mut text).map_err(|error| {
        CommandError::usage(format!(
            "the question cannot be read from standard input: {error}"
        ))
    })?;
    Ok(text)
}

/// What the run came to, in words and as an exit code. What is not known weighs most.
pub(super) fn verdict(
    answer: &Answer,
    run: &RunId,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let look = format!("`outrigger runs show {run}` has the particulars");
    match &answer.ending {
        Ending::Interrupted => {
            return Err(CommandError::new(Exit::Interrupted, "interrupted").hint(look));
        }
        Ending::Failed(error) => {
            let failure = CommandError::new(exit_of(error.kind), error.to_string());
            return Err(failure.hints(error.hints.clone()));
        }
        Ending::Limited(limit) => return Err(CommandError::failed(limit.clone()).hint(look)),
        Ending::Cut => {
            let warning = screen.talk(Label::Warn, "warning:");
            screen.insist(format_args!(
                "{warning} the answer was cut at the model's limit of output tokens"
            ));
        }
        Ending::Answered => {}
    }
    if answer.calls.unknown > 0 {
        let error = format!("the outcome of {} is unknown", calls(answer.calls.unknown));
        return Err(CommandError::new(Exit::Unknown, error)
            .hint("`outrigger runs unknown` says how to find out")
            .hint(look));
    }
    if answer.calls.nobody_to_ask > 0 {
        let error = format!(
            "{} not made: nobody was there to approve",
            was(answer.calls.nobody_to_ask)
        );
        let hint = if answer.calls.repeats < answer.calls.nobody_to_ask {
            "allow tools with `--allow 'GLOB'`, or run in a terminal to be asked"
        } else {
            "`outrigger runs unknown` says how to find out what came of the call they repeat"
        };
        return Err(CommandError::new(Exit::Refused, error).hint(hint));
    }
    if answer.text.trim().is_empty() {
        return Err(CommandError::failed("the model gave no answer").hint(look));
    }
    Ok(Exit::Done.into())
}

fn calls(count: u32) -> String {
    if count == 1 {
        "1 call".to_owned()
    } else {
        format!("{count} calls")
    }
}

fn was(count: u32) -> String {
    if count == 1 {
        "1 call was".to_owned()
    } else {
        format!("{count} calls were")
    }
}

fn exit_of(kind: ModelErrorKind) -> Exit {
    match kind {
        ModelErrorKind::Unauthorized
        | ModelErrorKind::RateLimited { .. }
        | ModelErrorKind::Unavailable
        | ModelErrorKind::Interrupted => Exit::Unavailable,
        ModelErrorKind::ContextTooLong | ModelErrorKind::Rejected | ModelErrorKind::Malformed => {
            Exit::Failed
        }
    }
}

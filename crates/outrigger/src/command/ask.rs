//! `outrigger ask`: one question, one answer.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;
use std::sync::Arc;

use outrigger_agent::{Agent, Answer, Conversation, Ending, Limits};
use outrigger_host::config::RunLimits;
use outrigger_host::policy::Policy;
use outrigger_journal::{Journal, RunId};
use outrigger_model::ModelErrorKind;
use tokio_util::sync::CancellationToken;

use crate::answer;
use crate::cli::{AskArgs, Common};
use crate::display::{Display, Show};
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
    session::interruptible(&cancel, ask(common, args, screen, &cancel)).await
}

async fn ask(
    common: &Common,
    args: AskArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let question = question(args.question.clone())?;
    let mut config = session::configuration_in(args.mode, common, screen)?;
    // A mistyped glob is told before a model is loaded for it.
    Policy::new(&config.policy, &args.allow)?;
    let model = models::choose(args.model.as_deref(), &mut config, args.threads, screen).await?;
    let show = if screen.data_is_read_live() && !args.json {
        Show::RunAndText
    } else {
        Show::Run
    };
    let display = Arc::new(Display::new(screen, show));
    let started = session::run_started(common, "ask", Some(&question), Some(model.id()))?;
    let session = Session::open(Opening {
        common,
        config: &config,
        screen,
        record: Record::Journal(started),
        observers: vec![display.clone()],
        person: Asked::Person,
        sampler: Some(Arc::new(RunModel(Arc::clone(&model)))),
        allow: &args.allow,
    })
    .await?;
    wait_for_servers(&session, screen, cancel).await;
    let agent = Agent {
        model,
        host: session.host.clone(),
        run: session.run.clone(),
        limits: limits(&config.limits),
    };
    let mut conversation = Conversation::default();
    let answer = Box::pin(agent.ask(&mut conversation, &question, &*display, cancel)).await;
    drop(agent);
    let (run, journal) = (session.run.id().clone(), session.journal.clone());
    let ended = answer.run_ended();
    if args.json {
        session.close(Some(ended), screen).await?;
        answer::print_json(&answer, &run, &reopen(journal, common)?, screen).await?;
    } else {
        if !answer.text.is_empty() && !display.has_printed(&answer.text) {
            screen.foreign(&format!("{}\n", answer.text.trim_end()))?;
        }
        session.close(Some(ended), screen).await?;
        if args.stats {
            answer::print_stats(&run, &reopen(journal, common)?, screen).await?;
        }
    }
    verdict(&answer, &run, screen)
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
        return Err(CommandError::new(Exit::Unknown, error).hint(look));
    }
    if answer.calls.nobody_to_ask > 0 {
        let error = format!(
            "{} not made: nobody was there to approve",
            was(answer.calls.nobody_to_ask)
        );
        let hint = "allow tools with `--allow 'GLOB'`, or run in a terminal to be asked";
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

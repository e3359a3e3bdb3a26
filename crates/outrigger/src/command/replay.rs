//! `outrigger replay`: runs a recording again, and says what differs first.

use std::process::ExitCode;

use clap::Parser as _;
use serde::Serialize;

use crate::cli::{Cli, Command, Common, ReplayArgs};
use crate::command;
use crate::error::{CommandError, Exit};
use crate::replay::{Difference, Playback, Tape};
use crate::screen::{Label, Screen};
use crate::visible;

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    same: bool,
    /// Requests that were made as recorded.
    model_requests: usize,
    server_requests: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'a Difference>,
}

pub(crate) async fn run(args: &ReplayArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    let tape = Tape::read(&args.dir)?;
    let cli = typed(&tape)?;
    let playback = Playback::new(tape)?;
    let mut common = cli.common;
    common.record = None;
    common.wire = None;
    common.config = Vec::new();
    common.state_dir = Some(playback.state_dir());
    common.playback = Some(playback.clone());
    let ended = Box::pin(again(&common, cli.command, &playback)).await?;
    let difference = playback.verdict(ended);
    let (model_requests, server_requests) = playback.counts();
    let document = Document {
        same: difference.is_none(),
        model_requests,
        server_requests,
        difference: difference.as_ref(),
    };
    if args.json {
        screen.json(&document)?;
    } else {
        told(&document, screen)?;
    }
    Ok(match difference {
        None => Exit::Done.into(),
        Some(_) => Exit::Failed.into(),
    })
}

fn told(document: &Document<'_>, screen: Screen) -> Result<(), CommandError> {
    let text = match document.difference {
        None => format!(
            "{}: {} requests to the model, {} to servers\n",
            screen.ink(Label::Good, "as recorded"),
            document.model_requests,
            document.server_requests
        ),
        Some(difference) => format!(
            "{}: {}\n",
            screen.ink(Label::Bad, "differs"),
            visible::lines(&difference.to_string())
        ),
    };
    Ok(screen.data(&text)?)
}

/// The command line of the recording.
fn typed(tape: &Tape) -> Result<Cli, CommandError> {
    let words = &tape.manifest.command;
    let words = ["outrigger"]
        .into_iter()
        .chain(words.iter().map(String::as_str));
    Cli::try_parse_from(words).map_err(|error| {
        let error = error.to_string();
        let line = error.lines().next().unwrap_or_default();
        CommandError::usage(format!(
            "the recording's command line cannot be read by this program: {line}"
        ))
    })
}

/// Runs the recorded command, unseen and unheard; its exit code.
async fn again(common: &Common, command: Command, playback: &Playback) -> Result<u8, CommandError> {
    let screen = Screen::silent();
    let ended = match command {
        Command::Ask(mut args) => {
            let question = playback.manifest().question.clone();
            args.question = question.or(args.question);
            Box::pin(command::ask::run(common, args, screen)).await
        }
        Command::Call(args) => Box::pin(command::call::run(common, args, screen)).await,
        Command::Tools(args) => command::tools::run(common, &args, screen).await,
        _ => {
            let error = "this command is not replayed; `ask`, `call` and `tools` are";
            return Err(CommandError::usage(error));
        }
    };
    Ok(Exit::of(&ended))
}

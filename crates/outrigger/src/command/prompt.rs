//! `outrigger prompt`: the prompts of servers, and the messages of one. Nothing is sent to a model.

use std::fmt::Write as _;
use std::process::ExitCode;

use outrigger_connect::{Offer, ServerName};
use outrigger_host::Host;
use outrigger_host::offers::{ByHand, Prompt, PromptText, Prompts, SetAside};
use outrigger_host::words;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::address::{self, Address};
use crate::cli::{Common, PromptArgs};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, Session};
use crate::visible;

use super::resource::{Wanted, with_session};

pub(crate) async fn run(
    common: &Common,
    args: &PromptArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, prompt(common, args, screen, &cancel)).await
}

async fn prompt(
    common: &Common,
    args: &PromptArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let address = args.prompt.as_deref().map(Address::of);
    let arguments = address::arguments(&args.pairs)?;
    let wanted = Wanted {
        command: "prompt",
        common,
        screen,
        server: address.as_ref().map(|address| address.server),
        fetches: address
            .as_ref()
            .is_some_and(|address| address.name.is_some()),
    };
    let one = address.and_then(|address| Some((address.server, address.name?)));
    if one.is_none() && !args.pairs.is_empty() {
        return Err(CommandError::usage(
            "`KEY=VALUE` is for one prompt: `SERVER:NAME`",
        ));
    }
    let work = async |session: &Session| {
        let host = &session.host;
        let Some((server, name)) = one else {
            return list(host, args, screen).await;
        };
        let by = ByHand {
            attended: screen.can_ask(),
            cancel: cancel.clone(),
            ..ByHand::default()
        };
        let server = address::server(server)?;
        let text = host.get_prompt(&server, name, &arguments, &by).await?;
        show(&text, args.json, screen)?;
        Ok(Exit::Done.into())
    };
    Box::pin(with_session(wanted, cancel, work)).await
}

async fn list(host: &Host, args: &PromptArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    for server in host.offering(Offer::Prompts) {
        match host.prompts(&server).await {
            Ok(prompts) => all.push((server, prompts)),
            Err(error) => {
                exit = Exit::Unavailable;
                screen.insist(visible::line(&error.to_string()));
            }
        }
    }
    if args.json {
        let servers = all.iter().map(|(server, prompts)| as_json(server, prompts));
        screen.json(&servers.collect::<Vec<_>>())?;
        return Ok(exit.into());
    }
    for (server, prompts) in &all {
        for prompt in &prompts.prompts {
            screen.data(&lines(server, prompt, screen))?;
        }
        aside(
            screen,
            server,
            "prompt",
            (&prompts.set_aside, &prompts.problems),
        );
    }
    if all.iter().all(|(_, prompts)| prompts.prompts.is_empty()) {
        screen.say("no connected server has prompts");
    }
    Ok(exit.into())
}

/// What could not be used of a list.
pub(super) fn aside(
    screen: Screen,
    server: &ServerName,
    kind: &str,
    (set_aside, problems): (&[SetAside], &[String]),
) {
    let warn = |line: &str| screen.say(screen.talk(Label::Warn, &visible::line(line)));
    for SetAside { name, reason } in set_aside {
        warn(&format!("{server}: {kind} `{name}` set aside: {reason}"));
    }
    for problem in problems {
        warn(&format!("{server}: {problem}"));
    }
}

/// A prompt as it is typed, and what it is.
pub(super) fn lines(server: &ServerName, prompt: &Prompt, screen: Screen) -> String {
    let name = format!("{server}:{}", prompt.name);
    // Writing to a String does not fail.
    let mut text = screen.ink(Label::Name, &visible::line(&name)).to_string();
    for argument in &prompt.arguments {
        let name = visible::line(&argument.name);
        let _ = if argument.required {
            write!(text, " {name}=…")
        } else {
            write!(text, " [{name}=…]")
        };
    }
    text.push('\n');
    let about = prompt.title.as_deref().unwrap_or(&prompt.description);
    if !about.is_empty() {
        let about = format!("    {}", visible::beginning(about, 200));
        let _ = writeln!(text, "{}", screen.ink(Label::Dim, &about));
    }
    text
}

fn as_json(server: &ServerName, prompts: &Prompts) -> Value {
    let prompt = |prompt: &Prompt| {
        let arguments = prompt.arguments.iter().map(|one| {
            json!({ "name": one.name, "description": one.description, "required": one.required })
        });
        json!({
            "name": prompt.name,
            "title": prompt.title,
            "description": prompt.description,
            "arguments": arguments.collect::<Vec<_>>(),
        })
    };
    json!({
        "server": server.as_str(),
        "prompts": prompts.prompts.iter().map(prompt).collect::<Vec<_>>(),
        "set_aside": set_aside_as_json(&prompts.set_aside),
        "problems": prompts.problems,
    })
}

pub(super) fn set_aside_as_json(set_aside: &[SetAside]) -> Value {
    let all = set_aside.iter();
    all.map(|entry| json!({ "name": entry.name, "reason": entry.reason }))
        .collect()
}

fn show(prompt: &PromptText, as_json: bool, screen: Screen) -> Result<(), CommandError> {
    if as_json {
        let answer: Value = serde_json::from_str(prompt.raw.get()).unwrap_or_default();
        return screen.json(&answer);
    }
    screen.foreign(&in_words(prompt))?;
    Ok(())
}

/// The messages of a prompt, for a person.
pub(super) fn in_words(prompt: &PromptText) -> String {
    let mut text = String::new();
    for message in &prompt.messages {
        let _ = writeln!(text, "{}:", message.role.as_str());
        for block in &message.content {
            let words = words::line(block);
            text.push_str(words.trim_end_matches('\n'));
            text.push('\n');
        }
    }
    text
}

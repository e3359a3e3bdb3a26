//! `outrigger pin`: which tools are new or differ from what was approved, and whether they may be used
//! as they are now.

use std::process::ExitCode;
use std::sync::Arc;

use outrigger_host::catalog::CatalogTool;
use outrigger_host::pins::Whose;
use outrigger_host::{Digest, ServerStatus};
use tokio_util::sync::CancellationToken;

use crate::cli::{Common, PinArgs};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, PATIENCE, Session};
use crate::visible;

/// Tools of one server that wait to be approved.
struct Waiting {
    server: ServerStatus,
    tools: Vec<Arc<CatalogTool>>,
    /// What it says about how it is used, where that waits too.
    instructions: Option<Digest>,
}

impl Waiting {
    fn count(&self) -> usize {
        self.tools.len() + usize::from(self.instructions.is_some())
    }
}

pub(crate) async fn run(
    common: &Common,
    args: &PinArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, pin(common, args, screen, &cancel)).await
}

async fn pin(
    common: &Common,
    args: &PinArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let mut config = session::configuration(common, screen)?;
    if let Some(server) = &args.server {
        session::only(&mut config, server)?;
    }
    // What waits is the question here, so it does not end the command.
    let common = &Common {
        locked: false,
        ..common.clone()
    };
    let session = Session::look(common, &config, screen).await?;
    session.host.wake(true);
    let session = session.settled(PATIENCE, cancel, screen).await?;
    let done = review(&session, args, screen);
    session.close(None, screen).await?;
    done
}

fn review(session: &Session, args: &PinArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    let waiting = waiting(session, args, screen)?;
    if waiting.is_empty() {
        screen.say("nothing is new and nothing has changed");
        return Ok(Exit::Done.into());
    }
    for one in &waiting {
        show(one, screen);
    }
    let count: usize = waiting.iter().map(Waiting::count).sum();
    let count = visible::count(count as u64, "definition");
    if !args.yes {
        ask(&count, screen)?;
    }
    let whose = if args.project {
        Whose::Project
    } else {
        Whose::User
    };
    let host = &session.host;
    for one in &waiting {
        if let Some(identity) = host.identity(&one.server.name) {
            let approved = host
                .pins()
                .approve(&identity, &one.tools, one.instructions, whose);
            approved.map_err(|error| CommandError::failed(error.to_string()))?;
        }
    }
    screen.say(format_args!("approved: {count}"));
    Ok(Exit::Done.into())
}

/// What waits, by server. A server that is not there is told of; it is an error when it was named.
fn waiting(
    session: &Session,
    args: &PinArgs,
    screen: Screen,
) -> Result<Vec<Waiting>, CommandError> {
    let mut waiting = Vec::new();
    for server in session.host.servers() {
        let name = &server.name;
        if let Some(reason) = server.state.why_missing() {
            let told = format!("`{name}` is not there: {}", visible::line(&reason));
            if args.server.is_some() {
                return Err(CommandError::new(Exit::Unavailable, told));
            }
            screen.insist(told);
            continue;
        }
        let Some(identity) = session.host.identity(name) else {
            continue;
        };
        if args.project && !identity.of_project {
            screen.say(format_args!(
                "`{name}` does not come with this folder; it is left out"
            ));
            continue;
        }
        let tools = chosen(&server, args)?;
        let catalog = server.catalog.clone().unwrap_or_default();
        let wanted = args.tools.is_empty() && (args.project || catalog.instructions_wait);
        let told = catalog.instructions.as_ref().map(|told| told.digest);
        let instructions = told.filter(|_| wanted);
        let one = Waiting {
            server,
            tools,
            instructions,
        };
        if one.count() > 0 {
            waiting.push(one);
        }
    }
    Ok(waiting)
}

/// Asks the person at the terminal; anything but a yes is an error.
fn ask(count: &str, screen: Screen) -> Result<(), CommandError> {
    if !screen.can_ask() {
        let error = CommandError::new(Exit::Refused, "nobody is there to approve them");
        return Err(error.hint("`outrigger pin --yes`, when you have read the above"));
    }
    screen.prompt(format_args!("Approve {count} as shown? [y]es, [n]o: "));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok();
    if ["y", "yes"].contains(&line.trim().to_lowercase().as_str()) {
        return Ok(());
    }
    Err(CommandError::new(Exit::Refused, "not approved"))
}

/// The tools that wait, or for a project's file all of them: it is to be whole.
fn chosen(server: &ServerStatus, args: &PinArgs) -> Result<Vec<Arc<CatalogTool>>, CommandError> {
    let catalog = server.catalog.clone().unwrap_or_default();
    let held = catalog.held.iter().map(|held| &held.tool);
    let every: Vec<_> = held.chain(&catalog.tools).cloned().collect();
    for wanted in &args.tools {
        if !every.iter().any(|tool| tool.raw_name == *wanted) {
            let error = format!("the server `{}` has no tool `{wanted}`", server.name);
            return Err(CommandError::usage(error).hint(format!(
                "`outrigger tools {}` lists what it has",
                server.name
            )));
        }
    }
    let waits = |tool: &CatalogTool| {
        args.project || catalog.is_held(tool) || catalog.unpinned.contains(&tool.raw_name)
    };
    let chosen = every.into_iter().filter(|tool| {
        waits(tool) && (args.tools.is_empty() || args.tools.contains(&tool.raw_name))
    });
    Ok(chosen.collect())
}

/// What is new in a line each; what has changed with every change.
fn show(waiting: &Waiting, screen: Screen) {
    const DESCRIBED: usize = 100;
    let catalog = waiting.server.catalog.clone().unwrap_or_default();
    let name = visible::line(waiting.server.name.as_str());
    screen.insist(screen.talk(Label::Name, &name));
    if let Some(told) = catalog
        .instructions
        .as_ref()
        .filter(|_| waiting.instructions.is_some())
    {
        screen.insist(format_args!(
            "  {}: what it says about how it is used",
            screen.talk(Label::Warn, "instructions")
        ));
        for line in told.text.lines() {
            screen.insist(format_args!("    > {}", visible::line(line)));
        }
    }
    for tool in &waiting.tools {
        let held = catalog.held.iter().find(|held| held.tool.name == tool.name);
        let (word, label) = match held {
            Some(held) if held.approved.is_some() => ("changed", Label::Warn),
            _ if catalog.unpinned.contains(&tool.raw_name) => ("new", Label::Good),
            _ => ("as approved", Label::Dim),
        };
        screen.insist(format_args!(
            "  {} {}  {}",
            screen.talk(label, word),
            visible::line(&tool.raw_name),
            visible::beginning(&tool.description, DESCRIBED)
        ));
        let Some(held) = held.filter(|held| held.approved.is_some()) else {
            continue;
        };
        for change in &held.changes {
            screen.insist(format_args!("    {}", visible::line(&change.to_string())));
        }
        if held.changes.is_empty() {
            screen.insist("    the definition that was approved is no longer here, so what has changed cannot be shown; the whole of it is now:");
            screen.insist(format_args!(
                "    {}",
                visible::folded_json(&tool.definition().to_string())
            ));
        }
    }
}

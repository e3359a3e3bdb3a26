//! `outrigger resource`: the resources of servers; one of them, byte for byte; its updates as they are
//! told.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outrigger_connect::{Offer, ServerName};
use outrigger_host::Host;
use outrigger_host::offers::{ByHand, Following, Resource, ResourceText, Resources, Template};
use outrigger_host::result::{Body, Content};
use outrigger_journal::{Event, RunStatus, Tokens};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::address::{self, Address};
use crate::cli::{Common, ResourceArgs};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, Asked, Opening, Record, Session};
use crate::visible;

use super::call::unavailable;
use super::prompt::{aside, set_aside_as_json};

/// How long a server may take until it is ready, with all that its own deadlines allow.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) async fn run(
    common: &Common,
    args: &ResourceArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, resource(common, args, screen, &cancel)).await
}

async fn resource(
    common: &Common,
    args: &ResourceArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let address = args.resource.as_deref().map(Address::of);
    let one = address
        .clone()
        .and_then(|address| Some((address.server, address.name?)));
    if args.watch && one.is_none() {
        return Err(CommandError::usage(
            "`--watch` is for one resource: `SERVER:URI`",
        ));
    }
    let wanted = Wanted {
        command: "resource",
        common,
        screen,
        server: address.as_ref().map(|address| address.server),
        fetches: one.is_some(),
    };
    let deadline = args.timeout.map(|seconds| {
        Duration::try_from_secs_f64(seconds).map_err(|error| {
            CommandError::usage(format!("`--timeout {seconds}` is not a time: {error}"))
        })
    });
    let by = ByHand {
        attended: screen.can_ask(),
        cancel: cancel.clone(),
        deadline: deadline.transpose()?,
        ..ByHand::default()
    };
    let work = async |session: &Session| {
        let host = &session.host;
        let Some((server, uri)) = one else {
            return list(host, args, screen).await;
        };
        let server = address::server(server)?;
        if args.watch {
            return watch(host, (&server, uri), args, (screen, cancel)).await;
        }
        match host.read_resource(&server, uri, &by).await {
            Ok(read) => print(&read, args.json, screen),
            Err(error) => Err(with_nearest(error.into(), host, &server, uri).await),
        }
    };
    Box::pin(with_session(wanted, cancel, work)).await
}

/// What a command that fetches by hand needs.
pub(super) struct Wanted<'a> {
    pub(super) command: &'static str,
    pub(super) common: &'a Common,
    pub(super) screen: Screen,
    /// The one server that is started.
    pub(super) server: Option<&'a str>,
    /// Something is fetched, and so recorded; a list is only looked at.
    pub(super) fetches: bool,
}

/// Starts the servers that are wanted, does the work, and closes in order. A run that fetches is
/// recorded with how it ended.
pub(super) async fn with_session(
    wanted: Wanted<'_>,
    cancel: &CancellationToken,
    work: impl AsyncFnOnce(&Session) -> Result<ExitCode, CommandError>,
) -> Result<ExitCode, CommandError> {
    let Wanted { common, screen, .. } = wanted;
    let mut config = session::configuration(common, screen)?;
    if let Some(server) = wanted.server {
        session::only(&mut config, server)?;
    }
    let session = if wanted.fetches {
        let started = session::run_started(common, wanted.command, None, None)?;
        Session::open(Opening {
            common,
            config: &config,
            screen,
            record: Record::Journal(started),
            observers: Vec::new(),
            person: Asked::Person,
            sampler: None,
            allow: &[],
        })
        .await?
    } else {
        Session::look(common, &config, screen).await?
    };
    let patience = match wanted.server {
        Some(_) => PATIENCE,
        None => session::PATIENCE,
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        _ = session.host.settled(patience) => {}
    }
    let mut down = failed(&session, wanted.server.is_some(), screen);
    let done = match (down.take(), cancel.is_cancelled()) {
        (_, true) => Err(CommandError::new(Exit::Interrupted, "interrupted")),
        (Some(error), _) => Err(error),
        (None, false) => work(&session).await,
    };
    let (status, reason) = match &done {
        Ok(_) => (RunStatus::Done, None),
        Err(error) => (status_of(error.exit), Some(error.to_string())),
    };
    let ended = Event::RunEnded {
        status,
        reason,
        answer: None,
        usage: Tokens::default(),
    };
    session
        .close(wanted.fetches.then_some(ended), screen)
        .await?;
    done
}

/// The failure of the one server that is wanted; of many, each is told.
fn failed(session: &Session, one: bool, screen: Screen) -> Option<CommandError> {
    for status in session.host.servers() {
        let Some(failure) = status.state.failure() else {
            continue;
        };
        let error = format!("`{}`: {}", status.name, failure.error);
        if one {
            let error = CommandError::new(unavailable(failure), error);
            return Some(error.hints(failure.hints.clone()));
        }
        screen.say(screen.talk(Label::Warn, &visible::line(&error)));
    }
    None
}

fn status_of(exit: Exit) -> RunStatus {
    match exit {
        Exit::Done => RunStatus::Done,
        Exit::Refused => RunStatus::Refused,
        Exit::Interrupted => RunStatus::Interrupted,
        _ => RunStatus::Failed,
    }
}

/// An error about an address, with those that are near to it.
pub(super) async fn with_nearest(
    error: CommandError,
    host: &Host,
    server: &ServerName,
    uri: &str,
) -> CommandError {
    if error.exit != Exit::Failed {
        return error;
    }
    let Ok(resources) = host.resources(server).await else {
        return error;
    };
    let near = resources.nearest(uri);
    let near: Vec<_> = near.iter().map(String::as_str).collect();
    error.did_you_mean(
        &near,
        &format!("`outrigger resource {server}` lists what it has"),
    )
}

async fn list(host: &Host, args: &ResourceArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    for server in host.offering(Offer::Resources) {
        match host.resources(&server).await {
            Ok(resources) => all.push((server, resources)),
            Err(error) => {
                exit = Exit::Unavailable;
                screen.insist(visible::line(&error.to_string()));
            }
        }
    }
    if args.json {
        let servers = all.iter().map(|(server, list)| as_json(server, list));
        screen.json(&servers.collect::<Vec<_>>())?;
        return Ok(exit.into());
    }
    for (server, list) in &all {
        screen.data(&in_lines(server, list, screen))?;
        aside(
            screen,
            server,
            "resource",
            (&list.set_aside, &list.problems),
        );
    }
    if all.is_empty() {
        screen.say("no connected server has resources");
    }
    Ok(exit.into())
}

/// Resources and templates as they are typed, and what they are.
pub(super) fn in_lines(server: &ServerName, list: &Resources, screen: Screen) -> String {
    let line = |uri: &str, whole: &str| {
        let about = whole.strip_prefix(uri).unwrap_or_default();
        let name = format!("{server}:{uri}");
        let mut text = format!("{}\n", screen.ink(Label::Name, &visible::line(&name)));
        if !about.trim().is_empty() {
            let about = format!("    {}", visible::beginning(about.trim_start(), 200));
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}", screen.ink(Label::Dim, &about));
        }
        text
    };
    let resources = list.resources.iter().map(|one| line(&one.uri, &one.line()));
    let templates = list.templates.iter().map(|one| line(&one.uri, &one.line()));
    resources.chain(templates).collect()
}

fn as_json(server: &ServerName, list: &Resources) -> Value {
    let resource = |one: &Resource| {
        json!({
            "uri": one.uri, "name": one.name, "title": one.title,
            "description": one.description, "media_type": one.media_type, "size": one.size,
        })
    };
    let template = |one: &Template| {
        json!({
            "uri": one.uri, "name": one.name, "title": one.title,
            "description": one.description, "media_type": one.media_type,
        })
    };
    json!({
        "server": server.as_str(),
        "resources": list.resources.iter().map(resource).collect::<Vec<_>>(),
        "templates": list.templates.iter().map(template).collect::<Vec<_>>(),
        "set_aside": set_aside_as_json(&list.set_aside),
        "problems": list.problems,
    })
}

/// Its bytes as they are; on a terminal, text made visible, and nothing else.
fn print(read: &ResourceText, json: bool, screen: Screen) -> Result<ExitCode, CommandError> {
    if json {
        let answer: Value = serde_json::from_str(read.raw.get()).unwrap_or_default();
        screen.json(&answer)?;
        return Ok(Exit::Done.into());
    }
    for block in &read.content {
        match &block.content {
            Content::Resource {
                body: Body::Whole(text),
                ..
            } => screen.foreign(text)?,
            Content::Blob { media, .. } if screen.data_is_read_live() => {
                let (kind, bytes) = (visible::line(&media.media_type), media.bytes);
                let error = format!("it is no text ({kind}, {bytes} bytes)");
                return Err(CommandError::failed(error).hint("send it into a file: `> FILE`"));
            }
            Content::Blob { uri, media } => {
                let data = media.data.as_deref().unwrap_or_default();
                let bytes = STANDARD.decode(data).map_err(|error| {
                    let uri = visible::line(uri);
                    CommandError::failed(format!(
                        "the server's `blob` of `{uri}` is no base64: {error}"
                    ))
                })?;
                screen.bytes(&bytes)?;
            }
            _ => {}
        }
    }
    Ok(Exit::Done.into())
}

async fn watch(
    host: &Host,
    (server, uri): (&ServerName, &str),
    args: &ResourceArgs,
    (screen, cancel): (Screen, &CancellationToken),
) -> Result<ExitCode, CommandError> {
    let Following {
        connection,
        followed,
        mut updates,
        before: mut told,
        in_use: _in_use,
    } = host.follow_resource(server, uri).await?;
    screen.say(format_args!("following {}", visible::line(uri)));
    let mut ended = connection.ended();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                followed.end().await;
                return Err(CommandError::new(Exit::Interrupted, "interrupted"));
            }
            Ok(reason) = ended.wait_for(Option::is_some) => {
                let reason = reason.clone().unwrap_or_default();
                let error = format!("the server `{server}` ended: {reason}");
                return Err(CommandError::new(Exit::Unavailable, visible::line(&error)));
            }
            changed = updates.changed() => if changed.is_err() {
                return Err(CommandError::new(Exit::Unavailable, "the connection is gone"));
            },
        }
        let now = updates.borrow_and_update().clone();
        for (updated, count) in &now.resources {
            let before = told.resources.get(updated).copied().unwrap_or_default();
            for _ in before..(*count).min(before.saturating_add(left)) {
                if args.json {
                    screen.json(&json!({ "server": server.as_str(), "uri": updated }))?;
                } else {
                    screen.foreign(&format!("{updated}\n"))?;
                }
            }
            left = left.saturating_sub(count - before);
        }
        told = now;
    }
    followed.end().await;
    Ok(Exit::Done.into())
}

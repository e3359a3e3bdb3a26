//! `outrigger inspect`: what one server is. It is started, asked what it offers, and closed; no tool
//! of it is called.
//!
//! The document of `--json` is made first; the page that a person reads is a view of it.

mod hygiene;
mod page;

use std::process::ExitCode;
use std::time::Duration;

use outrigger_connect::{Connection, Era, Listing, Offer, TransportSpec};
use outrigger_host::config::{Config, EntryState};
use outrigger_host::{Ready, ServerState, ServerStatus};
use outrigger_journal::Redactor;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::call::unavailable;
use super::tools::state_as_json;
use crate::cli::{Common, InspectArgs};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::session::{self, Session};

/// How long the server may take until it is ready, with all that its own deadlines allow.
const PATIENCE: Duration = Duration::from_mins(10);

/// The last lines of standard error that are told.
const SAID: usize = 20;

/// What is asked for besides tools, and what it is called in the document.
const OFFERS: [(Offer, &str); 3] = [
    (Offer::Resources, "resources"),
    (Offer::ResourceTemplates, "resource_templates"),
    (Offer::Prompts, "prompts"),
];

pub(crate) async fn run(
    common: &Common,
    args: &InspectArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, inspect(common, args, screen, &cancel)).await
}

async fn inspect(
    common: &Common,
    args: &InspectArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let mut config = session::configuration(common, screen)?;
    session::only(&mut config, &args.server)?;
    let session = Session::look(common, &config, screen).await?;
    session.host.wake(true);
    let session = session.settled(PATIENCE, cancel, screen).await?;
    let status = session.host.servers().into_iter().next();
    let Some(status) = status else {
        session.close(None, screen).await?;
        return Err(CommandError::failed(format!(
            "the server `{}` was not started",
            args.server
        )));
    };
    let looked = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        document = document(&status, &config) => Some(document),
    };
    // Knows the tokens and the secrets that were fetched, too.
    let redactor = session.run.redactor().clone();
    session.close(None, screen).await?;
    let Some(document) = looked else {
        return Err(CommandError::new(Exit::Interrupted, "interrupted"));
    };
    let document = without_secrets(&document, &redactor)?;
    if args.json {
        screen.json(&document)?;
    } else {
        page::print(&document, screen)?;
    }
    Ok(match &status.state {
        ServerState::Ready(_) => Exit::Done.into(),
        ServerState::Quarantined(failure) => unavailable(failure).into(),
        _ => Exit::Unavailable.into(),
    })
}

/// A server knows its own secrets, and may tell them.
fn without_secrets(document: &Value, redactor: &Redactor) -> Result<Value, CommandError> {
    let unreadable = |error: serde_json::Error| {
        CommandError::failed(format!("the report cannot be written as JSON: {error}"))
    };
    let raw = serde_json::value::to_raw_value(document).map_err(unreadable)?;
    serde_json::from_str(redactor.redact_json(&raw).get()).map_err(unreadable)
}

async fn document(status: &ServerStatus, config: &Config) -> Value {
    let mut out = state_as_json(status);
    let entry = config.servers.get(&status.name);
    let transport = entry.and_then(|entry| match &entry.state {
        EntryState::Ready(settings) => Some(&settings.spec.transport),
        _ => None,
    });
    out["transport"] = match (entry, transport) {
        (None, _) => "in-process".into(),
        (_, transport) => transport.map(name_of).into(),
    };
    out["configured_at"] = entry.map(|entry| entry.origin.to_string()).into();
    let mut warnings = Vec::new();
    if let Some(transport) = transport {
        warnings.extend(hygiene::of_transport(transport));
    }
    if let ServerState::Ready(ready) = &status.state {
        of_ready(&mut out, &mut warnings, status, ready).await;
    }
    out["warnings"] = json!(warnings);
    out
}

async fn of_ready(
    out: &mut Value,
    warnings: &mut Vec<String>,
    status: &ServerStatus,
    ready: &Ready,
) {
    let (connection, catalog) = (
        &ready.connection,
        status.catalog.clone().unwrap_or_default(),
    );
    let peer = connection.peer();
    out["era"] = match peer.era {
        Era::Modern => "modern".into(),
        Era::Legacy => "legacy".into(),
    };
    out["capabilities"] = peer.capabilities.as_deref().map_or(Value::Null, value);
    out["instructions"] = json!(peer.instructions);
    let mut timings = Map::new();
    timings.insert("start_ms".to_owned(), millis(peer.timings.start));
    timings.insert("handshake_ms".to_owned(), millis(peer.timings.handshake));
    timings.insert("tools_ms".to_owned(), millis(catalog.took));
    out["tools"] = json!({
        "count": catalog.tools.len(),
        "names": catalog.tools.iter().map(|tool| &tool.raw_name).collect::<Vec<_>>(),
        "pages": catalog.pages,
        "tokens": catalog.tokens(),
    });
    for (offer, name) in OFFERS {
        match connection.list(offer).await {
            Ok(None) => out[name] = Value::Null,
            Ok(Some(listing)) => {
                timings.insert(format!("{name}_ms"), millis(listing.took));
                warnings.extend(
                    listing
                        .problems
                        .iter()
                        .map(|problem| format!("{name}: {problem}")),
                );
                out[name] = as_json(&listing);
            }
            Err(error) => {
                out[name] = Value::Null;
                warnings.push(format!("{name}: {error}"));
            }
        }
    }
    out["timings"] = timings.into();
    out["processes"] = processes(connection);
    out["said"] = json!(connection.log_tail(SAID));
    warnings.extend(hygiene::of_server(connection, &catalog));
}

/// What a listing holds, by name and, where there is one, address.
fn as_json(listing: &Listing) -> Value {
    let entries = listing.entries.iter().map(|raw| {
        let entry = value(raw);
        let mut out = Map::new();
        for (member, name) in [("name", "name"), ("uri", "uri"), ("uriTemplate", "uri")] {
            if let Some(text) = entry[member].as_str() {
                out.insert(name.to_owned(), text.into());
            }
        }
        Value::Object(out)
    });
    json!({
        "count": listing.entries.len(),
        "entries": entries.collect::<Vec<_>>(),
        "pages": listing.pages,
    })
}

fn processes(connection: &Connection) -> Value {
    let processes = connection.processes();
    let processes = processes.iter().map(|process| {
        json!({
            "pid": process.pid,
            "parent": process.parent,
            "command": process.command,
            "ended": process.ended,
        })
    });
    processes.collect::<Vec<_>>().into()
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn millis(took: Duration) -> Value {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into()
}

/// As `type` in configuration has it.
fn name_of(transport: &TransportSpec) -> &'static str {
    match transport {
        TransportSpec::Stdio(_) => "stdio",
        TransportSpec::Http(_) => "http",
        TransportSpec::Sse(_) => "sse",
        TransportSpec::WebSocket(_) => "ws",
        TransportSpec::InProcess(_) => "in-process",
    }
}

//! What `ask` tells besides the answer: one JSON document, or what the run cost.

use jiff::Timestamp;
use outrigger_agent::Answer;
use outrigger_journal::{
    ArtifactRef, CallLine, Counted, Event, Journal, OutcomeKind, Recorded, RunId, Tokens,
};
use serde::Serialize;
use serde_json::Value;

use crate::display::seconds;
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::visible;

/// The document of `ask --json`.
#[derive(Serialize)]
struct Document<'a> {
    run: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    answer: &'a str,
    model: Option<String>,
    turns: u32,
    usage: Tokens,
    calls: Vec<CallDocument>,
    servers: Vec<ServerLine>,
}

/// A call, as the ledger has it.
#[derive(Serialize)]
struct CallDocument {
    run: String,
    call: u32,
    tool: String,
    server: Option<String>,
    /// JSON, unless what the model wrote was none.
    arguments: Value,
    sent: bool,
    outcome: Option<OutcomeKind>,
    is_error: bool,
    summary: String,
    artifacts: Vec<ArtifactRef>,
    took_ms: u64,
    at: Timestamp,
}

impl CallDocument {
    fn of(line: CallLine, events: &[Recorded]) -> Self {
        let ended = events.iter().find_map(|recorded| match &recorded.event {
            Event::CallEnded {
                call,
                is_error,
                artifacts,
                ..
            } if *call == line.call => Some((*is_error, artifacts.clone())),
            _ => None,
        });
        let (is_error, artifacts) = ended.unwrap_or_default();
        Self {
            run: line.run.to_string(),
            call: line.call,
            tool: line.tool,
            server: line.server,
            arguments: serde_json::from_str(&line.arguments)
                .unwrap_or_else(|_| line.arguments.into()),
            sent: line.sent,
            outcome: line.outcome,
            is_error,
            summary: line.summary,
            artifacts,
            took_ms: line.took_ms,
            at: line.at,
        }
    }
}

/// A server, as the run found it.
#[derive(Serialize)]
struct ServerLine {
    server: String,
    ready: bool,
    tools: u64,
    tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) async fn print_json(
    answer: &Answer,
    run: &RunId,
    journal: &Journal,
    screen: Screen,
) -> Result<(), CommandError> {
    let events = journal.events(run).await?;
    let Event::RunEnded {
        status,
        reason,
        usage,
        ..
    } = answer.run_ended()
    else {
        return Err(CommandError::failed("the run has no end"));
    };
    let lines = journal.calls(run).await?.into_iter();
    let document = Document {
        run: run.to_string(),
        status: status.as_str(),
        reason,
        answer: &answer.text,
        model: events.iter().find_map(model_of),
        turns: answer.turns,
        usage,
        calls: lines.map(|line| CallDocument::of(line, &events)).collect(),
        servers: events.iter().filter_map(server_of).collect(),
    };
    screen.json(&document)
}

fn model_of(recorded: &Recorded) -> Option<String> {
    match &recorded.event {
        Event::RunStarted { model, .. } => model.clone(),
        _ => None,
    }
}

fn server_of(recorded: &Recorded) -> Option<ServerLine> {
    match &recorded.event {
        Event::ServerReady {
            server,
            tools,
            tokens,
            ..
        } => Some(ServerLine {
            server: server.clone(),
            ready: true,
            tools: *tools,
            tokens: *tokens,
            error: None,
        }),
        Event::ServerFailed { server, error, .. } => {
            let error = Some(error.clone());
            Some(ServerLine {
                server: server.clone(),
                ready: false,
                tools: 0,
                tokens: 0,
                error,
            })
        }
        _ => None,
    }
}

/// What each server's declarations and each turn cost.
pub(crate) async fn print_stats(
    run: &RunId,
    journal: &Journal,
    screen: Screen,
) -> Result<(), CommandError> {
    let events = journal.events(run).await?;
    screen.say("");
    for line in server_lines(&events) {
        screen.say(line);
    }
    let header = format!(
        "{:>4} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "turn", "in", "cached", "out", "counted", "time"
    );
    screen.say(screen.talk(Label::Dim, &header));
    let mut total = Tokens::default();
    for recorded in &events {
        if let Event::ModelAnswered {
            turn,
            usage,
            took_ms,
            counted,
            ..
        } = &recorded.event
        {
            let counted = counted.as_ref().map(in_all).unwrap_or_default();
            screen.say(row(&turn.to_string(), usage, &counted, &seconds(*took_ms)));
            total.input += usage.input;
            total.cached += usage.cached;
            total.output += usage.output;
        }
    }
    screen.say(row("all", &total, "", "").trim_end());
    screen.say(format_args!("run {run}"));
    Ok(())
}

/// What the servers' declarations cost in the last request, or would have when none was answered.
fn server_lines(events: &[Recorded]) -> Vec<String> {
    let counted = events
        .iter()
        .rev()
        .find_map(|recorded| match &recorded.event {
            Event::ModelAnswered { counted, .. } => counted.as_ref(),
            _ => None,
        });
    if let Some(counted) = counted {
        // Tools that are found when they are wanted are in no request.
        let is_there = |name: &str| counted.servers.iter().any(|server| server.server == name);
        let found = ready(events).filter(|server| !is_there(&server.server));
        let found =
            found.map(|server| per_request(&server.server, (server.tools, 0), mark(counted), 0));
        return per_server(counted).chain(found).collect();
    }
    ready(events)
        .map(|server| per_request(&server.server, (server.tools, 0), "~", server.tokens))
        .collect()
}

/// The servers that were ready.
fn ready(events: &[Recorded]) -> impl Iterator<Item = ServerLine> {
    let servers = events.iter().filter_map(server_of);
    servers.filter(|server| server.ready)
}

/// A line for each server of a request.
pub(crate) fn per_server(counted: &Counted) -> impl Iterator<Item = String> {
    let mark = mark(counted);
    let servers = counted.servers.iter();
    servers.map(move |server| {
        let tools = (server.tools, server.deferred);
        per_request(&server.server, tools, mark, server.tokens)
    })
}

/// That an estimate was corrected, behind what counted.
pub(crate) fn corrected(by: u32) -> String {
    match by {
        0 => String::new(),
        by => format!(
            ", corrected by reports of {}",
            visible::count(by.into(), "request")
        ),
    }
}

/// `tools`: how many, and how many of them are left to the provider's search.
fn per_request(server: &str, (tools, deferred): (u64, u64), mark: &str, tokens: u64) -> String {
    let left = match deferred {
        0 => String::new(),
        deferred => format!(", {deferred} of them left to the provider's search"),
    };
    format!(
        "[server \"{}\": {}{left}, {mark}{} tokens per request]",
        visible::line(server),
        visible::count(tools, "tool"),
        visible::thousands(tokens)
    )
}

/// Tokens of a request, as this side counted them.
pub(crate) fn in_all(counted: &Counted) -> String {
    format!("{}{}", mark(counted), counted.input)
}

/// What stands before a count that is an estimate.
fn mark(counted: &Counted) -> &'static str {
    if counted.exact { "" } else { "~" }
}

fn row(turn: &str, usage: &Tokens, counted: &str, took: &str) -> String {
    format!(
        "{turn:>4} {:>8} {:>8} {:>8} {counted:>9} {took:>9}",
        usage.input, usage.cached, usage.output
    )
}

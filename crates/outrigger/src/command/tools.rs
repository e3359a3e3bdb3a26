//! `outrigger tools`: what there is to work with, and what it costs.

mod reader;
mod schema;
mod tokens;

use std::collections::BTreeMap;
use std::process::ExitCode;

use self::reader::Reader;
use outrigger_agent::Estimates;
use outrigger_host::catalog::{CatalogTool, Instructions};
use outrigger_host::config::Config;
use outrigger_host::review::Flag;
use outrigger_host::{Failure, Host, ServerState, ServerStatus};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::{Common, ToolsArgs};
use crate::display::seconds;
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, Session};
use crate::{reports, visible};

pub(crate) async fn run(
    common: &Common,
    args: &ToolsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, tools(common, args, screen, &cancel)).await
}

async fn tools(
    common: &Common,
    args: &ToolsArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let mut config = session::configuration(common, screen)?;
    if let Some(server) = &args.server {
        session::only(&mut config, server)?;
    }
    let session = Session::look(common, &config, screen).await?;
    let session = session.settled(session::PATIENCE, cancel, screen).await?;
    let servers = session.host.servers();
    let printed = if args.wants_reader() {
        let estimates = reports::estimates(common);
        read(&servers, &session.host, (&config, &estimates), args, screen)
    } else if args.json {
        screen.json(
            &servers
                .iter()
                .map(|server| as_json(server, &session.host))
                .collect::<Vec<_>>(),
        )
    } else {
        let left_out = Reader::left_out(&config, &session.host);
        let whole = args.server.is_some();
        print(&servers, &session.host, whole, &left_out, screen).map_err(CommandError::from)
    };
    session.close(None, screen).await?;
    printed?;
    let down = servers.iter().any(|server| {
        let state = &server.state;
        !matches!(
            state,
            ServerState::Ready(_)
                | ServerState::Idle
                | ServerState::Elsewhere(_)
                | ServerState::Disabled
        )
    });
    Ok(if down {
        Exit::Unavailable.into()
    } else {
        Exit::Done.into()
    })
}

/// What a provider is told of the tools.
fn read(
    servers: &[ServerStatus],
    host: &Host,
    (config, estimates): (&Config, &Estimates),
    args: &ToolsArgs,
    screen: Screen,
) -> Result<(), CommandError> {
    let reader = Reader::of(config, args.provider.as_deref(), args.model.as_deref())?;
    let reader = reader.corrected(estimates);
    match &args.schema {
        Some(name) => schema::print(host, name, &reader, args.json, screen),
        None => tokens::print(servers, host, &reader, args.json, screen),
    }
}

fn print(
    servers: &[ServerStatus],
    host: &Host,
    whole: bool,
    left_out: &BTreeMap<String, String>,
    screen: Screen,
) -> std::io::Result<()> {
    for server in servers {
        let name = server.name.to_string();
        screen.data(&format!(
            "{} {}\n",
            screen.ink(Label::Name, &visible::line(&name)),
            standing(server, screen)
        ))?;
        if let Some(failure) = server.state.failure() {
            print_failure(failure, screen)?;
        }
        let Some(catalog) = &server.catalog else {
            continue;
        };
        for tool in &catalog.tools {
            if whole {
                print_whole(tool, host, screen)?;
            } else {
                print_line(tool, host, screen)?;
            }
        }
        for tool in &catalog.set_aside {
            let line = format!(
                "  set aside: {}: {}",
                visible::line(&tool.tool),
                visible::line(&tool.reason)
            );
            screen.data(&format!("{}\n", screen.ink(Label::Warn, &line)))?;
        }
        for tool in &catalog.tools {
            if let Some(reason) = left_out.get(tool.name.as_str()) {
                let line = format!("  {}: {}", tool.name, visible::line(reason));
                screen.data(&format!("{}\n", screen.ink(Label::Warn, &line)))?;
            }
        }
        for problem in &catalog.problems {
            let line = format!("  {}", visible::line(problem));
            screen.data(&format!("{}\n", screen.ink(Label::Warn, &line)))?;
        }
        for flag in &server.flags {
            let line = format!("  look at this: {}", visible::line(&flagged(flag)));
            screen.data(&format!("{}\n", screen.ink(Label::Warn, &line)))?;
        }
        if let Some(instructions) = catalog.instructions.as_ref().filter(|_| whole) {
            print_instructions(instructions, screen)?;
        }
    }
    let toolset = host.toolset();
    screen.data(&format!(
        "{} in all, ~{} tokens per request\n",
        visible::count(toolset.tools().len() as u64, "tool"),
        toolset.tokens()
    ))
}

/// A flag in words.
pub(crate) fn flagged(flag: &Flag) -> String {
    match &flag.tool {
        Some(tool) => format!("`{tool}`: {}", flag.reason),
        None => format!("the server: {}", flag.reason),
    }
}

fn print_instructions(instructions: &Instructions, screen: Screen) -> std::io::Result<()> {
    let cut = if instructions.is_cut() {
        format!(" of {}", instructions.characters)
    } else {
        String::new()
    };
    let state = if instructions.shown {
        "models read them"
    } else {
        "models do not read them; `instructions = true` beside the server changes that"
    };
    let count = instructions.text.chars().count();
    screen.data(&format!(
        "\n  instructions, {count}{cut} characters ({state})\n"
    ))?;
    for line in visible::folded_lines(&instructions.text).lines() {
        screen.data(&format!("    {}\n", screen.ink(Label::Dim, line)))?;
    }
    Ok(())
}

/// What a server that was set aside said last, and what to do.
fn print_failure(failure: &Failure, screen: Screen) -> std::io::Result<()> {
    let said = failure.stderr_tail.iter().rev().take(5).rev();
    let said = said.map(|line| format!("  | {line}"));
    let hints = failure.hints.iter().map(|hint| format!("  hint: {hint}"));
    for line in said.chain(hints) {
        let line = visible::line(&line);
        screen.data(&format!("{}\n", screen.ink(Label::Dim, &line)))?;
    }
    Ok(())
}

/// One line about a server, behind its name.
pub(crate) fn standing(server: &ServerStatus, screen: Screen) -> String {
    match &server.state {
        ServerState::Ready(ready) => {
            let catalog = server.catalog.clone().unwrap_or_default();
            let peer = ready.connection.peer();
            let took = seconds(u64::try_from(ready.took.as_millis()).unwrap_or(u64::MAX));
            let count = catalog.tools.len();
            let noun = if count == 1 { "tool" } else { "tools" };
            format!(
                "{count} {noun}, ~{} tokens, protocol {}, ready in {took}",
                catalog.tokens(),
                visible::line(&peer.protocol_version)
            )
        }
        ServerState::AuthRequired(failure) => {
            let word = screen.ink(Label::Warn, "wants you to sign in");
            format!("{word}: {}", visible::line(&failure.error))
        }
        ServerState::Quarantined(failure) => {
            format!(
                "{} ({}): {}",
                screen.ink(Label::Bad, "set aside"),
                failure.stage,
                visible::line(&failure.error)
            )
        }
        ServerState::Backoff(failure) => {
            let word = screen.ink(Label::Warn, "starting again");
            format!("{word}: {}", visible::line(&failure.error))
        }
        ServerState::Elsewhere(failure) => {
            let word = screen.ink(Label::Dim, "not here");
            format!("{word}: {}", visible::line(&failure.error))
        }
        ServerState::Idle => {
            let seen = server.catalog.as_ref().map_or_else(String::new, |catalog| {
                let count = catalog.tools.len();
                let noun = if count == 1 { "tool" } else { "tools" };
                format!(", {count} {noun} when it was last seen")
            });
            format!("{}{seen}", screen.ink(Label::Dim, "not started"))
        }
        ServerState::Starting => screen.ink(Label::Warn, "still starting").to_string(),
        ServerState::Disabled => screen.ink(Label::Dim, "switched off").to_string(),
        ServerState::Stopped => "stopped".to_owned(),
    }
}

fn print_line(tool: &CatalogTool, host: &Host, screen: Screen) -> std::io::Result<()> {
    let outlook = host.policy().outlook(tool);
    let first = tool
        .description
        .trim_start()
        .lines()
        .next()
        .unwrap_or_default();
    let about = visible::beginning(first, 80);
    let (label, words) = (label_of(outlook.verdict.decision), outlook.to_string());
    let decision = screen.ink(label, &words);
    screen.data(&format!(
        "  {} ~{} tokens, {decision}\n",
        tool.name, tool.tokens
    ))?;
    if about.is_empty() {
        Ok(())
    } else {
        screen.data(&format!("      {}\n", screen.ink(Label::Dim, &about)))
    }
}

fn print_whole(tool: &CatalogTool, host: &Host, screen: Screen) -> std::io::Result<()> {
    let outlook = host.policy().outlook(tool);
    let policy = if outlook.depends() {
        format!(
            "{outlook}; `outrigger policy why {}` has the rules",
            tool.name
        )
    } else {
        outlook.verdict.to_string()
    };
    screen.data(&format!(
        "\n  {}\n",
        screen.ink(Label::Name, tool.name.as_str())
    ))?;
    let hints = hints(tool);
    let rows = [
        ("own name", visible::line(&tool.raw_name).into_owned()),
        (
            "title",
            visible::line(tool.title.as_deref().unwrap_or("")).into_owned(),
        ),
        ("policy", visible::line(&policy).into_owned()),
        (
            "says of itself",
            if hints.is_empty() {
                String::new()
            } else {
                hints.join(", ")
            },
        ),
        ("tokens", format!("~{}", tool.tokens)),
        ("digest", tool.digest.to_string()[..16].to_owned()),
    ];
    for (key, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        screen.data(&format!(
            "    {} {value}\n",
            screen.ink(Label::Dim, &format!("{key:<14}"))
        ))?;
    }
    for line in visible::folded_lines(&tool.description).lines() {
        screen.data(&format!("    {line}\n"))?;
    }
    let schema = serde_json::to_string_pretty(&tool.input_schema).unwrap_or_default();
    for line in schema.lines().map(visible::folded_json_line) {
        screen.data(&format!("    {}\n", screen.ink(Label::Dim, &line)))?;
    }
    Ok(())
}

fn hints(tool: &CatalogTool) -> Vec<&'static str> {
    let hints = tool.annotations;
    [
        (hints.read_only == Some(true), "only reads"),
        (hints.destructive == Some(true), "may destroy"),
        (hints.idempotent == Some(true), "repeating changes nothing"),
        (hints.open_world == Some(true), "reaches the outside world"),
    ]
    .into_iter()
    .filter_map(|(said, words)| said.then_some(words))
    .collect()
}

pub(super) fn label_of(decision: outrigger_host::config::Decision) -> Label {
    use outrigger_host::config::Decision;
    match decision {
        Decision::Allow => Label::Good,
        Decision::Ask => Label::Warn,
        Decision::Deny => Label::Bad,
    }
}

/// A server and its tools, for programs.
fn as_json(server: &ServerStatus, host: &Host) -> Value {
    let catalog = server.catalog.clone().unwrap_or_default();
    let tools: Vec<_> = catalog
        .tools
        .iter()
        .map(|tool| tool_as_json(tool, host))
        .collect();
    let set_aside: Vec<_> = catalog
        .set_aside
        .iter()
        .map(|tool| json!({"tool": tool.tool, "reason": tool.reason}))
        .collect();
    let mut out = state_as_json(server);
    out["tools"] = Value::from(tools);
    out["set_aside"] = Value::from(set_aside);
    out["problems"] = json!(catalog.problems);
    out["flags"] = flags_as_json(&server.flags);
    if let Some(instructions) = &catalog.instructions {
        out["instructions"] = json!({
            "text": instructions.text,
            "characters": instructions.characters,
            "shown_to_models": instructions.shown,
            "digest": instructions.digest.to_string(),
        });
    }
    out["tokens"] = Value::from(catalog.tokens());
    out
}

/// Flags, for programs; `tool` is null when it is about the server.
pub(crate) fn flags_as_json(flags: &[Flag]) -> Value {
    flags
        .iter()
        .map(|flag| json!({"tool": flag.tool, "reason": flag.reason}))
        .collect()
}

fn tool_as_json(tool: &CatalogTool, host: &Host) -> Value {
    let outlook = host.policy().outlook(tool);
    let possible = outlook.possible.iter().map(|decision| decision.as_str());
    let possible: Vec<_> = possible.collect();
    json!({
        "name": tool.name.as_str(),
        "raw_name": tool.raw_name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "tokens": tool.tokens,
        "decision": outlook.verdict.decision.as_str(),
        "possible": possible,
        "rule": outlook.verdict.rule,
        "digest": tool.digest.to_string(),
    })
}

/// Where a server stands, for programs; `doctor --json` says the same.
pub(crate) fn state_as_json(server: &ServerStatus) -> Value {
    let (name, state) = (server.name.as_str(), server.state.as_str());
    match &server.state {
        ServerState::Ready(ready) => {
            let peer = ready.connection.peer();
            json!({
                "server": name,
                "state": state,
                "protocol_version": peer.protocol_version,
                "server_name": peer.name,
                "server_version": peer.version,
                "took_ms": u64::try_from(ready.took.as_millis()).unwrap_or(u64::MAX),
            })
        }
        ServerState::AuthRequired(failure)
        | ServerState::Quarantined(failure)
        | ServerState::Elsewhere(failure)
        | ServerState::Backoff(failure) => json!({
            "server": name,
            "state": state,
            "stage": failure.stage,
            "error": failure.error,
            "hints": failure.hints,
            "stderr_tail": failure.stderr_tail,
        }),
        ServerState::Idle
        | ServerState::Starting
        | ServerState::Disabled
        | ServerState::Stopped => {
            json!({"server": name, "state": state})
        }
    }
}

//! `outrigger doctor`: each server in turn, what is wrong with it, and what to do.

use std::process::ExitCode;
use std::time::Duration;

use outrigger_connect::Era;
use outrigger_host::config::{Config, Severity};
use outrigger_host::{Host, ServerState, ServerStatus};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::tools::{flagged, flags_as_json, standing, state_as_json};
use crate::cli::{Common, DoctorArgs};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, Session};
use crate::visible;

/// How many tools there are, layer by layer.
struct Counts {
    configured: usize,
    connected: usize,
    discovered: usize,
    allowed: usize,
    active: usize,
}

pub(crate) async fn run(
    common: &Common,
    args: &DoctorArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, doctor(common, args, screen, &cancel)).await
}

async fn doctor(
    common: &Common,
    args: &DoctorArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    // Broken files are what a doctor is for: they are told below, and the rest is still looked at.
    let config = session::narrowed(session::trusted(common, screen)?, common)?;
    let session = Session::look(common, &config, screen).await?;
    let patience = Duration::from_secs(120);
    session.host.wake(true);
    let session = session.settled(patience, cancel, screen).await?;
    let (servers, counts) = (session.host.servers(), Counts::of(&session.host));
    let printed = if args.json {
        screen.json(&as_json(&config, &servers, &counts))
    } else {
        print(&config, &servers, &counts, screen).map_err(CommandError::from)
    };
    session.close(None, screen).await?;
    printed?;
    let broken = config.fatal().next().is_some();
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
    Ok(match (broken, down) {
        (true, _) => Exit::Usage.into(),
        (_, true) => Exit::Unavailable.into(),
        _ => Exit::Done.into(),
    })
}

impl Counts {
    fn of(host: &Host) -> Self {
        let (servers, toolset) = (host.servers(), host.toolset());
        let offered = |server: &ServerStatus| {
            server
                .catalog
                .as_ref()
                .map_or(0, |catalog| catalog.tools.len() + catalog.set_aside.len())
        };
        Self {
            configured: servers.len(),
            connected: servers
                .iter()
                .filter(|server| matches!(server.state, ServerState::Ready(_)))
                .count(),
            discovered: servers.iter().map(offered).sum(),
            allowed: toolset.tools().len(),
            active: toolset.tools().len(),
        }
    }
}

fn print(
    config: &Config,
    servers: &[ServerStatus],
    counts: &Counts,
    screen: Screen,
) -> std::io::Result<()> {
    for problem in &config.problems {
        screen.data(&format!(
            "{}\n",
            visible::lines(problem.render().trim_end())
        ))?;
    }
    for server in servers {
        print_server(server, screen)?;
    }
    let Counts {
        configured,
        connected,
        discovered,
        allowed,
        active,
    } = counts;
    screen.data(&format!(
        "\nservers: {configured} configured, {connected} connected\n\
         tools:   {discovered} discovered, {allowed} allowed, {active} active\n"
    ))
}

fn print_server(server: &ServerStatus, screen: Screen) -> std::io::Result<()> {
    let mark = match &server.state {
        ServerState::Ready(_) => screen.ink(Label::Good, "ok  "),
        ServerState::Disabled => screen.ink(Label::Dim, "off "),
        ServerState::Idle => screen.ink(Label::Dim, "idle"),
        ServerState::Elsewhere(_) => screen.ink(Label::Dim, "away"),
        ServerState::AuthRequired(_) => screen.ink(Label::Warn, "AUTH"),
        _ => screen.ink(Label::Bad, "FAIL"),
    };
    let name = server.name.to_string();
    screen.data(&format!(
        "{mark} {} {}\n",
        screen.ink(Label::Name, &visible::line(&name)),
        standing(server, screen)
    ))?;
    let mut lines = Vec::new();
    match &server.state {
        ServerState::Ready(ready) => {
            let peer = ready.connection.peer();
            let era = match peer.era {
                Era::Modern => "modern (no handshake)",
                Era::Legacy => "legacy (handshake)",
            };
            let own = [peer.name.as_deref(), peer.version.as_deref()];
            let own = own.into_iter().flatten().collect::<Vec<_>>().join(" ");
            lines.push(format!("era {era}; calls itself `{own}`"));
        }
        state => {
            let failure = state.failure();
            let said = failure.map_or(&[][..], |failure| &failure.stderr_tail);
            let hints = failure.map_or(&[][..], |failure| &failure.hints);
            lines.extend(said.iter().map(|line| format!("| {line}")));
            lines.extend(hints.iter().map(|hint| format!("hint: {hint}")));
        }
    }
    let catalog = server.catalog.clone().unwrap_or_default();
    lines.extend(
        catalog
            .set_aside
            .iter()
            .map(|tool| format!("tool `{}` set aside: {}", tool.tool, tool.reason)),
    );
    lines.extend(catalog.problems.iter().cloned());
    let flags = server.flags.iter();
    lines.extend(flags.map(|flag| format!("look at this: {}", flagged(flag))));
    for line in lines {
        screen.data(&format!("       {}\n", visible::line(&line)))?;
    }
    Ok(())
}

fn as_json(config: &Config, servers: &[ServerStatus], counts: &Counts) -> Value {
    let problems: Vec<_> = config
        .problems
        .iter()
        .map(|problem| json!({"error": problem.severity == Severity::Error, "message": problem.to_string(), "hints": problem.hints}))
        .collect();
    json!({
        "problems": problems,
        "servers": servers.iter().map(server_as_json).collect::<Vec<_>>(),
        "counts": {
            "configured": counts.configured,
            "connected": counts.connected,
            "discovered": counts.discovered,
            "allowed": counts.allowed,
            "active": counts.active,
        },
    })
}

fn server_as_json(server: &ServerStatus) -> Value {
    let mut out = state_as_json(server);
    if let ServerState::Ready(ready) = &server.state {
        out["era"] = match ready.connection.peer().era {
            Era::Modern => "modern".into(),
            Era::Legacy => "legacy".into(),
        };
    }
    let catalog = server.catalog.clone().unwrap_or_default();
    out["tools"] = Value::from(
        catalog
            .tools
            .iter()
            .map(|tool| tool.name.to_string())
            .collect::<Vec<_>>(),
    );
    out["set_aside"] = Value::from(
        catalog
            .set_aside
            .iter()
            .map(|tool| json!({"tool": tool.tool, "reason": tool.reason}))
            .collect::<Vec<_>>(),
    );
    out["problems"] = json!(catalog.problems);
    out["flags"] = flags_as_json(&server.flags);
    out
}

//! `outrigger serve`: the governed tools of all configured servers, for other hosts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use outrigger_gateway::{Activity, Clients, Gateway, Listener, Naming, Settings};
use outrigger_host::Digest;
use outrigger_host::config::{Config, show};
use outrigger_journal::{Event, RunStatus, Tokens};
use serde_json::json;
use tokio::task::JoinSet;

use crate::cli::{Common, ServeArgs};
use crate::display::{Display, Show};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, Asked, Opening, Record, Session};
use crate::surroundings;

/// What is under way when it is to end may take this long. Hosts that end a program wait for 2 s.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) async fn run(
    common: &Common,
    args: ServeArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let mut config = session::configuration_in(args.mode, common, screen)?;
    if let Some(server) = &args.server {
        session::only(&mut config, server)?;
    }
    // Whoever cannot be connected to need not start anything.
    let listeners = listeners(&args).await?;
    let kept = kept(common, &args, &config)?;
    let clients = Clients::default();
    let activity = Arc::new(Activity::default());
    let started = session::run_started(common, "serve", None, None)?;
    let session = Session::open(Opening {
        common,
        config: &config,
        screen,
        record: Record::Journal(started),
        observers: vec![
            Arc::new(Display::new(screen, Show::Servers)),
            activity.clone(),
        ],
        person: Asked::Clients(clients.clone(), config.gateway.clone()),
        sampler: None,
        allow: &args.allow,
    })
    .await?;
    let settings = Settings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        naming: match args.server {
            Some(_) => Naming::Own,
            None => Naming::ServerAndTool,
        },
        kept,
        record: outrigger_gateway::Record {
            activity,
            journal: session.journal.clone(),
            run: Some(session.run.clone()),
        },
        keys: surroundings::page_keys(common).ok(),
    };
    // Whoever waits at a pipe waits for a moment only.
    let drain = match listeners.is_empty() {
        true => Duration::ZERO,
        false => config.gateway.drain_timeout.value,
    };
    let gateway = Gateway::start(session.host.clone(), clients, settings);
    let mut serving = Box::pin(serve(&gateway, listeners, screen));
    tokio::select! {
        () = &mut serving => {}
        () = session::interrupted() => tokio::select! {
            () = gateway.drain(drain) => {}
            // It goes on for those that are under way, and for who looks whether it is ready.
            () = &mut serving => {}
            // Asked twice.
            () = session::interrupted() => {}
        },
    }
    drop(serving);
    gateway.stop(GRACE).await;
    let ended = Event::RunEnded {
        status: RunStatus::Done,
        reason: None,
        answer: None,
        usage: Tokens::default(),
    };
    session.close(Some(ended), screen).await?;
    Ok(Exit::Done.into())
}

/// Serves until the one client is gone, or for ever.
async fn serve(gateway: &Gateway, listeners: Vec<Listener>, screen: Screen) {
    if listeners.is_empty() {
        return gateway
            .serve_pipe(tokio::io::stdin(), tokio::io::stdout())
            .await;
    }
    let mut serving = JoinSet::new();
    for listener in listeners {
        let at = screen.talk(Label::Good, "serving on");
        screen.say(format_args!("{at} {}", listener.place()));
        if let Some((page, _)) = listener.page() {
            screen.say(format_args!("status page: {page}/"));
        }
        let gateway = gateway.clone();
        serving.spawn(async move { gateway.serve(listener).await });
    }
    while serving.join_next().await.is_some() {}
}

async fn listeners(args: &ServeArgs) -> Result<Vec<Listener>, CommandError> {
    let mut listeners = Vec::new();
    let failed = |error: outrigger_gateway::ListenError| CommandError::usage(error.to_string());
    if let Some(address) = args.http {
        listeners.push(Listener::http(address).await.map_err(failed)?);
    }
    if let Some(path) = &args.socket {
        #[cfg(unix)]
        listeners.push(Listener::socket(path).await.map_err(failed)?);
        #[cfg(not(unix))]
        return Err(CommandError::usage(format!(
            "`--socket {}`: there are no Unix sockets here",
            path.display()
        )));
    }
    Ok(listeners)
}

/// Where it is kept what was last known of the tools under this configuration, seen with these flags.
fn kept(
    common: &Common,
    args: &ServeArgs,
    config: &Config,
) -> Result<Option<PathBuf>, CommandError> {
    let Some(folder) = surroundings::gateway() else {
        return Ok(None);
    };
    let key = Digest::of(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "workspace": surroundings::workspace(common)?,
        "server": args.server,
        "allow": args.allow,
        "locked": common.locked,
        "config": show::to_json(config),
    }));
    Ok(Some(folder.join(format!("{key}.json"))))
}

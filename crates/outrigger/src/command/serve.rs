//! `outrigger serve`: the governed tools of all configured servers, for other hosts.

mod keeper;
mod renew;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use outrigger_gateway::{Activity, Gateway, ListenError, Listener, Naming, Settings};
use outrigger_host::config::GatewaySettings;
use tokio::task::JoinSet;

use crate::cli::{Common, ServeArgs};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::storage::Storage;
use crate::{session, surroundings};
use keeper::Sessions;
use renew::Basis;
pub(crate) use renew::read_again;
use watch::Watch;

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
    let access = config.gateway.clone();
    of_one(common, &access)?;
    // Whoever cannot be connected to need not start anything.
    let listeners = listeners(&args, &access).await?;
    let is_local = listeners.is_empty() || listeners.iter().any(|it| it.is_local(&access));
    // Whoever waits at a pipe waits for a moment only.
    let is_pipe = listeners.is_empty();
    let activity = Arc::new(Activity::default());
    let settings = Settings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        naming: match args.server {
            Some(_) => Naming::Own,
            None => Naming::ServerAndTool,
        },
        access,
        activity: Arc::clone(&activity),
        keys: surroundings::page_keys(common).ok(),
    };
    let watch = Watch::new(&config);
    let storage = Storage::of(common).await?;
    let basis = Arc::new(Basis::new(common, args, config, (storage, screen)));
    let sessions = Arc::new(Sessions::new(Arc::clone(&basis)).seen_by(activity));
    let broken = sessions.broken();
    let drain = || {
        if is_pipe {
            Duration::ZERO
        } else {
            basis.drain()
        }
    };
    let gateway = Gateway::start(sessions.clone(), settings);
    // Others' servers are started when they come.
    let opened = if is_local {
        gateway.open_local().await
    } else {
        Ok(())
    };
    if opened.is_ok() {
        let serving = Box::pin(serve(&gateway, listeners, screen));
        tokio::select! {
            () = Box::pin(until_asked(&gateway, serving, drain)) => {}
            () = broken.cancelled() => {}
            () = Box::pin(basis.follow(&gateway, watch)) => {}
        }
    }
    gateway.stop(GRACE).await;
    sessions.close().await?;
    Ok(Exit::Done.into())
}

/// Complains about flags that are about one principal, where there may be several.
fn of_one(common: &Common, access: &GatewaySettings) -> Result<(), CommandError> {
    let of_one = [("--record", &common.record), ("--wire", &common.wire)];
    let of_one = of_one.iter().find(|(_, place)| place.is_some());
    let Some((flag, _)) = of_one.filter(|_| access.knows_anybody()) else {
        return Ok(());
    };
    let error = format!("`{flag}` is about one principal, and clients can show who they are here");
    Err(CommandError::usage(error)
        .hint("use it without `[gateway.principals]` and `[gateway.oauth]`"))
}

/// Goes on until it is asked to end, and then for those that are under way, and for who looks whether
/// it is ready.
async fn until_asked(
    gateway: &Gateway,
    mut serving: impl Future<Output = ()> + Unpin,
    drain: impl Fn() -> Duration,
) {
    tokio::select! {
        () = &mut serving => return,
        () = session::interrupted() => {}
    }
    tokio::select! {
        () = gateway.drain(drain()) => {}
        () = &mut serving => {}
        // Asked twice.
        () = session::interrupted() => {}
    }
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
        let page = gateway.page(&listener);
        let at = screen.talk(Label::Good, "serving on");
        screen.say(format_args!("{at} {}", listener.place()));
        if let Some(page) = page {
            screen.say(format_args!("status page: {page}/"));
        }
        let gateway = gateway.clone();
        serving.spawn(async move { gateway.serve(listener).await });
    }
    while serving.join_next().await.is_some() {}
}

async fn listeners(
    args: &ServeArgs,
    access: &GatewaySettings,
) -> Result<Vec<Listener>, CommandError> {
    let mut listeners = Vec::new();
    let failed = |error: ListenError| {
        let told = CommandError::usage(error.to_string());
        match error {
            ListenError::NotLoopback(_) => told
                .hint("`outrigger gateway token NAME` makes a token for each who may connect; `[gateway.oauth]` names an authorization server instead")
                .hint("or serve on 127.0.0.1, which other machines do not reach"),
            _ => told,
        }
    };
    if let Some(address) = args.http {
        listeners.push(Listener::http(address, access).await.map_err(failed)?);
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

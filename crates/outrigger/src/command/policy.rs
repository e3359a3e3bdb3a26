//! `outrigger policy`: trying out rules before they meet a call. No call is made by any of it.

mod replay;
mod test;
mod why;

use std::process::ExitCode;

use outrigger_host::catalog::Catalog;
use outrigger_host::config::{Config, Severity};
use tokio_util::sync::CancellationToken;

use crate::cli::{Common, PolicyArgs, PolicyCommand};
use crate::error::CommandError;
use crate::screen::Screen;
use crate::session::{self, Session};
use crate::visible;

pub(crate) async fn run(
    common: &Common,
    args: PolicyArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    let work = async {
        match args.command {
            PolicyCommand::Test { file, json } => {
                test::run(common, &file, json, screen, &cancel).await
            }
            PolicyCommand::Why(args) => why::run(common, &args, screen, &cancel).await,
            PolicyCommand::Replay {
                run,
                policy,
                mode,
                json,
            } => {
                let wanted = replay::Wanted {
                    run,
                    policy,
                    mode: mode.map(Into::into),
                    json,
                };
                replay::run(common, &wanted, screen, &cancel).await
            }
        }
    };
    session::interruptible(&cancel, Box::pin(work)).await
}

/// The built-in tools. They are at hand without starting anything; those of configured servers are
/// known by name only.
async fn builtin_tools(
    common: &Common,
    config: &Config,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<Catalog, CommandError> {
    let mut own = config.clone();
    // A configured server that stands in the place of a built-in one still does.
    let taken: Vec<_> = own.servers.drain(..).map(|(name, _)| name).collect();
    let session = Session::look(common, &own, screen).await?;
    let session = session.settled(session::PATIENCE, cancel, screen).await?;
    let mut catalog = session.host.catalog();
    session.close(None, screen).await?;
    catalog.servers.retain(|name, _| !taken.contains(name));
    Ok(catalog)
}

/// Tells problems of a file; says whether it can be used all the same.
fn told(
    problems: &[outrigger_host::config::ConfigProblem],
    what: &str,
    screen: Screen,
) -> Result<(), CommandError> {
    for problem in problems {
        screen.insist(visible::lines(problem.render().trim_end()));
    }
    let fatal = problems
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    if fatal {
        return Err(CommandError::usage(format!("{what} cannot be used")));
    }
    Ok(())
}

//! `outrigger model`: weights of local models.

use std::process::ExitCode;

use crate::cli::ModelArgs;
use crate::error::CommandError;
use crate::screen::Screen;

#[cfg(feature = "local")]
pub(crate) async fn run(args: ModelArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    use crate::cli::ModelCommand;
    use crate::error::Exit;
    use crate::models::local;

    match args.command {
        ModelCommand::List { json } => local::list(json, screen)?,
        ModelCommand::Pull { name } => local::pull(&name, screen).await?,
        ModelCommand::Rm { name } => local::remove(&name, screen)?,
    }
    Ok(Exit::Done.into())
}

#[cfg(not(feature = "local"))]
pub(crate) async fn run(_: ModelArgs, _: Screen) -> Result<ExitCode, CommandError> {
    let error = CommandError::usage("this build has no local models");
    std::future::ready(Err(error.hint("build it with `--features local`"))).await
}

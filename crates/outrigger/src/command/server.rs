//! `outrigger server`: a built-in server on its own, for any MCP host.

use std::process::ExitCode;

use outrigger_servers::serve;

use crate::cli::{Common, ServerArgs};
use crate::error::{CommandError, Exit};
use crate::{builtin, surroundings};

pub(crate) async fn run(common: &Common, args: &ServerArgs) -> Result<ExitCode, CommandError> {
    let server = builtin::parse(&args.name)?;
    let options = builtin::options(&surroundings::workspace(common)?);
    let ended = serve(server, options, tokio::io::stdin(), tokio::io::stdout()).await;
    ended.map_err(|error| {
        CommandError::failed(format!("the server `{}` ended: {error}", args.name))
    })?;
    Ok(Exit::Done.into())
}

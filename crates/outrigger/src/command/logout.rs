//! `outrigger logout`: forgets the token of a server, and says so to whoever issued it.

use std::process::ExitCode;

use outrigger_journal::Redactor;

use super::login::{endpoint, failed};
use crate::cli::{Common, LogoutArgs};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::session;

pub(crate) async fn run(
    common: &Common,
    args: &LogoutArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let http = endpoint(common, (&args.server, args.principal.as_deref()), screen).await?;
    let redactor = Redactor::default();
    let signed_out = session::oauth(common, &redactor, args.principal.as_deref())?
        .sign_out(&http)
        .await;
    let signed_out = signed_out.map_err(|error| failed(&args.server, &error, &redactor))?;
    screen.say(format_args!("`{}`: {signed_out}", args.server));
    Ok(Exit::Done.into())
}

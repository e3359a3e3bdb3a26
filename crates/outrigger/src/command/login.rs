//! `outrigger login`: signs in at a server that wants a token.

use std::process::ExitCode;

use outrigger_connect::{HttpSpec, OAuthError, SignedIn, TransportSpec, VisitError};
use outrigger_host::config::EntryState;
use outrigger_journal::Redactor;
use tokio_util::sync::CancellationToken;

use crate::browser::Browser;
use crate::cli::{Common, LoginArgs};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::session;
use crate::visible;

pub(crate) async fn run(
    common: &Common,
    args: &LoginArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, login(common, args, screen, &cancel)).await
}

async fn login(
    common: &Common,
    args: &LoginArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let http = endpoint(common, (&args.server, args.principal.as_deref()), screen).await?;
    if let Some((name, _)) = http
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    {
        let error = format!(
            "the server `{}` is sent the header `{name}` that is configured for it",
            args.server
        );
        return Err(CommandError::usage(error).hint("remove it from `headers` to sign in instead"));
    }
    let browser = Browser {
        screen,
        open: !args.no_browser,
    };
    let redactor = Redactor::default();
    let oauth = session::oauth(common, &redactor, args.principal.as_deref())?;
    let signed_in = tokio::select! {
        signed_in = oauth.sign_in(&http, &browser, cancel) => signed_in,
        () = cancel.cancelled() => Err(VisitError::Cancelled.into()),
    };
    let signed_in = signed_in.map_err(|error| failed(&args.server, &error, &redactor))?;
    screen.say(words(&args.server, &signed_in));
    Ok(Exit::Done.into())
}

fn words(server: &str, signed_in: &SignedIn) -> String {
    let SignedIn {
        issuer,
        scopes,
        renewable,
        ..
    } = signed_in;
    let scopes = if scopes.is_empty() {
        String::new()
    } else {
        format!(" for `{}`", scopes.join(" "))
    };
    let ends = if *renewable {
        ""
    } else {
        "; the token cannot be renewed, so this has to be done again when it ends"
    };
    visible::line(&format!(
        "signed in to `{server}` at {issuer}{scopes}{ends}"
    ))
    .into_owned()
}

/// The server's address, where it is one that can be signed in at.
pub(super) async fn endpoint(
    common: &Common,
    (server, principal): (&str, Option<&str>),
    screen: Screen,
) -> Result<HttpSpec, CommandError> {
    let mut config = match principal {
        Some(name) => session::configuration_of(name, None, common)?,
        None => session::configuration(common, screen)?,
    };
    session::only(&mut config, server)?;
    let config = session::with_secrets(&config, false, common, screen).await?;
    let entry = config
        .servers
        .values()
        .find(|entry| entry.name.as_str() == server);
    match entry.map(|entry| &entry.state) {
        Some(EntryState::Ready(settings)) => match &settings.spec.transport {
            TransportSpec::Http(http) | TransportSpec::Sse(http) => Ok(http.clone()),
            _ => Err(not_there(server)),
        },
        Some(EntryState::NeedsTrust(_)) => {
            let error =
                format!("the server `{server}` comes with this folder, which is not trusted");
            Err(CommandError::new(Exit::Refused, error)
                .hint("`outrigger trust` shows what it brings, and asks"))
        }
        Some(EntryState::Broken(problems)) => {
            let said = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
            let error = format!("the server `{server}` is set aside: {}", said.join("; "));
            Err(CommandError::usage(error))
        }
        _ => Err(not_there(server)),
    }
}

fn not_there(server: &str) -> CommandError {
    let error =
        format!("the server `{server}` is not reached over HTTP, and nobody signs in to it");
    CommandError::usage(error).hint("what it needs to know goes into its `env`")
}

/// In words that hold none of the secrets that `redactor` knows: whoever refuses a token may repeat it.
pub(super) fn failed(server: &str, error: &OAuthError, redactor: &Redactor) -> CommandError {
    let exit = match error {
        OAuthError::Visit(VisitError::Cancelled) => Exit::Interrupted,
        OAuthError::Unreachable { .. } => Exit::Unavailable,
        OAuthError::NoCredentials => Exit::Usage,
        _ => Exit::Failed,
    };
    let words = format!("signing in to `{server}` failed: {error}");
    let words = redactor.redact(&words);
    let failed = CommandError::new(exit, visible::line(&words).into_owned());
    match error {
        OAuthError::NoClient { .. } => failed.hint(
            "register a client there, and write `oauth.client_id` (and `oauth.client_secret`) for this server",
        ),
        OAuthError::NoMetadata { .. } => {
            failed.hint("if it takes a token that is got elsewhere, write it into `headers`")
        }
        OAuthError::Visit(VisitError::Listen(_) | VisitError::Show(_)) => {
            failed.hint("`--no-browser` prints the address instead")
        }
        _ => failed,
    }
}

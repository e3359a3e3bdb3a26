//! `outrigger secrets`: references to secrets, and secrets that still stand in files.

mod import;

use std::process::ExitCode;

use futures::future::join_all;
use outrigger_host::config::{ReferenceUse, Unresolved};
use serde_json::json;

use crate::cli::{Common, SecretsArgs, SecretsCommand};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::secrets::Secrets;
use crate::{session, visible};

pub(crate) async fn run(
    common: &Common,
    args: &SecretsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    match args.command {
        SecretsCommand::List { json } => list(common, json, screen).await,
        SecretsCommand::Import { to, yes } => import::run(common, to, yes, screen).await,
    }
}

async fn list(common: &Common, as_json: bool, screen: Screen) -> Result<ExitCode, CommandError> {
    let config = session::configuration(common, screen)?;
    let resolver = Secrets::new(session::supervisor());
    let uses = config.references();
    let tried = uses
        .iter()
        .map(|used| config.try_reference(&used.reference, &resolver));
    let tried = join_all(tried).await;
    let all = uses.iter().zip(&tried);
    if as_json {
        let rows: Vec<_> = all.clone().map(|(used, tried)| row(used, tried)).collect();
        screen.json(&rows)?;
    } else {
        for (used, tried) in all {
            screen.data(&line(used, tried, screen))?;
        }
        if uses.is_empty() {
            screen.say("no server, hook or provider in use refers to a secret");
        }
    }
    let lacking = tried.iter().any(Result::is_err);
    Ok(if lacking { Exit::Failed } else { Exit::Done }.into())
}

fn row(used: &ReferenceUse, tried: &Result<(), Unresolved>) -> serde_json::Value {
    let reason = tried
        .as_ref()
        .err()
        .map(|unresolved| unresolved.reason.clone());
    json!({
        "reference": used.reference.to_string(),
        "key": used.key,
        "place": used.place,
        "resolvable": tried.is_ok(),
        "reason": reason,
    })
}

fn line(used: &ReferenceUse, tried: &Result<(), Unresolved>, screen: Screen) -> String {
    let mark = match tried {
        Ok(()) => screen.ink(Label::Good, "ok  "),
        Err(_) => screen.ink(Label::Bad, "FAIL"),
    };
    let (key, reference) = (
        visible::line(&used.key).into_owned(),
        used.reference.to_string(),
    );
    let place = format!("({})", used.place);
    let mut text = format!(
        "{mark} {key} = {} {}\n",
        screen.ink(Label::Name, &visible::line(&reference)),
        screen.ink(Label::Dim, &visible::line(&place))
    );
    if let Err(Unresolved { reason, hint }) = tried {
        let hint = hint.iter().map(|hint| format!("hint: {hint}"));
        for line in [reason.clone()].into_iter().chain(hint) {
            text.extend(["       ", &*visible::line(&line), "\n"]);
        }
    }
    text
}

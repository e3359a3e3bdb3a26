//! The configuration that a command works with: read, complained about, trusted or not, with its
//! references to secrets followed.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_host::config::{Config, EntryState, Resolver, Severity, Trust};

use super::supervisor;
use crate::cli::{Common, RunMode};
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::trust::{self, Said, TrustStore};
use crate::{models, secrets, surroundings, telemetry, traces, visible};

/// Reads the configuration. Broken files and broken policy end the command: what they would have
/// forbidden is not known. A broken server is only set aside, and so is one that comes with a folder
/// that nobody trusts.
pub(crate) fn configuration(common: &Common, screen: Screen) -> Result<Config, CommandError> {
    let config = trusted(common, screen)?;
    tell_problems(&config, screen);
    if config.fatal().next().is_some() {
        let error = CommandError::usage("the configuration cannot be used; nothing was started");
        return Err(error.hint("`outrigger doctor` looks at the rest"));
    }
    narrowed(config, common)
}

fn tell_problems(config: &Config, screen: Screen) {
    for problem in &config.problems {
        match problem.severity {
            Severity::Warning => screen.say(visible::lines(problem.render().trim_end())),
            Severity::Error => screen.insist(visible::lines(problem.render().trim_end())),
        }
    }
}

/// The configuration while a command runs that has read it before. Nobody is asked: the folder's own
/// files count where the person has trusted them, or where they are still those of digest `trusted`.
pub(crate) fn configuration_again(
    common: &Common,
    trusted: Option<&str>,
    screen: Screen,
) -> Result<Config, CommandError> {
    let mut around = surroundings::of_configuration(common)?;
    let mut config = outrigger_host::config::load(&around);
    let project = config.project.as_ref();
    if let Some(project) = project.filter(|project| project.needs_trust()) {
        if trusted == Some(&*project.digest) {
            around.trust = Trust::Content(project.digest.clone());
            config = outrigger_host::config::load(&around);
        } else {
            screen.say(format_args!(
                "{} this folder's files are not trusted as they are now, so what they bring is not used: {}",
                screen.talk(Label::Warn, "note:"),
                trust::names(project)
            ));
        }
    }
    tell_problems(&config, screen);
    if config.fatal().next().is_some() {
        return Err(CommandError::usage("it has errors"));
    }
    narrowed(config, common)
}

/// The configuration under the profile that was asked for.
pub(crate) fn narrowed(config: Config, common: &Common) -> Result<Config, CommandError> {
    let Some(name) = &common.profile else {
        return Ok(config);
    };
    config.with_profile(name).map_err(|unknown| {
        let hint = visible::line(&unknown.hint()).into_owned();
        CommandError::usage(unknown.to_string()).hint(hint)
    })
}

/// The configuration after the person was asked about the folder's own, where there is one to ask.
pub(crate) fn trusted(common: &Common, screen: Screen) -> Result<Config, CommandError> {
    let mut around = surroundings::of_configuration(common)?;
    let config = outrigger_host::config::load(&around);
    let Some(project) = config
        .project
        .as_ref()
        .filter(|project| project.needs_trust())
    else {
        return Ok(config);
    };
    if !screen.can_ask() {
        screen.say(format_args!(
            "{} this folder is not trusted, so what its files bring is not used: {}",
            screen.talk(Label::Warn, "note:"),
            trust::names(project)
        ));
        screen.say(format_args!(
            "{} `outrigger trust` shows it and asks; `--trust-project` trusts it for one run",
            screen.talk(Label::Good, "hint:")
        ));
        return Ok(config);
    }
    // What was asked about is what is trusted, also when the file has changed meanwhile.
    around.trust = match trust::ask(project, screen) {
        Said::No => return Ok(config),
        Said::ThisRun => Trust::Content(project.digest.clone()),
        Said::Always => {
            TrustStore::of(common)?.trust(project)?;
            Trust::Content(project.digest.clone())
        }
    };
    Ok(outrigger_host::config::load(&around))
}

/// The same for a run in a mode that the command line may choose.
pub(crate) fn configuration_in(
    mode: Option<RunMode>,
    common: &Common,
    screen: Screen,
) -> Result<Config, CommandError> {
    let mut config = configuration(common, screen)?;
    if let Some(mode) = mode {
        config.policy.choose_mode(mode.into())?;
    }
    Ok(config)
}

/// The configuration for the calls of a principal of the gateway. Nobody is asked about anything;
/// what may be more open than `mode`, where that is given, is not.
pub(crate) fn configuration_of(
    principal: &str,
    mode: Option<RunMode>,
    common: &Common,
) -> Result<Config, CommandError> {
    let mut around = surroundings::of_configuration(common)?;
    around.principal = Some(principal.to_owned());
    let config = outrigger_host::config::load(&around);
    if let Some(problem) = config.fatal().next() {
        let error = format!("the configuration cannot be used: {problem}");
        return Err(CommandError::usage(error));
    }
    let mut config = narrowed(config.for_principal(principal)?, common)?;
    if let Some(name) = config.profile_of(principal).map(ToOwned::to_owned) {
        let narrow = config.with_profile(&name);
        config = narrow.map_err(|unknown| CommandError::usage(unknown.to_string()))?;
    }
    if let Some(mode) = mode.map(outrigger_host::config::Mode::from)
        && (mode > config.policy.mode.value || !config.has_mode(principal))
    {
        config.policy.choose_mode(mode)?;
    }
    Ok(config)
}

/// Keeps one configured server, built-in or not; the others are not started.
pub(crate) fn only(config: &mut Config, name: &str) -> Result<(), CommandError> {
    let mut known: BTreeSet<String> = config.servers.keys().map(ToString::to_string).collect();
    known.extend(config.builtin_servers().into_iter().map(ToOwned::to_owned));
    if let Some(entry) = config
        .servers
        .values()
        .find(|entry| entry.name.as_str() == name)
        && matches!(entry.state, EntryState::Disabled)
    {
        let error = format!("the server `{name}` is switched off at {}", entry.origin);
        return Err(CommandError::usage(error));
    }
    if let Some(profile) = config.hiding_server(name).filter(|_| !known.contains(name)) {
        let error = format!(
            "the profile `{}` at {} does not name a server `{name}`",
            profile.name, profile.origin
        );
        return Err(CommandError::usage(error));
    }
    if config.keep_only(name) {
        Ok(())
    } else {
        Err(no_such_server(name, &known))
    }
}

fn no_such_server(name: &str, known: &BTreeSet<String>) -> CommandError {
    let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    let error = CommandError::usage(format!("there is no server `{name}`"));
    error.hint(format!("configured are {}", names.join(", ")))
}

/// The configuration with its references followed. A server that lacks a secret is set aside; a hook
/// that lacks one ends the command, since it may have been there to say no.
pub(crate) async fn with_secrets(
    config: &Config,
    recorded: bool,
    common: &Common,
    screen: Screen,
) -> Result<Config, CommandError> {
    let mut config = config.clone();
    if !recorded {
        // Hooks are for calls.
        config.hooks.clear();
    }
    let known = config.problems.len();
    config.hide(models::keys());
    config.hide(telemetry::secrets());
    let resolver: Arc<dyn Resolver> = match &common.playback {
        Some(playback) => playback.clone(),
        None => Arc::new(secrets::Secrets::new(supervisor())),
    };
    let warnings = config.resolve(&*resolver).await;
    traces::hide(&config.secrets());
    for problem in warnings {
        screen.say(visible::lines(problem.render().trim_end()));
    }
    let broken = config.problems.get(known..).unwrap_or_default();
    for problem in broken {
        screen.insist(visible::lines(problem.render().trim_end()));
    }
    if broken.is_empty() {
        return Ok(config);
    }
    let error = CommandError::usage("a hook lacks a secret, and may be there to say no");
    Err(error.hint("`outrigger secrets list` tries each reference"))
}

//! From `--model`, configuration and surroundings to a model that answers.

pub(crate) mod embedding;
#[cfg(feature = "local")]
pub(crate) mod local;

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_agent::provider::{
    self, Available, Choice, ChoiceError, ConfiguredProvider, ProviderKind, Secret, known_providers,
};
use outrigger_host::config::{Config, ConfigProblem, ProviderSettings, ProviderState};
use outrigger_model::Model;

use crate::cli::Common;
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::{surroundings, traces};

/// The model of a run: the chosen one, recorded where that is wanted, or that of a recording.
pub(crate) async fn of_run(
    common: &Common,
    requested: Option<&str>,
    config: &mut Config,
    threads: Option<usize>,
    screen: Screen,
) -> Result<Arc<dyn Model>, CommandError> {
    if let Some(playback) = &common.playback {
        let none = || CommandError::usage("the recording has no model");
        return playback.model().ok_or_else(none);
    }
    let model = choose(requested, config, threads, screen).await?;
    Ok(match &common.recorder {
        Some(recorder) => recorder.model(model),
        None => model,
    })
}

/// Chooses and sets up the model, once the references of its provider (or of all, where none is
/// named) are followed. `threads` is for a local one.
async fn choose(
    requested: Option<&str>,
    config: &mut Config,
    threads: Option<usize>,
    screen: Screen,
) -> Result<Arc<dyn Model>, CommandError> {
    let default = config.model.default.clone();
    let configured = default.as_ref().map(|setting| setting.value.as_str());
    let wanted = requested.or(configured).unwrap_or_default();
    let named = wanted.split(':').next().filter(|name| !name.is_empty());
    let resolver = crate::secrets::Secrets::new(crate::session::supervisor());
    config.resolve_providers(named, &resolver).await;
    traces::hide(&[config.secrets(), keys()].concat());
    let providers = providers(config, wanted)?;
    let available = Available {
        variable: &surroundings::set,
        providers: &providers,
        local: cfg!(feature = "local"),
    };
    let choice = provider::choose(requested, configured, &available).await;
    match choice.map_err(|error| unavailable(&error))? {
        Choice::Provider(spec) => {
            let id = spec.id.clone();
            tracing::debug!(model = id, "chosen");
            provider::build(*spec).map_err(|error| CommandError::usage(error.to_string()))
        }
        Choice::Local(name) => local_model(name.as_deref(), threads, screen).await,
    }
}

#[cfg(feature = "local")]
async fn local_model(
    name: Option<&str>,
    threads: Option<usize>,
    screen: Screen,
) -> Result<Arc<dyn Model>, CommandError> {
    local::load(name, threads, screen).await
}

#[cfg(not(feature = "local"))]
async fn local_model(
    _: Option<&str>,
    _: Option<usize>,
    _: Screen,
) -> Result<Arc<dyn Model>, CommandError> {
    let error = CommandError::new(Exit::Unavailable, "this build has no local model");
    std::future::ready(Err(error.hint("build it with `--features local`"))).await
}

fn unavailable(error: &ChoiceError) -> CommandError {
    let exit = match error {
        ChoiceError::UnknownProvider { .. }
        | ChoiceError::NoModelNamed { .. }
        | ChoiceError::BadUrl { .. } => Exit::Usage,
        ChoiceError::NoKey { .. }
        | ChoiceError::NoServer { .. }
        | ChoiceError::NothingInstalled { .. }
        | ChoiceError::Nothing { .. } => Exit::Unavailable,
    };
    CommandError::new(exit, error.to_string()).hints(error.hints())
}

/// The configured providers; one that is set aside matters only when it is the one that is wanted.
fn providers(
    config: &Config,
    wanted: &str,
) -> Result<BTreeMap<String, ConfiguredProvider>, CommandError> {
    let wanted = wanted.split(':').next().unwrap_or_default();
    let mut providers = BTreeMap::new();
    for (name, entry) in &config.model.providers {
        let read = match &entry.state {
            ProviderState::Broken(problems) => Err(set_aside(name, problems)),
            // Another one is wanted, and nobody fetched this one's secrets.
            ProviderState::Ready(settings) if settings.is_incomplete() => continue,
            ProviderState::Ready(settings) => configured(name, settings),
        };
        match read {
            Ok(provider) => drop(providers.insert(name.clone(), provider)),
            Err(error) if name == wanted => return Err(error),
            Err(error) => tracing::debug!(provider = name, %error, "set aside"),
        }
    }
    Ok(providers)
}

fn set_aside(name: &str, problems: &[ConfigProblem]) -> CommandError {
    let told: Vec<_> = problems
        .iter()
        .map(|problem| problem.message.clone())
        .collect();
    let hints = problems.iter().flat_map(|problem| problem.hints.clone());
    CommandError::usage(format!(
        "the model provider `{name}` cannot be used: {}",
        told.join("; ")
    ))
    .hints(hints)
}

fn configured(name: &str, settings: &ProviderSettings) -> Result<ConfiguredProvider, CommandError> {
    let known = known_providers()
        .iter()
        .find(|provider| provider.name == name);
    let kind = match &settings.kind {
        Some(kind) => {
            ProviderKind::from_name(&kind.value).ok_or_else(|| unknown_kind(name, &kind.value))?
        }
        None => known.map_or(ProviderKind::OpenAiChat, |provider| provider.kind),
    };
    let url = settings.base_url.as_ref().map(|url| url.value.clone());
    let elsewhere = || {
        surroundings::set(known?.base_url_variable)?
            .trim()
            .parse()
            .ok()
    };
    let url = url
        .or_else(elsewhere)
        .or_else(|| known.and_then(|provider| provider.base_url.parse().ok()))
        .ok_or_else(|| {
            CommandError::usage(format!("the model provider `{name}` has no `base_url`")).hint(
                format!("[model.providers.{name}] base_url = \"http://127.0.0.1:8000/v1\""),
            )
        })?;
    let mut provider = ConfiguredProvider::new(kind, url);
    let own = settings
        .key
        .as_ref()
        .map(|key| Secret::new(&key.value, format!("`key` at {}", key.origin)));
    provider.key = own.or_else(|| {
        key(
            settings,
            known.map_or(&[], |provider| provider.key_variables),
        )
    });
    let origin = format!("a header of the model provider `{name}`");
    provider.headers = settings
        .headers
        .iter()
        .map(|(header, value)| (header.clone(), Secret::new(value, &origin)))
        .collect();
    provider.model = known
        .and_then(|provider| provider.default_model)
        .map(ToOwned::to_owned);
    provider.context_tokens = settings
        .context_tokens
        .as_ref()
        .map(|setting| setting.value);
    provider.strict = settings.strict.as_ref().is_some_and(|strict| strict.value);
    provider.tool_search = settings.tool_search.as_ref().map(|setting| setting.value);
    Ok(provider)
}

fn key(settings: &ProviderSettings, usual: &[&str]) -> Option<Secret> {
    let named = settings
        .key_env
        .as_ref()
        .map(|setting| setting.value.as_str());
    let mut variables = named.into_iter().chain(usual.iter().copied());
    variables.find_map(|variable| {
        Some(Secret::new(
            surroundings::set(variable)?,
            format!("`{variable}` in the environment"),
        ))
    })
}

fn unknown_kind(name: &str, kind: &str) -> CommandError {
    let kinds: Vec<_> = ProviderKind::ALL
        .iter()
        .map(|kind| format!("`{}`", kind.name()))
        .collect();
    CommandError::usage(format!(
        "the model provider `{name}` has the unknown kind `{kind}`"
    ))
    .hint(format!("it is one of {}", kinds.join(", ")))
}

/// API keys that a provider might read, as values for the redactor.
pub(crate) fn keys() -> Vec<String> {
    let variables = known_providers()
        .iter()
        .flat_map(|provider| provider.key_variables);
    variables
        .filter_map(|variable| surroundings::set(variable))
        .collect()
}

//! Which model answers: what was asked for, else what is configured, else what is there.
//!
//! Reads no environment itself: variables come through a closure, so that only the command line
//! knows where they are from. The local model is recognised here and built elsewhere.

use std::collections::BTreeMap;
use std::fmt;

use reqwest::Url;

use super::known::{KnownProvider, known, known_providers, provider_of_model};
use super::probe::{listed_models, ollama_models, ollama_url};
use super::{DEFAULT_RETRIES, ProviderKind, ProviderSpec, Secret, Timeouts};

/// What a person wrote after `--model`: `provider:name`, `provider`, or `local[:NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// The embedded model, by name or the default one.
    Local(Option<String>),
    /// A provider, and a model of it or its default.
    Provider {
        /// What stands before the first colon.
        provider: String,
        /// What stands behind it; may hold more colons.
        model: Option<String>,
    },
}

impl ModelChoice {
    /// Splits at the first colon. Whether the provider exists is not checked here.
    pub fn parse(text: &str) -> Self {
        let (provider, model) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let model = Some(model.trim())
            .filter(|model| !model.is_empty())
            .map(str::to_owned);
        if provider == "local" {
            Self::Local(model)
        } else {
            Self::Provider {
                provider: provider.to_owned(),
                model,
            }
        }
    }
}

/// A provider from the configuration, already lowered: variables expanded, URL parsed.
#[derive(Clone)]
pub struct ConfiguredProvider {
    /// Its wire format.
    pub kind: ProviderKind,
    /// Where its API is.
    pub base_url: Url,
    /// Its key, if it needs one.
    pub key: Option<Secret>,
    /// Further headers.
    pub headers: Vec<(String, Secret)>,
    /// The model when only the provider is named.
    pub model: Option<String>,
    /// See [`ProviderSpec::context_tokens`].
    pub context_tokens: Option<u64>,
    /// See [`ProviderSpec::sees_images`].
    pub sees_images: Option<bool>,
    /// See [`ProviderSpec::timeouts`].
    pub timeouts: Timeouts,
    /// See [`ProviderSpec::max_retries`].
    pub max_retries: u32,
    /// See [`ProviderSpec::strict`].
    pub strict: bool,
    /// See [`ProviderSpec::tool_search`].
    pub tool_search: Option<bool>,
}

impl fmt::Debug for ConfiguredProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredProvider")
            .field("kind", &self.kind)
            .field("base_url", &super::shown(&self.base_url))
            .field("key", &self.key)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl ConfiguredProvider {
    /// A provider with defaults for everything that can have one.
    pub fn new(kind: ProviderKind, base_url: Url) -> Self {
        Self {
            kind,
            base_url,
            key: None,
            headers: Vec::new(),
            model: None,
            context_tokens: None,
            sees_images: None,
            timeouts: Timeouts::default(),
            max_retries: DEFAULT_RETRIES,
            strict: false,
            tool_search: None,
        }
    }
}

/// What there is to choose from.
pub struct Available<'a> {
    /// Looks an environment variable up. An empty value counts as not set.
    pub variable: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// Providers from the configuration. They win over known ones of the same name.
    pub providers: &'a BTreeMap<String, ConfiguredProvider>,
    /// Whether this build has the local model.
    pub local: bool,
}

/// What was chosen.
#[derive(Debug, Clone)]
pub enum Choice {
    /// A model behind HTTP; give it to [`super::build`].
    Provider(Box<ProviderSpec>),
    /// The embedded model, by name or the default one.
    Local(Option<String>),
}

/// Why no model could be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// Nobody knows this provider.
    #[error("unknown model provider `{name}`")]
    UnknownProvider {
        /// What was written.
        name: String,
        /// What may have been meant, most likely first.
        nearest: Vec<String>,
        /// All that there are.
        all: Vec<String>,
    },
    /// The provider needs a key, and none is set.
    #[error("`{provider}` needs an API key, and {}", unset(variables))]
    NoKey {
        /// The provider.
        provider: String,
        /// Variables that were looked at.
        variables: Vec<String>,
    },
    /// Only the provider was named, and it has no default model.
    #[error("`{provider}` was named without a model")]
    NoModelNamed {
        /// The provider.
        provider: String,
    },
    /// A server on this machine was named without a model, and does not say which it has.
    #[error("`{provider}` was named without a model, and nothing answers at {url}")]
    NoServer {
        /// The provider.
        provider: String,
        /// Where it was looked for.
        url: String,
    },
    /// The server runs but has no model to talk to.
    #[error("the server of `{provider}` at {url} has no model installed")]
    NothingInstalled {
        /// The provider.
        provider: String,
        /// Where it is.
        url: String,
    },
    /// A variable holds something that is not a URL.
    #[error("`{variable}` does not hold a URL: {reason}")]
    BadUrl {
        /// The variable.
        variable: String,
        /// What is wrong.
        reason: String,
    },
    /// Nothing was asked for, nothing is configured, nothing is there.
    #[error("no model is available")]
    Nothing {
        /// Variables of which any would do.
        variables: Vec<String>,
    },
}

fn list(words: &[String], last: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((end, before)) if !before.is_empty() => format!("{} {last} {end}", before.join(", ")),
        _ => quoted.concat(),
    }
}

fn unset(variables: &[String]) -> String {
    match variables {
        [only] => format!("`{only}` is not set"),
        several => format!("neither {} is set", list(several, "nor")),
    }
}

impl ChoiceError {
    /// What a person could do about it, most useful first.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::UnknownProvider { nearest, all, .. } => {
                let meant =
                    (!nearest.is_empty()).then(|| format!("did you mean {}?", list(nearest, "or")));
                let known = format!("known providers: {}, and `local`", all.join(", "));
                meant.into_iter().chain([known]).collect()
            }
            Self::NoKey { variables, .. } => vec![format!("set {}", list(variables, "or"))],
            Self::NoServer { provider, .. } if provider == "ollama" => {
                vec!["`ollama serve` starts the server; `OLLAMA_HOST` says where it is".to_owned()]
            }
            Self::NoServer { provider, .. } => vec![format!(
                "start the server, or name a model: `--model {provider}:NAME`"
            )],
            Self::NothingInstalled { provider, .. } if provider == "ollama" => {
                vec!["`ollama pull qwen3` installs one".to_owned()]
            }
            Self::NoModelNamed { provider } | Self::NothingInstalled { provider, .. } => {
                vec![format!("`--model {provider}:NAME`")]
            }
            Self::BadUrl { .. } => vec!["it should look like `https://host/v1`".to_owned()],
            Self::Nothing { variables } => vec![
                format!("set {}", list(variables, "or")),
                "or start Ollama with a model installed".to_owned(),
                "or build with `--features local` for a model that needs no key".to_owned(),
            ],
        }
    }
}

/// Chooses the model: `requested` (from `--model`), else `configured` (from a file), else the first
/// provider with a key in the environment, else a running Ollama, else the local one.
///
/// May ask a server on this machine what it has, for at most 300 ms; sends nothing elsewhere.
pub async fn choose(
    requested: Option<&str>,
    configured: Option<&str>,
    available: &Available<'_>,
) -> Result<Choice, ChoiceError> {
    if let Some(text) = requested.or(configured) {
        return match ModelChoice::parse(text) {
            ModelChoice::Local(name) => Ok(Choice::Local(name)),
            ModelChoice::Provider { provider, model } => available.named(&provider, model).await,
        };
    }
    for provider in known_providers() {
        if available.key(provider).is_some() {
            return available.named(provider.name, None).await;
        }
    }
    if let Ok(choice) = available.named("ollama", None).await {
        return Ok(choice);
    }
    if available.local {
        return Ok(Choice::Local(None));
    }
    let variables = known_providers()
        .iter()
        .flat_map(|provider| provider.key_variables);
    let mut variables: Vec<String> = variables.map(|&variable| variable.to_owned()).collect();
    variables.dedup();
    Err(ChoiceError::Nothing { variables })
}

impl Available<'_> {
    fn set(&self, variable: &str) -> Option<String> {
        (self.variable)(variable).filter(|value| !value.trim().is_empty())
    }

    fn key(&self, provider: &KnownProvider) -> Option<Secret> {
        provider.key_variables.iter().find_map(|variable| {
            Some(Secret::new(
                self.set(variable)?,
                format!("`{variable}` in the environment"),
            ))
        })
    }

    async fn named(&self, name: &str, model: Option<String>) -> Result<Choice, ChoiceError> {
        if let Some(provider) = self.providers.get(name) {
            return configured_provider(name, provider, model).await;
        }
        match known(name) {
            Some(provider) => self.known(provider, model).await,
            None => Err(self.unknown(name, model)),
        }
    }

    async fn known(
        &self,
        provider: &KnownProvider,
        model: Option<String>,
    ) -> Result<Choice, ChoiceError> {
        let base_url = self.base_url(provider)?;
        let key = self.key(provider);
        // Another base URL is often a server of one's own, which may need no key.
        if key.is_none()
            && !provider.is_local_server()
            && self.set(provider.base_url_variable).is_none()
        {
            let variables = provider
                .key_variables
                .iter()
                .map(|&variable| variable.to_owned())
                .collect();
            return Err(ChoiceError::NoKey {
                provider: provider.name.to_owned(),
                variables,
            });
        }
        let model = match model.or_else(|| provider.default_model.map(str::to_owned)) {
            Some(model) => model,
            None => first_model(provider.name, &base_url).await?,
        };
        let id = format!("{}:{model}", provider.name);
        let mut spec = ProviderSpec::new(id, provider.kind, base_url, model);
        spec.key = key;
        if provider.name == "ollama" {
            spec.context_tokens = self
                .set("OLLAMA_CONTEXT_LENGTH")
                .and_then(|value| value.trim().parse().ok());
        }
        Ok(Choice::Provider(Box::new(spec)))
    }

    fn base_url(&self, provider: &KnownProvider) -> Result<Url, ChoiceError> {
        let bad = |variable: &str, reason: String| ChoiceError::BadUrl {
            variable: variable.to_owned(),
            reason,
        };
        if let Some(url) = self.set(provider.base_url_variable) {
            return url.trim().parse().map_err(|error: url::ParseError| {
                bad(provider.base_url_variable, error.to_string())
            });
        }
        if provider.name == "ollama" {
            let host = self.set("OLLAMA_HOST");
            return ollama_url(host.as_deref())
                .ok_or_else(|| bad("OLLAMA_HOST", "not a host or URL".to_owned()));
        }
        provider
            .base_url
            .parse()
            .map_err(|error: url::ParseError| bad(provider.base_url_variable, error.to_string()))
    }

    fn unknown(&self, name: &str, model: Option<String>) -> ChoiceError {
        let known = known_providers()
            .iter()
            .map(|provider| provider.name.to_owned());
        let all: Vec<String> = self.providers.keys().cloned().chain(known).collect();
        let mut scored: Vec<(f64, &String)> = all
            .iter()
            .map(|known| (strsim::jaro_winkler(known, name), known))
            .filter(|(score, _)| *score > 0.8)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        // A model's name without its provider is the most common slip.
        let whole = model.map_or_else(|| name.to_owned(), |model| format!("{name}:{model}"));
        let bare = provider_of_model(name).map(|provider| format!("{provider}:{whole}"));
        let close = scored.into_iter().map(|(_, known)| known.clone()).take(3);
        let nearest = bare.into_iter().chain(close).collect();
        ChoiceError::UnknownProvider {
            name: name.to_owned(),
            nearest,
            all,
        }
    }
}

async fn configured_provider(
    name: &str,
    provider: &ConfiguredProvider,
    model: Option<String>,
) -> Result<Choice, ChoiceError> {
    let model = match model.or_else(|| provider.model.clone()) {
        Some(model) => model,
        None if super::is_loopback(&provider.base_url) => {
            first_model(name, &provider.base_url).await?
        }
        None => {
            return Err(ChoiceError::NoModelNamed {
                provider: name.to_owned(),
            });
        }
    };
    Ok(Choice::Provider(Box::new(ProviderSpec {
        id: format!("{name}:{model}"),
        kind: provider.kind,
        base_url: provider.base_url.clone(),
        model,
        key: provider.key.clone(),
        headers: provider.headers.clone(),
        context_tokens: provider.context_tokens,
        sees_images: provider.sees_images,
        timeouts: provider.timeouts,
        max_retries: provider.max_retries,
        strict: provider.strict,
        tool_search: provider.tool_search,
    })))
}

/// The first model that a server of one's own has.
async fn first_model(provider: &str, base: &Url) -> Result<String, ChoiceError> {
    let models = if provider == "ollama" {
        ollama_models(base).await
    } else {
        listed_models(base).await
    };
    let url = super::shown(base);
    match models {
        None => Err(ChoiceError::NoServer {
            provider: provider.to_owned(),
            url,
        }),
        Some(models) => models
            .into_iter()
            .next()
            .ok_or_else(|| ChoiceError::NothingInstalled {
                provider: provider.to_owned(),
                url,
            }),
    }
}

//! Language models of other people, over four wire formats.
//!
//! [`choose`] turns what a person asked for (or nothing) into a [`ProviderSpec`]; [`build`] turns the
//! spec into a [`Model`]. One file per format; transport, retries and the reading of errors are
//! shared. Prices, model lists and the writing of keys are left to others.

mod anthropic;
mod choice;
mod declared;
mod failure;
mod fragments;
mod gemini;
mod history;
mod known;
mod limits;
mod openai_chat;
mod openai_responses;
mod probe;
mod reading;
mod retry;
mod search;
mod secret;
mod sse;
mod transport;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use outrigger_model::{DeclaredTool, Model, ModelLimits, ToolDeclaration};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};
use serde::{Deserialize, Serialize};

pub use choice::{Available, Choice, ChoiceError, ConfiguredProvider, ModelChoice, choose};
pub use outrigger_schemas::Family;

pub use known::{KnownProvider, known_providers};
pub use secret::Secret;

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// OpenAI's Chat Completions and everything that imitates it.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's `streamGenerateContent`.
    Gemini,
}

impl ProviderKind {
    /// All kinds, in the order in which they are listed to people.
    pub const ALL: [Self; 4] = [
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Gemini,
    ];

    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection stands.
    pub connect: Duration,
    /// Between two pieces of an answer, and until the first one.
    pub idle: Duration,
    /// The longest `retry-after` that is waited for. Above it the turn ends at once and says so.
    pub longest_wait: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            longest_wait: Duration::from_secs(60),
        }
    }
}

/// How often a request is sent again when nothing else is configured.
pub const DEFAULT_RETRIES: u32 = 3;

/// Everything that is needed to reach one model. `Debug` shows no secret.
#[derive(Clone)]
pub struct ProviderSpec {
    /// `provider:name`, for messages and as the model's identity.
    pub id: String,
    /// The wire format.
    pub kind: ProviderKind,
    /// Where the API is, for example `https://api.openai.com/v1`.
    pub base_url: Url,
    /// The model's name as the provider knows it.
    pub model: String,
    /// The API key, where one is needed.
    pub key: Option<Secret>,
    /// Further headers; their values count as secrets.
    pub headers: Vec<(String, Secret)>,
    /// Tokens of prompt and answer together, where the person knows better than our table.
    pub context_tokens: Option<u64>,
    /// Whether the model sees images, where the person knows better than our table.
    pub sees_images: Option<bool>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// How often a request is sent again after a failure that is safe to repeat.
    pub max_retries: u32,
    /// Whether OpenAI is asked to hold its models to the schemas of tools (`strict`).
    pub strict: bool,
    /// Whether the model has its provider's search of tools, where the person knows better than our
    /// table.
    pub tool_search: Option<bool>,
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSpec")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("base_url", &shown(&self.base_url))
            .field("key", &self.key)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl ProviderSpec {
    /// A spec with defaults for everything that can have one.
    pub fn new(
        id: impl Into<String>,
        kind: ProviderKind,
        base_url: Url,
        model: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            kind,
            base_url,
            model: model.into(),
            key: None,
            headers: Vec::new(),
            context_tokens: None,
            sees_images: None,
            timeouts: Timeouts::default(),
            max_retries: DEFAULT_RETRIES,
            strict: false,
            tool_search: None,
        }
    }

    /// Whose schemas of tools the provider takes. Not everything that speaks OpenAI's format is as
    /// patient as OpenAI.
    pub fn family(&self) -> Family {
        let host = self.base_url.host_str().unwrap_or_default();
        let is_openai = ["openai.com", "openai.azure.com"]
            .iter()
            .any(|domain| host == *domain || host.ends_with(&format!(".{domain}")));
        match self.kind {
            ProviderKind::Anthropic => Family::Anthropic,
            ProviderKind::Gemini => Family::Gemini,
            ProviderKind::OpenAiChat | ProviderKind::OpenAiResponses if self.strict => {
                Family::OpenAiStrict
            }
            ProviderKind::OpenAiChat if !is_openai => Family::Generic,
            ProviderKind::OpenAiChat | ProviderKind::OpenAiResponses => Family::OpenAi,
        }
    }
}

/// Why a model could not be set up. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Only `http` and `https` reach a model.
    #[error("{id}: the base URL must begin with `http://` or `https://`, not `{scheme}:`")]
    Scheme {
        /// `provider:name`.
        id: String,
        /// What it begins with.
        scheme: String,
    },
    /// A URL is shown in messages, so it cannot hold a password.
    #[error(
        "{id}: the base URL carries a user name or password; configure the key or a header instead"
    )]
    CredentialsInUrl {
        /// `provider:name`.
        id: String,
    },
    /// A header that HTTP cannot carry. The value is not shown.
    #[error("{id}: header `{header}` (from {origin}) cannot be sent: {reason}")]
    Header {
        /// `provider:name`.
        id: String,
        /// Its name.
        header: String,
        /// Where it was configured.
        origin: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The HTTP client could not be set up, usually because no certificates were found.
    #[error("{id}: the HTTP client could not be set up: {reason}")]
    Client {
        /// `provider:name`.
        id: String,
        /// What the client says.
        reason: String,
    },
}

/// Builds the model that `spec` describes. Nothing is sent before the first turn.
pub fn build(spec: ProviderSpec) -> Result<Arc<dyn Model>, ProviderError> {
    let id = spec.id.clone();
    if !matches!(spec.base_url.scheme(), "http" | "https") {
        return Err(ProviderError::Scheme {
            id,
            scheme: spec.base_url.scheme().to_owned(),
        });
    }
    if !spec.base_url.username().is_empty() || spec.base_url.password().is_some() {
        return Err(ProviderError::CredentialsInUrl { id });
    }
    let limits = ModelLimits {
        context_tokens: spec
            .context_tokens
            .unwrap_or_else(|| limits::context_tokens(&spec)),
        sees_images: spec
            .sees_images
            .unwrap_or_else(|| limits::sees_images(&spec)),
    };
    let headers = headers(&spec)?;
    let client = client(&spec.base_url, spec.timeouts).map_err(|error| ProviderError::Client {
        id,
        reason: transport::root_cause(&error),
    })?;
    Ok(Arc::new(transport::HttpModel::new(transport::Inner {
        client,
        url: url(&spec),
        headers,
        wire: wire(&spec, limits.sees_images),
        tool_search: search::tool_search(&spec),
        declarer: declared::Declarer::default(),
        limits,
        max_retries: spec.max_retries,
        longest_wait: spec.timeouts.longest_wait,
        idle: spec.timeouts.idle,
        subject: failure::Subject {
            base_url: shown(&spec.base_url),
            loopback: is_loopback(&spec.base_url),
            secrets: secrets(&spec),
            key: spec.key,
            id: spec.id,
        },
    })))
}

/// Everything that no message may show: the key, the headers, and what a base URL has in its query.
fn secrets(spec: &ProviderSpec) -> Vec<Secret> {
    let query = spec
        .base_url
        .query_pairs()
        .map(|(_, value)| Secret::new(value, "the base URL"));
    spec.key
        .iter()
        .chain(spec.headers.iter().map(|(_, value)| value))
        .cloned()
        .chain(query)
        .collect()
}

/// What requests to this provider say of tools, without a model being set up.
pub fn declared(spec: &ProviderSpec, tools: &Arc<[ToolDeclaration]>) -> Vec<DeclaredTool> {
    let wire = wire(spec, false);
    let declared = declared::Declarer::default().declared(&*wire, tools);
    declared.map_or_else(|_| Vec::new(), |declared| declared.told())
}

fn wire(spec: &ProviderSpec, sees_images: bool) -> Box<dyn wire::Wire> {
    match spec.kind {
        ProviderKind::OpenAiChat => Box::new(openai_chat::OpenAiChat::new(spec, sees_images)),
        ProviderKind::OpenAiResponses => {
            Box::new(openai_responses::OpenAiResponses::new(spec, sees_images))
        }
        ProviderKind::Anthropic => Box::new(anthropic::Anthropic::new(spec, sees_images)),
        ProviderKind::Gemini => Box::new(gemini::Gemini::new(spec, sees_images)),
    }
}

fn url(spec: &ProviderSpec) -> Url {
    let base = &spec.base_url;
    match spec.kind {
        ProviderKind::OpenAiChat => wire::endpoint(base, "chat/completions"),
        ProviderKind::OpenAiResponses => wire::endpoint(base, "responses"),
        ProviderKind::Anthropic => wire::versioned_endpoint(base, "v1", "messages"),
        ProviderKind::Gemini => {
            let mut url =
                wire::versioned_endpoint(base, "v1beta", &gemini::Gemini::path(&spec.model));
            url.query_pairs_mut().append_pair("alt", "sse");
            url
        }
    }
}

fn headers(spec: &ProviderSpec) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    if spec.kind == ProviderKind::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    let key = spec.key.as_ref().map(|key| match spec.kind {
        ProviderKind::OpenAiChat | ProviderKind::OpenAiResponses => (
            "authorization".to_owned(),
            Secret::new(format!("Bearer {}", key.expose()), key.origin()),
        ),
        ProviderKind::Anthropic => ("x-api-key".to_owned(), key.clone()),
        ProviderKind::Gemini => ("x-goog-api-key".to_owned(), key.clone()),
    });
    for (header, secret) in key.iter().chain(&spec.headers) {
        let refuse = |reason| ProviderError::Header {
            id: spec.id.clone(),
            header: header.clone(),
            origin: secret.origin().to_owned(),
            reason,
        };
        let name: HeaderName = header
            .parse()
            .map_err(|_| refuse("this is not a header name"))?;
        let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| {
            refuse("its value holds characters that a header cannot, perhaps a line break")
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A client for one base URL.
fn client(base: &Url, timeouts: Timeouts) -> reqwest::Result<Client> {
    // Fails when a provider is installed already, which is as good.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let mut builder = Client::builder()
        .connect_timeout(timeouts.connect)
        .read_timeout(timeouts.idle)
        // A key that was meant for one host must not follow a redirect to another.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("outrigger/", env!("CARGO_PKG_VERSION")));
    if base.scheme() == "http" {
        // Certificates are not needed, and loading them takes time or fails on a bare machine.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The URL as messages show it: without a query, which may hold a key.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string().trim_end_matches('/').to_owned()
}

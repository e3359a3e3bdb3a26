//! The providers that have a name of their own, as data.
//!
//! Default models are what the provider recommends for general work at the time of writing, by an
//! alias that the provider keeps current where there is one. To be checked before each release.

use super::ProviderKind;

/// One known provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    /// What stands before the colon in `--model`.
    pub name: &'static str,
    /// Its wire format.
    pub kind: ProviderKind,
    /// Where its API is.
    pub base_url: &'static str,
    /// The environment variable that moves it elsewhere.
    pub base_url_variable: &'static str,
    /// Environment variables that hold its key, the first one that is set counts. Empty for
    /// servers that need none.
    pub key_variables: &'static [&'static str],
    /// The model when only the provider is named. `None`: ask the server what it has.
    pub default_model: Option<&'static str>,
}

impl KnownProvider {
    /// Whether it runs on the person's own machine, so that no key is needed.
    pub fn is_local_server(&self) -> bool {
        self.key_variables.is_empty()
    }
}

const OPENAI: KnownProvider = KnownProvider {
    name: "openai",
    kind: ProviderKind::OpenAiResponses,
    base_url: "https://api.openai.com/v1",
    base_url_variable: "OPENAI_BASE_URL",
    key_variables: &["OPENAI_API_KEY"],
    default_model: Some("gpt-5.6-sol"),
};

/// In the order in which they are tried when nobody said which one.
const KNOWN: [KnownProvider; 9] = [
    KnownProvider {
        name: "anthropic",
        kind: ProviderKind::Anthropic,
        base_url: "https://api.anthropic.com",
        base_url_variable: "ANTHROPIC_BASE_URL",
        key_variables: &["ANTHROPIC_API_KEY"],
        default_model: Some("claude-sonnet-5-5"),
    },
    OPENAI,
    KnownProvider {
        name: "openai-chat",
        kind: ProviderKind::OpenAiChat,
        ..OPENAI
    },
    KnownProvider {
        name: "gemini",
        kind: ProviderKind::Gemini,
        base_url: "https://generativelanguage.googleapis.com",
        base_url_variable: "GEMINI_BASE_URL",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        default_model: Some("gemini-flash-latest"),
    },
    KnownProvider {
        name: "deepseek",
        kind: ProviderKind::OpenAiChat,
        base_url: "https://api.deepseek.com",
        base_url_variable: "DEEPSEEK_BASE_URL",
        key_variables: &["DEEPSEEK_API_KEY"],
        default_model: Some("deepseek-flash"),
    },
    KnownProvider {
        name: "openrouter",
        kind: ProviderKind::OpenAiChat,
        base_url: "https://openrouter.ai/api/v1",
        base_url_variable: "OPENROUTER_BASE_URL",
        key_variables: &["OPENROUTER_API_KEY"],
        default_model: Some("openrouter/auto"),
    },
    KnownProvider {
        name: "ollama",
        kind: ProviderKind::OpenAiChat,
        base_url: "http://127.0.0.1:11434/v1",
        base_url_variable: "OLLAMA_BASE_URL",
        key_variables: &[],
        default_model: None,
    },
    KnownProvider {
        name: "vllm",
        kind: ProviderKind::OpenAiChat,
        base_url: "http://127.0.0.1:8000/v1",
        base_url_variable: "VLLM_BASE_URL",
        key_variables: &[],
        default_model: None,
    },
    KnownProvider {
        name: "llamacpp",
        kind: ProviderKind::OpenAiChat,
        base_url: "http://127.0.0.1:8080/v1",
        base_url_variable: "LLAMACPP_BASE_URL",
        key_variables: &[],
        default_model: None,
    },
];

/// All known providers, in the order in which they are tried when nobody said which one.
pub fn known_providers() -> &'static [KnownProvider] {
    &KNOWN
}

pub(super) fn known(name: &str) -> Option<&'static KnownProvider> {
    KNOWN.iter().find(|provider| provider.name == name)
}

/// Beginnings of model names that give their provider away, for suggestions.
const FAMILIES: [(&str, &str); 8] = [
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("chatgpt", "openai"),
    ("gemini", "gemini"),
    ("deepseek", "deepseek"),
];

/// The provider that a bare model name most likely means.
pub(super) fn provider_of_model(model: &str) -> Option<&'static str> {
    let model = model.to_ascii_lowercase();
    FAMILIES
        .iter()
        .find(|(prefix, _)| model.starts_with(prefix))
        .map(|(_, provider)| *provider)
}

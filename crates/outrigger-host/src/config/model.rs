//! Which models are configured. These are words and addresses only: the host knows no model, and
//! whoever builds one reads them from here.

use std::fmt;

use indexmap::IndexMap;
use url::Url;

use super::gap::Gap;
use super::origin::{Origin, Setting};
use super::problem::ConfigProblem;
use super::server::WrittenKey;

/// `[model]`.
#[derive(Debug, Clone, Default)]
pub struct ModelSettings {
    /// `default = "provider:name"`.
    pub default: Option<Setting<String>>,
    /// `[model.providers.NAME]`; a nearer table replaces a farther one as a whole.
    pub providers: IndexMap<String, ProviderEntry>,
}

/// One provider.
#[derive(Debug, Clone)]
pub struct ProviderEntry {
    /// Where its table begins.
    pub origin: Origin,
    /// Whether it can be used.
    pub state: ProviderState,
}

/// Whether a provider can be used.
#[derive(Debug, Clone)]
pub enum ProviderState {
    /// As meant.
    Ready(Box<ProviderSettings>),
    /// Set aside, and why.
    Broken(Vec<ConfigProblem>),
}

/// A provider as meant.
#[derive(Clone, Default)]
pub struct ProviderSettings {
    /// The protocol it speaks, in the words of whoever builds models; without one, its name says it.
    pub kind: Option<Setting<String>>,
    /// Its address.
    pub base_url: Option<Setting<Url>>,
    /// Its key, from a variable or a reference; nearer than `key_env`.
    pub key: Option<ApiKey>,
    /// The environment variable that holds its key.
    pub key_env: Option<Setting<String>>,
    /// How many tokens its models can read.
    pub context_tokens: Option<Setting<u64>>,
    /// Whether OpenAI is asked to hold its models to the schemas of tools.
    pub strict: Option<Setting<bool>>,
    /// Whether its models have its own search of tools, where their names do not say so.
    pub tool_search: Option<Setting<bool>>,
    /// Headers of every request. Values may be secret.
    pub headers: Vec<(String, String)>,
    /// What was written, fit to be shown.
    pub(crate) written: Vec<WrittenKey>,
    /// Values with secrets still missing.
    pub(crate) gaps: Vec<Gap>,
}

/// The key of a provider. Its Debug form says where it was written.
#[derive(Clone)]
pub struct ApiKey {
    /// The key itself; empty until its reference is followed.
    pub value: String,
    /// Where it was written.
    pub origin: Origin,
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key from {}", self.origin)
    }
}

impl ProviderSettings {
    /// Whether a secret is still missing: its references were not followed.
    pub fn is_incomplete(&self) -> bool {
        !self.gaps.is_empty()
    }
}

impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("ProviderSettings")
            .field("kind", &self.kind)
            .field("key_env", &self.key_env)
            .field("context_tokens", &self.context_tokens)
            .field("strict", &self.strict)
            .field("tool_search", &self.tool_search)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

//! How much of the tools a model is shown at once.

use super::origin::Setting;

/// `[discovery]`. When the declarations of all allowed tools are too many for a model, it is given
/// tools that find the others instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// When. By their size, by default.
    pub mode: Setting<DiscoveryMode>,
    /// How many hundredths of the model's context declarations may take before. 5 by default.
    pub context_percent: Setting<u32>,
    /// What they may take in any case, in tokens. 1,500 by default.
    pub floor_tokens: Setting<u64>,
    /// What the index of the tools that are not declared may take, in tokens. 2,000 by default, and
    /// never more than that share of the context.
    pub index_tokens: Setting<u64>,
    /// The model that finds tools by meaning, as `outrigger model` names it. None by default.
    pub embeddings: Setting<Option<String>>,
    /// Who finds them. This program, by default.
    pub search: Setting<Searcher>,
}

/// Who finds tools that a model is not shown at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searcher {
    /// This program, with tools of its own.
    Host,
    /// The model's provider, where it can.
    Provider,
}

impl Searcher {
    pub(super) const WORDS: [(&'static str, Self); 2] =
        [("host", Self::Host), ("provider", Self::Provider)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Provider => "provider",
        }
    }
}

/// When tools are found instead of shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryMode {
    /// When they are too many.
    Auto,
    /// Always, save those that are marked `always`.
    Always,
    /// Never.
    Never,
}

impl DiscoveryMode {
    pub(super) const WORDS: [(&'static str, Self); 3] = [
        ("auto", Self::Auto),
        ("always", Self::Always),
        ("never", Self::Never),
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        Self {
            mode: Setting::builtin(DiscoveryMode::Auto),
            context_percent: Setting::builtin(5),
            floor_tokens: Setting::builtin(4_000),
            index_tokens: Setting::builtin(2_000),
            embeddings: Setting::builtin(None),
            search: Setting::builtin(Searcher::Host),
        }
    }
}

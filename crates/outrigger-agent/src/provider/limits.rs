//! What models can take, by the beginning of their names.
//!
//! The smallest number that is true for all models of a family; too small only means that the
//! conversation is shortened earlier. Configuration overrides both columns.

use super::ProviderSpec;

/// Name prefix, context in tokens, sees images. The longest prefix that fits counts.
const MODELS: [(&str, u64, bool); 47] = [
    ("chatgpt", 128_000, true),
    ("claude", 200_000, true),
    ("claude-fable", 1_000_000, true),
    ("claude-opus-4-6", 1_000_000, true),
    ("claude-opus-4-7", 1_000_000, true),
    ("claude-opus-4-8", 1_000_000, true),
    ("claude-opus-5", 1_000_000, true),
    ("claude-sonnet-4-6", 1_000_000, true),
    ("claude-sonnet-5", 1_000_000, true),
    ("codestral", 32_000, false),
    ("command", 128_000, false),
    ("deepseek", 64_000, false),
    ("deepseek-flash", 1_000_000, true),
    ("deepseek-v4", 1_000_000, false),
    ("devstral", 128_000, false),
    ("gemini", 1_000_000, true),
    ("gemini-1.0", 32_000, false),
    ("gemma-2", 8_000, false),
    ("gemma-3", 128_000, true),
    ("gemma2", 8_000, false),
    ("gemma3", 128_000, true),
    ("glm-4", 128_000, false),
    ("glm-5", 200_000, false),
    ("gpt-3.5", 16_000, false),
    ("gpt-4", 8_000, false),
    ("gpt-4-turbo", 128_000, true),
    ("gpt-4.1", 1_000_000, true),
    ("gpt-4.5", 128_000, true),
    ("gpt-4o", 128_000, true),
    ("gpt-5", 400_000, true),
    ("gpt-5-chat", 128_000, true),
    ("gpt-6", 400_000, true),
    ("gpt-oss", 128_000, false),
    ("grok", 128_000, false),
    ("kimi-k2", 128_000, false),
    ("llama-3", 128_000, false),
    ("llama3", 8_000, false),
    ("llama3.1", 128_000, false),
    ("llama3.2", 128_000, false),
    ("llama3.3", 128_000, false),
    ("minimax", 196_000, false),
    ("mistral", 32_000, false),
    ("o1", 128_000, true),
    ("o3", 200_000, true),
    ("o4-mini", 200_000, true),
    ("qwen2.5", 32_000, false),
    ("qwen3", 32_000, false),
];

/// For a model that is in no list.
const UNKNOWN_MODEL: u64 = 32_000;

/// Ollama loads a model with this context unless its `num_ctx` or `OLLAMA_CONTEXT_LENGTH` says
/// otherwise, and cuts longer prompts without a word.
const OLLAMA_DEFAULT: u64 = 4_096;

/// Name prefix and the most tokens that the model writes; more is refused.
const ANTHROPIC_OUTPUT: [(&str, u32); 6] = [
    ("claude-3-5", 8_192),
    ("claude-3-haiku", 4_096),
    ("claude-3-opus", 4_096),
    ("claude-3-sonnet", 4_096),
    ("claude-opus-4-0", 32_000),
    ("claude", 32_000),
];

/// The name without the vendor before it, as routers write it (`anthropic/claude-…`).
pub(super) fn bare(model: &str) -> String {
    model
        .rsplit('/')
        .next()
        .unwrap_or(model)
        .to_ascii_lowercase()
}

fn row(model: &str) -> Option<&'static (&'static str, u64, bool)> {
    let bare = bare(model);
    MODELS
        .iter()
        .filter(|(prefix, ..)| bare.starts_with(prefix))
        .max_by_key(|(prefix, ..)| prefix.len())
}

pub(super) fn context_tokens(spec: &ProviderSpec) -> u64 {
    if spec.id.starts_with("ollama:") {
        return OLLAMA_DEFAULT;
    }
    row(&spec.model).map_or(UNKNOWN_MODEL, |(_, tokens, _)| *tokens)
}

pub(super) fn sees_images(spec: &ProviderSpec) -> bool {
    row(&spec.model).is_some_and(|(_, _, sees)| *sees)
}

/// `max_tokens`, which the Messages API insists on, where the caller has no wish.
pub(super) fn anthropic_max_tokens(model: &str) -> u32 {
    let bare = bare(model);
    let row = ANTHROPIC_OUTPUT
        .iter()
        .find(|(prefix, _)| bare.starts_with(prefix));
    row.map_or(8_192, |(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderKind;

    fn limits(id: &str, model: &str) -> (u64, bool) {
        let spec = ProviderSpec::new(
            id,
            ProviderKind::OpenAiChat,
            "http://h".parse().unwrap(),
            model,
        );
        (context_tokens(&spec), sees_images(&spec))
    }

    #[test]
    fn the_longest_prefix_counts() {
        assert_eq!(limits("a:b", "claude-haiku-4-5"), (200_000, true));
        assert_eq!(
            limits("a:b", "anthropic/Claude-Sonnet-5.5"),
            (1_000_000, true)
        );
        assert_eq!(limits("a:b", "gpt-4o-mini"), (128_000, true));
        assert_eq!(limits("a:b", "gpt-4-0613"), (8_000, false));
        assert_eq!(limits("a:b", "somebody-s-model"), (32_000, false));
        assert_eq!(limits("ollama:qwen3:4b", "qwen3:4b"), (4_096, false));
        assert_eq!(anthropic_max_tokens("claude-3-5-haiku-latest"), 8_192);
        assert_eq!(anthropic_max_tokens("claude-sonnet-5-5"), 32_000);
    }
}

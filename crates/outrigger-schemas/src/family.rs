//! The families of providers, and what is known of each.
//!
//! Where a provider documents its subset, that is followed; where it only refuses, the refusals are
//! (OpenAI's and Google's 400s, Anthropic's on `input_schema`, the grammars of llama.cpp). To be
//! checked when a provider changes its API.

use std::fmt;

/// Providers that take the same schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// OpenAI's function tools without `strict`.
    OpenAi,
    /// OpenAI's function tools with `strict`: Structured Outputs.
    OpenAiStrict,
    /// Anthropic's `input_schema`.
    Anthropic,
    /// Google's `parameters`, a subset of the `OpenAPI` 3.0 schema.
    Gemini,
    /// Whatever else speaks Chat Completions: llama.cpp, Ollama, vLLM, DeepSeek, OpenRouter.
    Generic,
}

impl Family {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Self; 5] = [
        Self::OpenAi,
        Self::OpenAiStrict,
        Self::Anthropic,
        Self::Gemini,
        Self::Generic,
    ];

    /// The name that people write.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiStrict => "openai-strict",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Generic => "generic",
        }
    }

    /// The family of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Whether the family takes most of JSON Schema, so that a schema stays as it is but for what is
    /// refused. The others are told in their own few words.
    pub(crate) fn takes_json_schema(self) -> bool {
        !matches!(self, Self::OpenAiStrict | Self::Gemini)
    }

    /// Whether references may stay references.
    pub(crate) fn takes_references(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenAiStrict | Self::Anthropic)
    }

    /// How many schemas may lie within each other.
    pub(crate) fn depth(self) -> usize {
        match self {
            // Structured Outputs: 10 levels.
            Self::OpenAiStrict => 10,
            Self::Gemini => 16,
            _ => 48,
        }
    }

    /// Whether a property may bear this name.
    pub(crate) fn takes_name(self, name: &str) -> bool {
        let short = !name.is_empty() && name.len() <= 64;
        match self {
            // "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
            Self::Anthropic => {
                let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
                short && name.bytes().all(fits)
            }
            // FunctionDeclaration.parameters: begins with a letter or `_`, then also digits, 64 at most.
            Self::Gemini => {
                let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                short && name.bytes().all(fits) && !name.as_bytes()[0].is_ascii_digit()
            }
            Self::OpenAi | Self::OpenAiStrict | Self::Generic => true,
        }
    }

    /// Whether strings may have this `format`.
    pub(crate) fn takes_format(self, format: &str) -> bool {
        match self {
            Self::OpenAiStrict => [
                "date-time",
                "time",
                "date",
                "duration",
                "email",
                "hostname",
                "ipv4",
                "ipv6",
                "uuid",
            ]
            .contains(&format),
            // "only 'enum' and 'date-time' are supported for STRING type".
            Self::Gemini => ["enum", "date-time"].contains(&format),
            // Grammars are made for these; others are ignored or refused, from server to server.
            Self::Generic => ["date-time", "time", "date", "uuid"].contains(&format),
            Self::OpenAi | Self::Anthropic => true,
        }
    }

    /// Whether strings may have this `pattern`.
    pub(crate) fn takes_pattern(self, pattern: &str) -> bool {
        match self {
            Self::OpenAi | Self::Anthropic => true,
            // RE2 and its like: no looking around, no references back.
            Self::OpenAiStrict | Self::Gemini => {
                let looks = ["(?=", "(?!", "(?<=", "(?<!"];
                !looks.iter().any(|look| pattern.contains(look)) && !refers_back(pattern)
            }
            // llama.cpp refuses the whole request for one that is not anchored, and for `\d`.
            Self::Generic => false,
        }
    }
}

fn refers_back(pattern: &str) -> bool {
    let mut escaped = false;
    for b in pattern.bytes() {
        if escaped && (b.is_ascii_digit() && b != b'0' || b == b'k') {
            return true;
        }
        escaped = b == b'\\' && !escaped;
    }
    false
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

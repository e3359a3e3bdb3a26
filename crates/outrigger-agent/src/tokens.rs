//! What text costs a model to read, by its own vocabulary where that is known and shipped, else by an
//! estimate that is marked as one (`~`).
//!
//! Vocabularies are unpacked when the first text is counted; that takes a fifth of a second, so it is
//! done where a person asked for numbers, or beside the wait for a provider.

use std::fmt;

use outrigger_host::tokens::estimate;
use outrigger_model::{Message, Part};

/// Tokens around a message besides its text: role and separators.
const WRAPPING: u64 = 4;

/// Which vocabulary counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vocabulary {
    /// OpenAI's models since gpt-4o.
    O200k,
    /// OpenAI's gpt-4 and gpt-3.5.
    Cl100k,
    /// One that is not public, or not shipped; counts are estimates.
    Unknown,
}

impl Vocabulary {
    /// The vocabulary of a model, by its name or its `provider:name`.
    pub fn of_model(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let bare = name.rsplit(['/', ':']).next().unwrap_or_default();
        let begins = |beginnings: &[&str]| {
            beginnings
                .iter()
                .any(|beginning| bare.starts_with(beginning))
        };
        if begins(&["gpt-3.5", "gpt-4-"]) || bare == "gpt-4" {
            Self::Cl100k
        } else if begins(&["gpt-", "chatgpt-", "codex-", "o1", "o3", "o4"]) {
            Self::O200k
        } else {
            Self::Unknown
        }
    }

    /// Its name, as people know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::O200k => "o200k",
            Self::Cl100k => "cl100k",
            Self::Unknown => "estimate",
        }
    }

    /// Whether counts are what the model counts.
    pub fn is_known(self) -> bool {
        self != Self::Unknown
    }

    /// What stands before a count: nothing, or the mark of an estimate.
    pub fn mark(self) -> &'static str {
        if self.is_known() { "" } else { "~" }
    }

    /// Tokens of `text`.
    pub fn count(self, text: &str) -> u64 {
        let counted = match self {
            Self::O200k => tiktoken_rs::o200k_base_singleton().count_ordinary(text),
            Self::Cl100k => tiktoken_rs::cl100k_base_singleton().count_ordinary(text),
            Self::Unknown => return estimate(text),
        };
        u64::try_from(counted).unwrap_or(u64::MAX)
    }

    /// Tokens of a conversation's text. What images cost is each provider's own, and not in it.
    pub fn count_messages(self, messages: &[Message]) -> u64 {
        messages
            .iter()
            .map(|message| self.count_message(message))
            .sum()
    }

    fn count_message(self, message: &Message) -> u64 {
        let parts = |parts: &[Part]| -> u64 {
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text { text } => Some(self.count(text)),
                Part::Image { .. } => None,
            });
            texts.sum()
        };
        let text = match message {
            Message::System { text } => self.count(text),
            Message::User { content } => parts(content),
            Message::Assistant(turn) => {
                let calls = turn.calls.iter();
                let calls = calls.map(|call| self.count(&call.name) + self.count(&call.arguments));
                self.count(&turn.text) + calls.sum::<u64>()
            }
            Message::ToolResults { results } => results
                .iter()
                .map(|result| parts(&result.content) + WRAPPING)
                .sum(),
        };
        text + WRAPPING
    }
}

impl fmt::Display for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_counted_by_its_own_vocabulary() {
        for (model, vocabulary) in [
            ("openai:gpt-5.6-sol", Vocabulary::O200k),
            ("openrouter:openai/gpt-4o-mini", Vocabulary::O200k),
            ("gpt-4.1", Vocabulary::O200k),
            ("gpt-4", Vocabulary::Cl100k),
            ("gpt-4-turbo", Vocabulary::Cl100k),
            ("ollama:gpt-oss", Vocabulary::O200k),
            ("o3-mini", Vocabulary::O200k),
            ("anthropic:claude-sonnet-5-5", Vocabulary::Unknown),
            ("ollama:olmo2", Vocabulary::Unknown),
            ("local", Vocabulary::Unknown),
        ] {
            assert_eq!(Vocabulary::of_model(model), vocabulary, "{model}");
        }
    }

    #[test]
    fn counts_are_those_of_openais_own_tokenizer() {
        // As tiktoken counts them.
        let text = "The quick brown fox jumps over the lazy dog.";
        assert_eq!(Vocabulary::O200k.count(text), 10);
        assert_eq!(Vocabulary::Cl100k.count(text), 10);
        assert_eq!(Vocabulary::O200k.count("antidisestablishmentarianism"), 6);
        assert_eq!(Vocabulary::Unknown.mark(), "~");
        let conversation = [
            Message::user(text),
            Message::System {
                text: text.to_owned(),
            },
        ];
        assert_eq!(Vocabulary::O200k.count_messages(&conversation), 28);
    }
}

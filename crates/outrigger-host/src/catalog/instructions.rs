//! What a server says about how it is used. It reaches a model only where a person's configuration
//! says so, and then not more of it than [`INSTRUCTION_CHARACTERS`], with nothing hidden.

use serde_json::Value;

use crate::digest::Digest;
use crate::hidden;

/// Characters of one server's instructions that a model is given.
pub const INSTRUCTION_CHARACTERS: usize = 2_000;

/// A server's `instructions` (MCP, "Initialization" and `server/discover`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// Fingerprint of the whole text as the server gave it.
    pub digest: Digest,
    /// What a model may be given: hidden characters written out, cut where it is too long.
    pub text: String,
    /// Characters of the whole.
    pub characters: usize,
    /// *Local* configuration says that a model reads them.
    pub shown: bool,
}

impl Instructions {
    /// Reads what a server gave; `None` when that is nothing. `shown`: configuration says so.
    pub(crate) fn read(text: &str, shown: bool) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        // Line ends are those that whoever quotes it line by line looks for.
        let lines = text.trim().replace("\r\n", "\n").replace('\r', "\n");
        let whole = hidden::escape(&lines);
        Some(Self {
            digest: Digest::of(&Value::from(text)),
            text: whole.chars().take(INSTRUCTION_CHARACTERS).collect(),
            characters: whole.chars().count(),
            shown,
        })
    }

    /// Whether a model is not given the end.
    pub fn is_cut(&self) -> bool {
        self.characters > INSTRUCTION_CHARACTERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_cut_and_hide_nothing() {
        assert_eq!(Instructions::read(" \n", true), None);
        let short = Instructions::read("Search\u{202e} first.\n", true).unwrap();
        assert_eq!(
            (short.text.as_str(), short.is_cut()),
            ("Search\\u{202e} first.", false)
        );
        let long = Instructions::read(&"é".repeat(3_000), false).unwrap();
        assert_eq!(long.text.chars().count(), INSTRUCTION_CHARACTERS);
        assert_eq!((long.characters, long.is_cut()), (3_000, true));
    }

    #[test]
    fn the_digest_is_of_the_whole() {
        let of = |text: &str| Instructions::read(text, false).unwrap().digest;
        let long = "x".repeat(3_000);
        assert_ne!(of(&long), of(&format!("{long}y")));
        assert_eq!(of(&long), of(&long));
    }
}

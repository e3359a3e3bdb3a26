//! A value that must not be seen: an API key, or a header that carries one.
//!
//! It never prints itself and scrubs itself out of other people's words. It does not guard against
//! someone who reads the process's memory.

use std::fmt;
use std::sync::Arc;

/// What stands in a text where a secret was.
const REDACTED: &str = "[secret]";

/// A secret and where it came from. `Debug` shows the origin only; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    value: Arc<str>,
    origin: Arc<str>,
}

impl Secret {
    /// Wraps `value`. `origin` is shown to people, for example `` `OPENAI_API_KEY` in the environment ``.
    pub fn new(value: impl AsRef<str>, origin: impl AsRef<str>) -> Self {
        Self {
            value: value.as_ref().trim().into(),
            origin: origin.as_ref().into(),
        }
    }

    /// Where the secret was configured, in words for a person.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The secret itself, for the one place that sends it.
    pub(super) fn expose(&self) -> &str {
        &self.value
    }

    /// `text` without the secret in it.
    pub(super) fn scrub(&self, text: &str) -> String {
        // A value this short would blank out ordinary words and protects nothing.
        if self.value.len() < 4 || !text.contains(&*self.value) {
            return text.to_owned();
        }
        text.replace(&*self.value, REDACTED)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({REDACTED} from {})", self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_scrubbed_text_shows_the_value() {
        let secret = Secret::new(" sk-very-secret \n", "`OPENAI_API_KEY`");
        assert_eq!(
            format!("{secret:?}"),
            "Secret([secret] from `OPENAI_API_KEY`)"
        );
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(secret.scrub("bad key sk-very-secret!"), "bad key [secret]!");
    }
}

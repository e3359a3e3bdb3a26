//! What a server says with a 401 or a 403 (RFC 6750, section 3; RFC 9728, section 5.1).
//!
//! Promises: several challenges in one header, or in several, are told apart; quoted commas are no
//! separators; what is no challenge is no error.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// Bytes of one header that are looked at.
const LIMIT: usize = 8192;

/// The `Bearer` challenge of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(super) resource_metadata: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) error: Option<String>,
}

impl Challenge {
    /// The first `Bearer` challenge.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .filter(|text| text.len() <= LIMIT)
            .find_map(Self::parse)
    }

    /// The token is good and does not reach far enough.
    pub(super) fn wants_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope") && !self.scopes.is_empty()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut found: Option<Self> = None;
        let mut inside = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let end = rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len());
            let (word, after) = rest.split_at_checked(end)?;
            if word.is_empty() {
                // Nothing left, or something that is no challenge.
                return found;
            }
            let after = after.trim_start_matches([' ', '\t']);
            if let Some(value) = after.strip_prefix('=') {
                let (value, next) = read_value(value.trim_start_matches([' ', '\t']));
                if let Some(challenge) = found.as_mut().filter(|_| inside) {
                    challenge.note(word, value);
                }
                rest = next;
            } else {
                inside = found.is_none() && word.eq_ignore_ascii_case("bearer");
                if inside {
                    found = Some(Self::default());
                }
                rest = after;
            }
        }
    }

    fn note(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.resource_metadata = Some(value),
            "scope" => self.scopes = value.split_ascii_whitespace().map(str::to_owned).collect(),
            "error" => self.error = Some(value),
            _ => {}
        }
    }
}

/// A token or a quoted string, and what follows it.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = (Option<String>, String, Option<String>);

    fn parsed(text: &str) -> Option<Parts> {
        let challenge = Challenge::parse(text)?;
        Some((
            challenge.resource_metadata,
            challenge.scopes.join("+"),
            challenge.error,
        ))
    }

    fn read(metadata: &str, scopes: &str, error: &str) -> Parts {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        (text(metadata), scopes.to_owned(), text(error))
    }

    #[test]
    fn parameters_are_read_whatever_their_order_and_spelling() {
        assert_eq!(
            parsed(
                r#"Bearer resource_metadata="https://a.example/x", scope="a b",error="invalid_token""#
            ),
            Some(read("https://a.example/x", "a+b", "invalid_token"))
        );
        assert_eq!(
            parsed("bearer Error = insufficient_scope , SCOPE=write"),
            Some(read("", "write", "insufficient_scope"))
        );
        assert_eq!(parsed("Bearer"), Some(read("", "", "")));
    }

    #[test]
    fn other_schemes_stand_beside_it() {
        assert_eq!(
            parsed(r#"Basic realm="x, scope=evil", Bearer scope="a\"b", Digest scope="no""#),
            Some(read("", "a\"b", ""))
        );
        assert_eq!(
            parsed("Negotiate abc==, Bearer scope=a"),
            Some(read("", "a", ""))
        );
        assert_eq!(parsed(r#"Basic realm="Bearer scope=a""#), None);
    }

    #[test]
    fn what_is_no_challenge_ends_the_reading() {
        for text in [
            "",
            ",,,",
            "\"",
            "=",
            "Bearer scope=\"",
            "Bearer = = =",
            "é=ü",
        ] {
            let _ = parsed(text);
        }
        assert_eq!(parsed("Bearer scope=\"open"), Some(read("", "open", "")));
    }
}

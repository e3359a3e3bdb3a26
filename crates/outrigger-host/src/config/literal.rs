//! Secrets that stand in a configuration file itself: which values look like one, and where they
//! are, so that they can be moved out. A guess, which warns and changes nothing.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::origin::Layer;
use super::parse::Format;
use super::secret::{is_secret_name, is_secret_shape};

/// A value this short is no key that somebody was given.
const MIN_CHARS: usize = 16;
/// Bits a character, from which text looks drawn by lot. English has about 4.1 over its whole
/// alphabet, but short words repeat letters; 16 random hex digits have about 3.3.
const MIN_BITS: f64 = 3.0;

/// A secret that stands in a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Literal {
    /// The file.
    pub file: Arc<Path>,
    /// Whose file it is.
    pub layer: Layer,
    /// How it is written.
    pub format: Format,
    /// The line of the value, from 1.
    pub line: u32,
    /// Its column in characters, from 1.
    pub column: u32,
    /// The key as people know it (`servers.x.env.TOKEN`).
    pub key: String,
    /// The whole value as it is meant.
    pub(crate) value: String,
    /// The secret in it.
    pub(crate) secret: String,
}

impl Literal {
    /// The secret itself, for whoever moves it.
    pub fn reveal(&self) -> &str {
        &self.secret
    }

    /// A name for it in a store: made of the key, fit for a file and a reference.
    pub fn name(&self) -> String {
        literal_name(&self.key)
    }
}

/// A name for a secret in a store: made of the key of its value (`servers.x.env.TOKEN`), fit for a file
/// and a reference.
pub fn literal_name(key: &str) -> String {
    let parts: Vec<&str> = key
        .split('.')
        .filter(|part| {
            !matches!(
                *part,
                "servers"
                    | "mcpServers"
                    | "mcp_servers"
                    | "env"
                    | "headers"
                    | "model"
                    | "providers"
                    | "hooks"
            )
        })
        .collect();
    let name: String = parts
        .join("-")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '-'
            }
        })
        .collect();
    let name = name.trim_matches(['-', '_']);
    let name: String = name.chars().take(100).collect();
    if name.is_empty() {
        "secret".to_owned()
    } else {
        name
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.key, self.file.display(), self.line)
    }
}

/// The secret part of a value under this name, if it looks like one: a well-known kind of key, what
/// looks drawn by lot under a name that says what it is, or whatever `Authorization` holds.
pub(crate) fn secret_part<'v>(name: &str, value: &'v str) -> Option<&'v str> {
    let value = value.trim();
    let part = match value.split_once(' ') {
        Some((scheme, rest)) if scheme.chars().all(|c| c.is_ascii_alphabetic()) => rest.trim(),
        _ => value,
    };
    let authorization = ["authorization", "proxy-authorization"]
        .iter()
        .any(|header| name.eq_ignore_ascii_case(header));
    let told = is_secret_shape(part)
        || (authorization && part.chars().count() >= 4)
        || (is_secret_name(name) && is_drawn_by_lot(part));
    told.then_some(part)
}

fn is_drawn_by_lot(text: &str) -> bool {
    let plain = text.chars().count() >= MIN_CHARS
        && !text.contains(char::is_whitespace)
        && !text.contains("://")
        && !text.starts_with(['/', '~', '.', '$']);
    plain && text.contains(|c: char| c.is_ascii_digit()) && bits(text) >= MIN_BITS
}

/// Shannon's entropy of the characters, in bits a character.
fn bits(text: &str) -> f64 {
    let mut counts: HashMap<char, u32> = HashMap::new();
    for c in text.chars() {
        *counts.entry(c).or_default() += 1;
    }
    let all = f64::from(counts.values().sum::<u32>());
    counts
        .values()
        .map(|&count| f64::from(count) / all)
        .map(|share| -share * share.log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret() {
        for (name, value, part) in [
            (
                "X",
                "ghp_abcdefghijklmnop1234",
                Some("ghp_abcdefghijklmnop1234"),
            ),
            ("API_KEY", "0f3c9a7be15d2846", Some("0f3c9a7be15d2846")),
            ("API_KEY", "aaaaaaaaaaaaaaaa1111", None),
            ("API_KEY", "changeme", None),
            ("API_KEY", "your-key-goes-here-please", None),
            ("PATHS", "0f3c9a7be15d2846", None),
            ("TOKEN_FILE", "/run/secrets/0f3c9a7be15d2846", None),
            ("AUTH_URL", "https://0f3c9a7be15d2846.example", None),
            ("Authorization", "Bearer abcd", Some("abcd")),
            ("authorization", "Basic dXNlcjpwYXNz", Some("dXNlcjpwYXNz")),
            ("Accept", "Bearer abcd", None),
        ] {
            assert_eq!(secret_part(name, value), part, "{name} = {value}");
        }
    }

    #[test]
    fn names_are_made_of_keys() {
        let named = |key: &str| {
            Literal {
                file: Path::new("x").into(),
                layer: Layer::User,
                format: Format::Toml,
                line: 1,
                column: 1,
                key: key.to_owned(),
                value: String::new(),
                secret: String::new(),
            }
            .name()
        };
        assert_eq!(
            named("servers.github.env.GITHUB_TOKEN"),
            "github-GITHUB_TOKEN"
        );
        assert_eq!(named("mcpServers.\"a b\".headers.X-Key"), "a-b--X-Key");
        assert_eq!(named("model.providers.lab.key"), "lab-key");
    }
}

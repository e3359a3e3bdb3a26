//! A secret that stands elsewhere: what configuration writes in its place, and who fetches it.
//!
//! Promises: nothing is fetched here, and a reference never holds the secret itself, so it may be
//! shown. Leaves out: when references are followed ([`super::resolve`]), and how: the command line
//! brings a [`Resolver`], since only it knows environment and home.

use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// `env:NAME`: a variable of the environment.
    Env(String),
    /// `file:PATH`: the contents of a file; the path is absolute.
    File(PathBuf),
    /// `cmd:["program", "argument", …]`: what a program prints. No shell is involved.
    Cmd(Vec<String>),
    /// `keyring:NAME`: an entry of the system's keyring.
    Keyring(String),
    /// `age:NAME`: a file of the encrypted store beside the person's configuration.
    Age(String),
}

/// Fetches secrets.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The secret that a reference stands for. One line break at its end does not count, and an
    /// empty one is refused by whoever asks. May be asked for several at a time; is dropped when
    /// the deadline is over, and must then leave nothing running.
    async fn resolve(&self, reference: &Reference) -> Result<String, Unresolved>;
}

/// Why a secret is not there. Must not hold any part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unresolved {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Unresolved {
    /// A reason, without advice.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// As it is written.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Cmd(argv) => {
                let argv = serde_json::Value::from(argv.as_slice());
                write!(f, "cmd:{argv}")
            }
            Self::Keyring(name) => write!(f, "keyring:{name}"),
            Self::Age(name) => write!(f, "age:{name}"),
        }
    }
}

/// The words that a reference begins with.
const SCHEMES: [&str; 5] = ["env", "file", "cmd", "keyring", "age"];

/// Begins a text that is meant as it stands, whatever it looks like.
pub(crate) const LITERAL: &str = "literal:";

impl Reference {
    /// Takes a word of ours and what follows its colon apart.
    pub(crate) fn split(text: &str) -> Option<(&'static str, &str)> {
        let (word, rest) = text.split_once(':')?;
        let scheme = SCHEMES.into_iter().find(|scheme| *scheme == word)?;
        Some((scheme, rest))
    }

    /// Whether a whole value is a reference, and not an address (`file:///x`, `file:dev.db`) or a
    /// sentence that happens to begin with one of the words.
    pub(crate) fn is_whole(scheme: &str, rest: &str) -> bool {
        match scheme {
            "file" => (rest.starts_with('/') && !rest.starts_with("//")) || rest.starts_with("~/"),
            "cmd" => rest.trim_start().starts_with('['),
            _ => is_name(rest),
        }
    }

    /// Whether a value, as it is written, has something read or run to be had.
    pub(crate) fn is_in(written: &str) -> bool {
        let whole = Self::split(written).filter(|(scheme, rest)| Self::is_whole(scheme, rest));
        whole.is_some_and(|(scheme, _)| scheme != "env")
            || SCHEMES
                .iter()
                .any(|scheme| *scheme != "env" && written.contains(&format!("${{{scheme}:")))
    }

    /// Reads what follows the colon. The error completes "which ".
    pub(crate) fn read(
        scheme: &str,
        rest: &str,
        home: Option<&Path>,
    ) -> Result<Self, &'static str> {
        match scheme {
            "file" => file(rest, home).map(Self::File),
            "cmd" => match serde_json::from_str::<Vec<String>>(rest) {
                Ok(argv) if argv.first().is_some_and(|program| !program.is_empty()) => {
                    Ok(Self::Cmd(argv))
                }
                _ => Err("must be followed by a list in JSON: `cmd:[\"program\", \"argument\"]`"),
            },
            _ if !is_name(rest) => Err(
                "must be followed by a name of letters, digits, `.`, `_` and `-` that begins with none of the last two",
            ),
            "keyring" => Ok(Self::Keyring(rest.to_owned())),
            "age" => Ok(Self::Age(rest.to_owned())),
            _ => Ok(Self::Env(rest.to_owned())),
        }
    }
}

fn file(rest: &str, home: Option<&Path>) -> Result<PathBuf, &'static str> {
    if let Some(inside) = rest.strip_prefix("~/") {
        return home
            .map(|home| home.join(inside))
            .ok_or("needs a home folder, and none is known");
    }
    let path = PathBuf::from(rest);
    if path.is_absolute() && !rest.contains('\0') {
        Ok(path)
    } else {
        Err("must be followed by a whole path, or one that begins with `~/`")
    }
}

/// A name that can also be the name of a file, and never leads out of a folder.
fn is_name(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<String> {
        let (scheme, rest) = Reference::split(text)?;
        if !Reference::is_whole(scheme, rest) {
            return None;
        }
        let read = Reference::read(scheme, rest, Some(Path::new("/home/ada")));
        Some(read.map_or_else(ToOwned::to_owned, |reference| reference.to_string()))
    }

    #[test]
    fn references_are_told_from_text() {
        for (text, shown) in [
            ("env:TOKEN", "env:TOKEN"),
            ("file:/run/secret", "file:/run/secret"),
            ("file:~/secret", "file:/home/ada/secret"),
            (
                r#"cmd:["pass", "show", "x y"]"#,
                r#"cmd:["pass","show","x y"]"#,
            ),
            ("keyring:work.token", "keyring:work.token"),
            ("age:notes", "age:notes"),
        ] {
            assert_eq!(whole(text).as_deref(), Some(shown));
        }
        for text in [
            "file:dev.db",
            "file:///tmp/dev.db",
            "file:./x",
            "env: production",
            "age:../../etc/passwd",
            "cmd: ls",
            "keyring:",
            "https://example.com",
            "literal:env:X",
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert!(whole("cmd:[1]").unwrap().contains("list in JSON"));
        assert!(whole("cmd:[]").unwrap().contains("list in JSON"));
    }
}

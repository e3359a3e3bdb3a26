//! Which configured values are secret, and how they are masked. Guesses lean towards masking:
//! showing one value too few costs little.

use std::collections::BTreeSet;
use std::fmt;

/// What stands for a secret value.
pub(crate) const MASK: &str = "••••";
/// A shorter value than this is not redacted: it would turn every `1` and `true` into a mask.
const MIN_SECRET: usize = 4;
/// A variable whose name says nothing counts as secret from this length.
const MIN_UNNAMED: usize = 8;
/// A line of a longer secret counts by itself from this length.
const MIN_LINE: usize = 16;

const WORDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "auth",
    "cookie",
    "session",
    "signature",
    "bearer",
    "connectionstring",
    "databaseurl",
    "dsn",
];
/// Beginnings of well-known kinds of keys.
const SHAPES: &[&str] = &[
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "pk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "hf_",
    "npm_",
    "pypi-",
    "dop_v1_",
    "figd_",
];

/// Secret values met while reading. Its Debug form shows how many.
#[derive(Clone, Default)]
pub(crate) struct Secrets(BTreeSet<String>);

impl Secrets {
    /// Adds a value that is secret by where it stands, with the part after `Bearer` and the like.
    pub(crate) fn add(&mut self, value: &str) {
        let value = value.trim();
        if value.len() < MIN_SECRET {
            return;
        }
        self.0.insert(value.to_owned());
        // A key of several lines is often told line by line.
        let lines = value.lines().map(str::trim).filter(|line| {
            line.len() >= MIN_LINE && !line.contains(' ') && !line.starts_with("-----")
        });
        if value.contains('\n') {
            self.0.extend(lines.map(str::to_owned));
        }
        if let Some((scheme, rest)) = value.split_once(' ')
            && scheme.chars().all(|c| c.is_ascii_alphabetic())
            && rest.trim().len() >= MIN_SECRET
        {
            self.0.insert(rest.trim().to_owned());
        }
    }

    /// Adds what a variable held. Paths, and short values of variables whose name does not sound
    /// secret, are left alone: redacting them would only garble results.
    pub(crate) fn add_variable(&mut self, name: &str, value: &str) {
        let unremarkable = value.len() < MIN_UNNAMED || value.starts_with(['/', '~', '.']);
        if is_secret_name(name) || !unremarkable {
            self.add(value);
        }
    }

    /// The values, each once, longest first so that redacting one does not cut another.
    pub(crate) fn values(&self) -> Vec<String> {
        let mut values: Vec<String> = self.0.iter().cloned().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// Whether a variable, header or option of this name usually holds a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    let last = name
        .rsplit(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_lowercase();
    WORDS.iter().any(|word| plain.contains(word))
        || matches!(last.as_str(), "key" | "pat" | "pwd" | "pass" | "pw")
}

/// Whether a value looks like a well-known kind of key.
pub(crate) fn is_secret_shape(value: &str) -> bool {
    let value = value.rsplit(' ').next().unwrap_or(value);
    value.len() >= 16 && SHAPES.iter().any(|shape| value.starts_with(shape))
}

/// The secret part of an argument: all of it after `--token`, the value of `--token=…`, or all
/// of it when it looks like a key.
pub(crate) fn secret_of_arg<'a>(previous: Option<&str>, arg: &'a str) -> Option<&'a str> {
    let is_option =
        |text: &str| text.starts_with('-') && !text.contains(['=', ' ']) && is_secret_name(text);
    if previous.is_some_and(is_option) && !arg.starts_with('-') {
        return Some(arg);
    }
    if let Some((name, value)) = arg.split_once('=')
        && (is_secret_name(name) || is_secret_shape(value))
        && !name.contains([' ', '/', ':'])
    {
        return Some(value);
    }
    is_secret_shape(arg).then_some(arg)
}

/// Masks what follows a secret-looking word, and what looks like a key, in a line of a file,
/// keeping every character in its column.
pub(crate) fn mask_line(line: &str) -> String {
    let from = first_secret_word(line);
    let mut out = String::with_capacity(line.len());
    let mut run = String::new();
    let mut offset = 0;
    let flush = |run: &mut String, out: &mut String, start: usize| {
        // The name of a variable is no secret, and the words of authentication are not either.
        let plain = out.ends_with("${") || matches!(run.as_str(), "Bearer" | "Authorization");
        let after_word =
            !plain && from.is_some_and(|from| start >= from) && run.chars().count() >= 6;
        // `?token=…` is one run with its word.
        let inside = from
            .and_then(|from| from.checked_sub(start))
            .filter(|&at| at > 0 && run.is_char_boundary(at) && run.len() >= at + 6);
        if let Some(at) = inside.filter(|_| !plain) {
            out.push_str(&run[..at]);
            out.extend(run[at..].chars().map(|_| '•'));
        } else if after_word || is_secret_shape(run) {
            out.extend(run.chars().map(|_| '•'));
        } else {
            out.push_str(run);
        }
        run.clear();
    };
    for c in line.chars() {
        if c.is_alphanumeric() || "_-+/.~%=".contains(c) {
            run.push(c);
        } else {
            let start = offset - run.len();
            flush(&mut run, &mut out, start);
            out.push(c);
        }
        offset += c.len_utf8();
    }
    let start = offset - run.len();
    flush(&mut run, &mut out, start);
    out
}

/// The offset after the first `:` or `=` that follows a secret-looking word.
fn first_secret_word(line: &str) -> Option<usize> {
    line.char_indices()
        .filter(|&(_, c)| c == ':' || c == '=')
        .find_map(|(at, _)| {
            let before = line.get(..at)?.trim_end_matches(['"', '\'', ' ', '\t']);
            let word = before
                .rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
                .next()?;
            is_secret_name(word).then_some(at + 1)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_masked_after_their_word() {
        for (line, masked) in [
            (
                "url = \"https://h.example/?token=abc123def\"",
                "url = \"https://h.example/?token=•••••••••\"",
            ),
            ("API_KEY=abcdef ghijkl", "API_KEY=•••••• ••••••"),
            ("command = \"server\"", "command = \"server\""),
        ] {
            assert_eq!(mask_line(line), masked);
        }
    }

    #[test]
    fn a_key_of_several_lines_is_also_known_line_by_line() {
        let mut secrets = Secrets::default();
        secrets.add("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\nwith spaces, and long\n");
        let values = secrets.values();
        assert!(
            values.contains(&"MIIEvQIBADANBgkqhkiG".to_owned()),
            "{values:?}"
        );
        assert_eq!(values.len(), 2, "{values:?}");
    }
}

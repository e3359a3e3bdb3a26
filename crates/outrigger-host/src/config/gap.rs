//! A configured value with secrets still missing from it.
//!
//! Promises: a gap is filled with everything it needs or not at all; what it says when that fails
//! names file, line and key and holds no secret. Leaves out: fetching ([`super::resolve`]).

use std::collections::BTreeMap;
use std::fmt;

use url::Url;

use super::expand::Expanded;
use super::problem::ConfigProblem;
use super::reference::{Reference, Unresolved};

/// What became of each reference.
pub(crate) type Values = BTreeMap<Reference, Result<String, Unresolved>>;

/// Which value of its owner it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A variable in the environment of a process.
    Env(String),
    /// A header, by its place in the list.
    Header(usize),
    /// The address.
    Url,
    /// The secret of an OAuth client.
    ClientSecret,
    /// The key of a model provider.
    Key,
    /// A text of `[storage]`.
    Storage,
}

/// A value with secrets still missing.
#[derive(Clone)]
pub(crate) struct Gap {
    pub(crate) slot: Slot,
    /// The key as people know it (`servers.x.env.TOKEN`).
    pub(crate) key: String,
    text: String,
    missing: Vec<(usize, Reference)>,
    /// What is said when it cannot be filled, but for the reason.
    problem: ConfigProblem,
}

impl Gap {
    /// `problem` is about the place where the value stands.
    pub(crate) fn new(slot: Slot, key: &str, expanded: Expanded, problem: ConfigProblem) -> Self {
        Self {
            slot,
            key: key.to_owned(),
            text: expanded.text,
            missing: expanded.missing,
            problem,
        }
    }

    /// The same for another value of its owner.
    pub(crate) fn at(&self, slot: Slot) -> Self {
        Self {
            slot,
            ..self.clone()
        }
    }

    /// What it refers to.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.missing.iter().map(|(_, reference)| reference)
    }

    /// Where it stands, as `FILE:LINE`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.problem.file.display(), self.problem.line)
    }

    /// The value, or why it cannot be had.
    pub(crate) fn fill(&self, values: &Values) -> Result<String, Box<ConfigProblem>> {
        self.fill_with(values, str::to_owned)
    }

    /// The address, with what goes into it encoded (RFC 3986, section 2.1); as a whole it is taken
    /// as it is.
    pub(crate) fn fill_url(&self, values: &Values) -> Result<Url, Box<ConfigProblem>> {
        let filled = if self.text.is_empty() {
            self.fill(values)?
        } else {
            self.fill_with(values, encoded)?
        };
        match Url::parse(filled.trim()) {
            Ok(url) if matches!(url.scheme(), "http" | "https" | "ws" | "wss") => Ok(url),
            _ => Err(self.refusal("does not come to an address once its secrets are in it")),
        }
    }

    /// A problem at this place: "`KEY` {what}".
    pub(crate) fn fault(&self, what: &str) -> ConfigProblem {
        let mut problem = self.problem.clone();
        problem.message = format!("`{}` {what}", self.key);
        problem
    }

    fn fill_with(
        &self,
        values: &Values,
        form: impl Fn(&str) -> String,
    ) -> Result<String, Box<ConfigProblem>> {
        let mut filled = String::new();
        let mut from = 0;
        for (at, reference) in &self.missing {
            let value = match values.get(reference) {
                Some(Ok(value)) => value,
                Some(Err(unresolved)) => return Err(self.unresolved(reference, unresolved)),
                None => {
                    return Err(self.refusal(&format!("needs `{reference}`, which nobody fetched")));
                }
            };
            filled.push_str(self.text.get(from..*at).unwrap_or_default());
            filled.push_str(&form(value));
            from = *at;
        }
        filled.push_str(self.text.get(from..).unwrap_or_default());
        Ok(filled)
    }

    /// The same, as the reason for leaving it unfilled.
    pub(crate) fn refusal(&self, what: &str) -> Box<ConfigProblem> {
        Box::new(self.fault(what))
    }

    fn unresolved(&self, reference: &Reference, unresolved: &Unresolved) -> Box<ConfigProblem> {
        let mut problem = self.refusal(&format!("refers to `{reference}`: {}", unresolved.reason));
        problem.hints.extend(unresolved.hint.clone());
        problem
    }
}

/// The text around a secret may hold another one that stands in the file itself.
impl fmt::Debug for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let references: Vec<String> = self.references().map(ToString::to_string).collect();
        f.debug_struct("Gap")
            .field("key", &self.key)
            .field("references", &references)
            .finish_non_exhaustive()
    }
}

/// Everything but the unreserved characters of RFC 3986, section 2.3.
fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    out
}

//! Collects problems of one file while it is being lowered, and words those that come up
//! everywhere: a key nobody knows, a value of the wrong kind.

use super::node::{Entry, Node, Pos};
use super::origin::Origin;
use super::problem::{ConfigProblem, Severity};
use super::source::Source;

/// Problems of one file.
pub(crate) struct Report<'a> {
    pub(crate) source: &'a Source,
    pub(crate) problems: Vec<ConfigProblem>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self {
            source,
            problems: Vec::new(),
        }
    }

    pub(crate) fn origin(&self, at: Pos) -> Origin {
        self.source.origin(at)
    }

    /// Adds an error at a place; returns it so that hints can be added.
    pub(crate) fn error(
        &mut self,
        at: Pos,
        key: &str,
        message: impl Into<String>,
    ) -> &mut ConfigProblem {
        self.push(Severity::Error, at, key, message.into())
    }

    /// Adds a warning at a place.
    pub(crate) fn warn(
        &mut self,
        at: Pos,
        key: &str,
        message: impl Into<String>,
    ) -> &mut ConfigProblem {
        self.push(Severity::Warning, at, key, message.into())
    }

    fn push(
        &mut self,
        severity: Severity,
        at: Pos,
        key: &str,
        message: String,
    ) -> &mut ConfigProblem {
        let mut problem = self.source.problem(severity, at, message);
        key.clone_into(&mut problem.key);
        let index = self.problems.len();
        self.problems.push(problem);
        &mut self.problems[index]
    }

    /// A key that nobody knows. `scope` is the table's path, empty at the top.
    pub(crate) fn unknown(
        &mut self,
        severity: Severity,
        entry: &Entry,
        scope: &str,
        known: &[&str],
    ) {
        let key = join(scope, &entry.key);
        let place = if scope.is_empty() {
            String::new()
        } else {
            format!(" in `{scope}`")
        };
        let message = format!("unknown key `{}`{place}", entry.key.escape_debug());
        let hint = match nearest(&entry.key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known keys: {}", known.join(", ")),
        };
        self.push(severity, entry.at, &key, message).hint(hint);
    }

    /// A value of the wrong kind.
    pub(crate) fn mismatch(&mut self, key: &str, node: &Node, expected: &str) {
        self.error(
            node.at,
            key,
            format!("`{key}` must be {expected}, found {}", node.found()),
        );
    }

    /// Whether anything here is an error.
    pub(crate) fn has_errors(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }
}

impl ConfigProblem {
    /// Adds what to do about it.
    pub(crate) fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hints.push(hint.into());
        self
    }
}

/// `scope.key`, with the key quoted when its parts could be mistaken.
pub(crate) fn join(scope: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || "_-*".contains(c));
    let key = if plain {
        key.to_owned()
    } else {
        format!("\"{}\"", key.escape_debug())
    };
    if scope.is_empty() {
        key
    } else {
        format!("{scope}.{key}")
    }
}

/// The known word that a mistyped one most likely stands for.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let word: String = plain(word).chars().take(64).collect();
    let allowed = (word.chars().count() / 3).max(1);
    known
        .iter()
        .map(|&candidate| {
            (
                strsim::damerau_levenshtein(&word, &plain(candidate)),
                candidate,
            )
        })
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

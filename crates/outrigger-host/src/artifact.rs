//! The artifacts that a run may use, and where their data came from.
//!
//! A handle means something to a run when the run was given it: with a result, or by a person who
//! wrote it. That a server writes one somewhere means nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

pub use outrigger_journal::{ArtifactRef, Artifacts};

use crate::policy::Origins;
use crate::preview::grouped;

/// How handles begin.
pub const SCHEME: &str = "artifact://";

/// The digits of a handle: the journal gives them this many, more where another artifact has those.
const DIGITS: Range<usize> = 16..65;

/// An artifact that a run may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The artifact.
    pub artifact: ArtifactRef,
    /// The servers whose data it is.
    pub origins: Origins,
}

impl Given {
    /// What a person reads of it instead of its content.
    pub fn described(&self) -> String {
        let servers: Vec<_> = self.origins.servers().collect();
        let ArtifactRef {
            handle,
            bytes,
            media_type,
            ..
        } = &self.artifact;
        let from = if servers.is_empty() {
            String::new()
        } else {
            format!(", from {}", servers.join(", "))
        };
        format!("{handle}: {media_type}, {} bytes{from}", grouped(*bytes))
    }
}

/// What a run was given, by the digits of the digest.
#[derive(Debug, Default)]
pub(crate) struct Handles(RwLock<BTreeMap<String, Given>>);

impl Handles {
    /// Gives the run an artifact. What it came from only grows.
    pub(crate) fn give(&self, artifact: &ArtifactRef, origins: &Origins) {
        let mut given = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = given.entry(artifact.digest.to_string());
        let known = known.or_insert_with(|| Given {
            artifact: artifact.clone(),
            origins: Origins::default(),
        });
        for server in origins.servers() {
            known.origins.add_server(server);
        }
    }

    /// The artifact with these digits, where there is exactly one.
    pub(crate) fn find(&self, digits: &str) -> Option<Given> {
        let given = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = given
            .range(digits.to_owned()..)
            .take_while(|(digest, _)| digest.starts_with(digits));
        match (found.next(), found.next()) {
            (Some((_, given)), None) => Some(given.clone()),
            _ => None,
        }
    }
}

/// The handles in a text: where each stands, and its digits.
pub(crate) fn handles(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    memchr::memmem::find_iter(text.as_bytes(), SCHEME).filter_map(move |at| {
        let from = at + SCHEME.len();
        let rest = &text[from..];
        let digits = rest
            .bytes()
            .take_while(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let digits = digits.count();
        // Addresses of servers may begin like this, too.
        let goes_on = rest[digits..].starts_with(|next: char| {
            next.is_ascii_alphanumeric() || matches!(next, '/' | '-' | '_')
        });
        (DIGITS.contains(&digits) && !goes_on).then(|| (at..from + digits, &rest[..digits]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_like_a_handle_is_one() {
        let found = |text: &str| -> Vec<String> {
            handles(text).map(|(_, digits)| digits.to_owned()).collect()
        };
        let digits = "0123456789abcdef";
        let two = format!("see artifact://{digits}, and artifact://{digits}{digits}.");
        assert_eq!(found(&two), [digits.to_owned(), digits.repeat(2)]);
        for other in [
            "artifact://build/17",
            "artifact://0123456789abcde",
            "artifact://0123456789abcdef/log",
            "artifact://0123456789abcdefg",
            "artifact:0123456789abcdef",
        ] {
            assert_eq!(found(other), Vec::<String>::new(), "{other}");
        }
    }
}

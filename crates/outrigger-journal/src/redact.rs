//! Keeps secret values out of what is observed and recorded.
//!
//! A [`Redactor`] finds the exact values it was given, also base64-encoded (standard and URL
//! alphabet, at any alignment), percent-encoded, JSON-escaped, or up to three of the last two
//! around each other, and puts `[redacted]` in their place. It knows values, not patterns: it does
//! not guess what looks like a secret. Not found: base64 of an already encoded value or broken over
//! lines, an unusual escaping right after a stray `%` or backslash, compression, encryption, hashes,
//! a value sent in pieces.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::AhoCorasick;
use serde_json::value::RawValue;

mod event;
mod json;
mod pattern;
#[cfg(test)]
mod tests;
mod view;

use pattern::Pattern;
use view::View;

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Values with fewer characters are not searched for: they occur in ordinary text by chance.
pub const SHORTEST_SECRET: usize = 6;

/// How many encodings around each other are undone.
const DEPTH: usize = 3;

/// Finds secret values and replaces them by [`REDACTED`]. Clones share what they know.
///
/// White space around a value does not count. Values with fewer than [`SHORTEST_SECRET`]
/// characters, and values that [`REDACTED`] itself contains, are not searched for.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<Known>>>);

/// The values that are known at one time, and how to find them.
#[derive(Default)]
struct Known {
    secrets: HashSet<String>,
    search: Search,
    patterns: Vec<Pattern>,
}

#[derive(Default)]
enum Search {
    #[default]
    Nothing,
    For(Box<AhoCorasick>),
    /// The search could not be built (secrets of hundreds of megabytes): nothing may pass.
    Everything,
}

impl Redactor {
    /// A redactor for these values.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let redactor = Self::default();
        redactor.learn(secrets);
        redactor
    }

    /// From now on these values are found too, by all clones.
    pub fn learn<S: AsRef<str>>(&self, secrets: impl IntoIterator<Item = S>) {
        // Held while the search is built, so that no two lose each other's values.
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = known.secrets.clone();
        let mut more = false;
        for secret in secrets {
            let secret = secret.as_ref().trim();
            let searched = secret.chars().count() >= SHORTEST_SECRET && !REDACTED.contains(secret);
            more |= searched && all.insert(secret.to_owned());
        }
        if more {
            *known = Arc::new(Known::of(all));
        }
    }

    fn known(&self) -> Arc<Known> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&known)
    }

    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        matches!(self.known().search, Search::Nothing)
    }

    /// The text without secrets; borrowed when there were none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.known();
        match known.search {
            Search::Nothing => Cow::Borrowed(text),
            Search::Everything => Cow::Borrowed(REDACTED),
            Search::For(_) => {
                let found = known.found(text.as_bytes(), 0);
                if found.is_empty() {
                    Cow::Borrowed(text)
                } else {
                    Cow::Owned(replaced(text, &found))
                }
            }
        }
    }

    /// The JSON value without secrets, still valid JSON; borrowed when there were none.
    ///
    /// Strings and member names keep everything around the secret byte for byte. A number whose
    /// digits hold a secret becomes the string [`REDACTED`], and so does the whole value when a
    /// secret that is itself JSON spans several tokens.
    pub fn redact_json<'a>(&self, value: &'a RawValue) -> Cow<'a, RawValue> {
        json::redact(&self.known(), value)
    }
}

impl Known {
    fn of(secrets: HashSet<String>) -> Self {
        let mut patterns = Vec::new();
        for secret in &secrets {
            pattern::of(secret, &mut patterns);
        }
        let search = if patterns.is_empty() {
            Search::Nothing
        } else {
            AhoCorasick::new(patterns.iter().map(|p| p.bytes.as_slice()))
                .map_or(Search::Everything, |found| Search::For(Box::new(found)))
        };
        Self {
            secrets,
            search,
            patterns,
        }
    }

    /// Where secrets are in this text, sorted and without overlaps.
    fn found(&self, text: &[u8], depth: usize) -> Vec<Range<usize>> {
        let mut found = self.found_plain(text);
        self.found_encoded(text, depth, &[View::Json, View::Percent], &mut found);
        merged(found)
    }

    /// Adds what is found after undoing one of these encodings.
    fn found_encoded(
        &self,
        text: &[u8],
        depth: usize,
        views: &[View],
        found: &mut Vec<Range<usize>>,
    ) {
        if depth == DEPTH {
            return;
        }
        for view in views {
            if let Some(decoded) = view.decode(text) {
                let inner = self.found(&decoded, depth + 1);
                drop(decoded);
                found.extend(view.locate(text, &inner));
            }
        }
    }

    /// Where patterns are in these very bytes.
    fn found_plain(&self, text: &[u8]) -> Vec<Range<usize>> {
        let Search::For(search) = &self.search else {
            return Vec::new();
        };
        let hits = search.find_overlapping_iter(text);
        let ranges = hits.filter_map(|hit| {
            let pattern = self.patterns.get(hit.pattern().as_usize())?;
            Some(pattern.widened(text, hit.range()))
        });
        merged(ranges.collect())
    }
}

/// Says how much is searched for, never what.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("patterns", &self.known().patterns.len())
            .finish_non_exhaustive()
    }
}

/// Sorted, with those that overlap made one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// The text with each of these sorted ranges replaced.
fn replaced(text: &str, ranges: &[Range<usize>]) -> String {
    let bytes = text.as_bytes();
    let mut kept = Vec::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        kept.extend_from_slice(bytes.get(from..range.start).unwrap_or_default());
        kept.extend_from_slice(REDACTED.as_bytes());
        from = range.end;
    }
    kept.extend_from_slice(bytes.get(from..).unwrap_or_default());
    // Ranges start and end between characters; should one ever not, a mark is better than a panic.
    String::from_utf8_lossy(&kept).into_owned()
}

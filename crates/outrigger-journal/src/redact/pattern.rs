//! The byte strings that betray one secret.
//!
//! Base64 depends on where the secret stands modulo three bytes, so there is one pattern per
//! alignment: the characters that the secret alone determines. The characters at its edges, which
//! hold some of its bits together with a neighbour's, are taken along when it is found.

use std::ops::Range;

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// What to search for, and how far it reaches beyond what is found.
pub(super) struct Pattern {
    pub(super) bytes: Vec<u8>,
    shared_before: bool,
    shared_after: bool,
}

impl Pattern {
    fn exact(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            shared_before: false,
            shared_after: false,
        }
    }

    /// The hit with the base64 characters at its edges that hold bits of the secret.
    pub(super) fn widened(&self, text: &[u8], hit: Range<usize>) -> Range<usize> {
        let before = self.shared_before
            && hit
                .start
                .checked_sub(1)
                .is_some_and(|at| is_base64(text, at));
        let after = self.shared_after && is_base64(text, hit.end);
        hit.start - usize::from(before)..hit.end + usize::from(after)
    }
}

fn is_base64(text: &[u8], at: usize) -> bool {
    text.get(at)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte))
}

/// Adds all patterns of a secret; equal ones only once.
pub(super) fn of(secret: &str, patterns: &mut Vec<Pattern>) {
    let first = patterns.len();
    let mut add = |pattern: Pattern| {
        if !patterns[first..]
            .iter()
            .any(|known| known.bytes == pattern.bytes)
        {
            patterns.push(pattern);
        }
    };
    add(Pattern::exact(secret));
    if secret.contains(' ') {
        // As in HTML forms; the rest of it is undone as percent-encoding.
        add(Pattern::exact(secret.replace(' ', "+")));
    }
    // These two are also found by undoing them, except where what stands before them reads as
    // part of their first character.
    add(Pattern::exact(json_escaped(secret)));
    add(Pattern::exact(percent_encoded(secret)));
    for alphabet in [&STANDARD, &URL_SAFE] {
        for offset in 0..3 {
            add(base64(secret.as_bytes(), offset, alphabet));
        }
    }
}

/// The pattern of a secret that stands `offset` bytes after a multiple of three.
fn base64(secret: &[u8], offset: usize, alphabet: &Alphabet) -> Pattern {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(secret);
    let text = GeneralPurpose::new(alphabet, NO_PAD).encode(&padded);
    let start = [0, 2, 3][offset];
    let shared_after = !padded.len().is_multiple_of(3);
    let end = text.len() - usize::from(shared_after);
    Pattern {
        bytes: text.as_bytes()[start..end].to_vec(),
        shared_before: offset > 0,
        shared_after,
    }
}

/// As RFC 8259 requires at least: quotes, backslashes and control characters.
fn json_escaped(secret: &str) -> String {
    let quoted = serde_json::Value::from(secret).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Everything but the unreserved characters of RFC 3986 section 2.3.
fn percent_encoded(secret: &str) -> String {
    let mut encoded = String::with_capacity(secret.len() * 3);
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    encoded
}

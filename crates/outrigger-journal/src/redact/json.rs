//! Redaction inside JSON text that stays valid JSON: token by token, without building a tree, so
//! that digits, spacing and member order stay as they came.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};

use super::view::View;
use super::{Known, REDACTED, Search, merged, replaced};

pub(super) fn redact<'a>(known: &Known, value: &'a RawValue) -> Cow<'a, RawValue> {
    match known.search {
        Search::Nothing => return Cow::Borrowed(value),
        Search::Everything => return Cow::Owned(placeholder()),
        Search::For(_) => {}
    }
    let tokens = redact_tokens(known, value.get());
    let text = tokens.as_deref().unwrap_or(value.get());
    if !known.found_plain(text.as_bytes()).is_empty() {
        return Cow::Owned(placeholder());
    }
    match tokens {
        None => Cow::Borrowed(value),
        Some(text) => Cow::Owned(RawValue::from_string(text).unwrap_or_else(|_| placeholder())),
    }
}

fn placeholder() -> Box<RawValue> {
    to_raw_value(REDACTED).unwrap_or_default()
}

/// Valid JSON with its strings and numbers redacted; `None` when there was nothing to redact.
fn redact_tokens(known: &Known, text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        let (end, token) = match byte {
            b'"' => {
                let end = string_end(bytes, at + 1);
                (
                    end + 1,
                    redact_string(known, &text[at + 1..end]).map(|inner| format!("\"{inner}\"")),
                )
            }
            b'-' | b'0'..=b'9' => {
                let end = number_end(bytes, at);
                let found = !known.found_plain(&bytes[at..end]).is_empty();
                (end, found.then(|| format!("\"{REDACTED}\"")))
            }
            _ => (at + 1, None),
        };
        if let Some(token) = token {
            let out = out.get_or_insert_default();
            out.push_str(&text[copied..at]);
            out.push_str(&token);
            copied = end;
        }
        at = end;
    }
    let mut out = out?;
    out.push_str(&text[copied..]);
    Some(out)
}

/// The position of the quote that ends the string whose inside starts at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let digits = bytes[at..]
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
    at + digits.count()
}

/// The inside of a string, redacted as what it means; `None` when there was nothing to redact.
fn redact_string(known: &Known, inner: &str) -> Option<String> {
    let found = if inner.contains('\\') {
        // A hit in the escaped text itself could start within an escape.
        let mut found = Vec::new();
        known.found_encoded(inner.as_bytes(), 0, &[View::Json], &mut found);
        merged(found)
    } else {
        known.found(inner.as_bytes(), 0)
    };
    (!found.is_empty()).then(|| replaced(inner, &found))
}

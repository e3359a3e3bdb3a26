//! What can be told about a JSON text without parsing it: where it ends, how deep it is, whether
//! its escapes are whole.
//!
//! Promises: one pass, no recursion, no allocation unless something is repaired.
//! Leaves out: validity. A text that ends here may still fail to parse.

use bytes::Bytes;

use super::{FrameLimits, Unusable};

/// An incremental walk over one JSON text.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// Where a walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The text is complete before this offset.
    Complete(usize),
    /// A line feed at this offset, and the text goes on.
    LineEnd(usize),
    /// The nesting limit was passed at this offset.
    TooDeep(usize),
    /// All bytes were read.
    More,
}

impl Scan {
    /// The walk is inside a string.
    pub(crate) fn in_string(&self) -> bool {
        self.in_string
    }

    /// Walks on from `from` until something happens.
    pub(crate) fn step(&mut self, text: &[u8], from: usize, max_depth: usize) -> Step {
        let mut at = from;
        while at < text.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', &text[at..]) else {
                    return Step::More;
                };
                at += found + 1;
                match text[at - 1] {
                    b'"' => self.in_string = false,
                    b'\\' => self.escaped = true,
                    _ => return Step::LineEnd(at - 1),
                }
                continue;
            }
            at += 1;
            match text[at - 1] {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth > max_depth {
                        return Step::TooDeep(at - 1);
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Step::Complete(at);
                    }
                }
                b'\n' => return Step::LineEnd(at - 1),
                _ => {}
            }
        }
        Step::More
    }
}

/// Checks a whole text (an HTTP body, the data of an event) against the limits and repairs its
/// encoding: invalid UTF-8 and lone surrogate escapes become U+FFFD.
pub fn check(text: Bytes, limits: FrameLimits) -> Result<Bytes, Unusable> {
    if text.len() > limits.bytes {
        return Err(Unusable::of(&text, too_large(limits)));
    }
    let mut scan = Scan::default();
    let mut from = 0;
    loop {
        match scan.step(&text, from, limits.depth) {
            Step::TooDeep(_) => return Err(Unusable::of(&text, too_deep(limits))),
            Step::LineEnd(at) => from = at + 1,
            Step::Complete(_) | Step::More => return Ok(repair(text)),
        }
    }
}

pub(super) fn too_large(limits: FrameLimits) -> String {
    format!(
        "the message is larger than the limit of {} bytes (frame_bytes)",
        limits.bytes
    )
}

pub(super) fn too_deep(limits: FrameLimits) -> String {
    format!(
        "the message is nested deeper than the limit of {} levels (depth)",
        limits.depth
    )
}

/// Makes the text one that every JSON parser accepts as Unicode.
pub(super) fn repair(text: Bytes) -> Bytes {
    let text = match str::from_utf8(&text) {
        Ok(_) => text,
        Err(_) => Bytes::from(String::from_utf8_lossy(&text).into_owned()),
    };
    if memchr::memmem::find(&text, b"\\ud").is_none()
        && memchr::memmem::find(&text, b"\\uD").is_none()
    {
        return text;
    }
    replace_lone_surrogates(&text).map_or(text, Bytes::from)
}

/// `None` when every surrogate escape has its other half.
fn replace_lone_surrogates(text: &[u8]) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &text[at..]) {
        at += found;
        match escaped_unit(text, at) {
            Some(0xD800..=0xDBFF)
                if matches!(escaped_unit(text, at + 6), Some(0xDC00..=0xDFFF)) =>
            {
                at += 12;
            }
            Some(0xD800..=0xDFFF) => {
                let fixed = out.get_or_insert_with(|| text.to_vec());
                fixed[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
        if at >= text.len() {
            break;
        }
    }
    out
}

/// The UTF-16 unit of a `\uXXXX` at `at`.
fn escaped_unit(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// The values of `"id"` members in a text that is not whole: strings and numbers, as written,
/// without quotes.
pub(crate) fn find_ids(text: &[u8]) -> impl Iterator<Item = &str> {
    memchr::memmem::find_iter(text, b"\"id\"").filter_map(|at| {
        let rest = text
            .get(at + 4..)?
            .trim_ascii_start()
            .strip_prefix(b":")?
            .trim_ascii_start();
        let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b',' | b'}' | b' ' | b'\n' | b'\r'));
        str::from_utf8(&rest[..end.unwrap_or(rest.len())]).ok()
    })
}

//! Text as it reads with one layer of encoding undone, leniently: what is not an escape stays.
//!
//! Decoding keeps no map back to the source, which would be larger than the text; the rare hit is
//! located by decoding once more and counting.

use std::ops::Range;

/// An encoding that can be undone.
#[derive(Clone, Copy)]
pub(super) enum View {
    /// The escapes of JSON strings, RFC 8259 section 7.
    Json,
    /// RFC 3986 section 2.1.
    Percent,
}

/// The smallest piece: what some source bytes mean.
struct Unit {
    bytes: [u8; 4],
    len: usize,
    source: usize,
}

impl View {
    /// The decoded text; `None` when nothing is encoded.
    pub(super) fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        let first = self.next_marker(text, 0)?;
        let mut decoded = Vec::with_capacity(text.len());
        decoded.extend_from_slice(&text[..first]);
        let mut at = first;
        let mut changed = false;
        while at < text.len() {
            let unit = self.unit(&text[at..]);
            changed |= unit.source > 1;
            decoded.extend_from_slice(&unit.bytes[..unit.len]);
            at += unit.source;
            let plain = self.next_marker(text, at).unwrap_or(text.len());
            decoded.extend_from_slice(&text[at..plain]);
            at = plain;
        }
        changed.then_some(decoded)
    }

    /// Where these sorted ranges of the decoded text stand in its source.
    pub(super) fn locate(self, text: &[u8], decoded: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut located = Vec::with_capacity(decoded.len());
        let (mut at, mut position) = (0, 0);
        for range in decoded {
            let mut start = None;
            while position < range.end && at < text.len() {
                let unit = self.unit(&text[at..]);
                if start.is_none() && range.start < position + unit.len {
                    start = Some(at);
                }
                at += unit.source;
                position += unit.len;
            }
            // A range within one unit that the range before it already took adds nothing.
            if let Some(start) = start {
                located.push(start..at);
            }
        }
        located
    }

    fn marker(self) -> u8 {
        match self {
            Self::Json => b'\\',
            Self::Percent => b'%',
        }
    }

    fn next_marker(self, text: &[u8], from: usize) -> Option<usize> {
        let marker = self.marker();
        text[from..]
            .iter()
            .position(|byte| *byte == marker)
            .map(|found| from + found)
    }

    /// What the start of this text, which is not empty, means.
    fn unit(self, text: &[u8]) -> Unit {
        let escaped = if text[0] == self.marker() {
            match self {
                Self::Json => json_escape(text),
                Self::Percent => hex(text, 1, 2)
                    .and_then(|byte| u8::try_from(byte).ok())
                    .map(|byte| byte_unit(byte, 3)),
            }
        } else {
            None
        };
        escaped.unwrap_or_else(|| byte_unit(text[0], 1))
    }
}

fn byte_unit(byte: u8, source: usize) -> Unit {
    Unit {
        bytes: [byte, 0, 0, 0],
        len: 1,
        source,
    }
}

/// `text` starts with a backslash.
fn json_escape(text: &[u8]) -> Option<Unit> {
    let plain = match *text.get(1)? {
        byte @ (b'"' | b'\\' | b'/') => byte,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => return unicode_escape(text),
        _ => return None,
    };
    Some(byte_unit(plain, 2))
}

/// `text` starts with `\u`. Half a surrogate pair reads as U+FFFD.
fn unicode_escape(text: &[u8]) -> Option<Unit> {
    let first = hex(text, 2, 4)?;
    let second = match text.get(6..8) {
        Some(b"\\u") if (0xD800..0xDC00).contains(&first) => hex(text, 8, 4),
        _ => None,
    };
    let (code, source) = match second {
        Some(low @ 0xDC00..0xE000) => (0x1_0000 + ((first - 0xD800) << 10) + (low - 0xDC00), 12),
        _ => (first, 6),
    };
    let mut bytes = [0; 4];
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    let len = character.encode_utf8(&mut bytes).len();
    Some(Unit { bytes, len, source })
}

fn hex(text: &[u8], from: usize, digits: usize) -> Option<u32> {
    let digits = text.get(from..from + digits)?;
    digits.iter().try_fold(0, |value, digit| {
        Some(value * 16 + char::from(*digit).to_digit(16)?)
    })
}

//! The text of an answer, taken out of its JSON string while that is still being written.

use crate::envelope::ANSWER_HEAD;

/// Follows the bytes of an envelope and hands out the answer's text as far as it is certain.
#[derive(Debug, Default)]
pub(crate) struct AnswerText {
    seen: Vec<u8>,
    taken: usize,
    /// The first half of a character that JSON writes as two escapes.
    high_surrogate: Option<u32>,
    closed: bool,
}

impl AnswerText {
    /// Adds bytes and returns the text that they complete; empty for anything but an answer.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.seen.extend_from_slice(bytes);
        let mut text = String::new();
        if !self.seen.starts_with(ANSWER_HEAD.as_bytes()) {
            return text;
        }
        self.taken = self.taken.max(ANSWER_HEAD.len());
        while !self.closed {
            let Some((char, length)) = self.next_char() else {
                break;
            };
            self.taken += length;
            text.extend(char);
        }
        text
    }

    /// The next character, if there is one, and how many bytes it took; nothing when more bytes are
    /// needed.
    fn next_char(&mut self) -> Option<(Option<char>, usize)> {
        let rest = &self.seen[self.taken..];
        match *rest.first()? {
            b'"' => {
                self.closed = true;
                Some((None, 1))
            }
            b'\\' => self.escape(),
            first => {
                let length = match first {
                    0xF0.. => 4,
                    0xE0.. => 3,
                    0xC0.. => 2,
                    _ => 1,
                };
                let char = std::str::from_utf8(rest.get(..length)?)
                    .ok()
                    .and_then(|text| text.chars().next());
                Some((
                    Some(char.unwrap_or(char::REPLACEMENT_CHARACTER)),
                    if char.is_some() { length } else { 1 },
                ))
            }
        }
    }

    fn escape(&mut self) -> Option<(Option<char>, usize)> {
        let rest = &self.seen[self.taken..];
        let plain = match *rest.get(1)? {
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'u' => {
                let digits = std::str::from_utf8(rest.get(2..6)?).unwrap_or_default();
                let unit = u32::from_str_radix(digits, 16).unwrap_or(0xFFFD);
                return Some((self.unit(unit), 6));
            }
            other => char::from(other),
        };
        Some((Some(plain), 2))
    }

    /// One unit of UTF-16, as `\u` writes it.
    fn unit(&mut self, unit: u32) -> Option<char> {
        match (self.high_surrogate.take(), unit) {
            (_, 0xD800..=0xDBFF) => {
                self.high_surrogate = Some(unit);
                None
            }
            (Some(high), 0xDC00..=0xDFFF) => {
                char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (unit - 0xDC00))
            }
            (_, unit) => Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the pieces, the text is that of the JSON string.
    #[test]
    fn any_cut_gives_the_same_text() {
        let text = "32 days — \"soon\"\n\t\\ 🎉 ü";
        let escaped = serde_json::to_string(text)
            .unwrap()
            .replace('🎉', "\\ud83c\\udf89");
        let envelope = format!("{}{}}}}}", &ANSWER_HEAD[..ANSWER_HEAD.len() - 1], escaped);
        for step in 1..7 {
            let mut answer = AnswerText::default();
            let streamed: String = envelope
                .as_bytes()
                .chunks(step)
                .map(|bytes| answer.push(bytes))
                .collect();
            assert_eq!(streamed, text, "in pieces of {step}");
        }
    }

    #[test]
    fn a_call_has_no_text() {
        let mut answer = AnswerText::default();
        assert_eq!(
            answer.push(br#"{"tool":"echo","arguments":{"text":"hi"}}"#),
            ""
        );
    }
}

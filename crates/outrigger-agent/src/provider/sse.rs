//! Server-sent events out of bytes, however the bytes were cut.
//!
//! Follows the event stream format of the HTML standard, section 9.2, as far as model providers use
//! it: `data` fields, comments, every line ending, a byte order mark. Left out: reconnection (`id`,
//! `retry`), because a model's turn cannot be resumed, and `event`, because every provider repeats it
//! inside the data.

/// The largest event that is kept, in bytes. Providers send images at most a few MiB large.
const LARGEST_EVENT: usize = 32 * 1024 * 1024;

/// An event grew beyond [`LARGEST_EVENT`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event is larger than {} MiB", LARGEST_EVENT / 1024 / 1024)]
pub(super) struct EventTooLarge;

/// Collects bytes and gives out the data of whole events.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a newline right after it belongs to the same line end.
    after_cr: bool,
    begun: bool,
    data: String,
    has_data: bool,
}

impl SseParser {
    /// Takes the next bytes and returns the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, EventTooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    events.extend(self.end_line());
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                }
            }
            if self.line.len() + self.data.len() > LARGEST_EVENT {
                return Err(EventTooLarge);
            }
        }
        Ok(events)
    }

    /// What was left when the stream ended. The standard throws an event without its blank line
    /// away; some servers forget that line after their last event, so the caller may look at it.
    pub(super) fn finish(mut self) -> Option<String> {
        let from_line = if self.line.is_empty() {
            None
        } else {
            self.end_line()
        };
        from_line.or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let line = if self.begun {
            &*text
        } else {
            text.strip_prefix('\u{feff}').unwrap_or(&text)
        };
        self.begun = true;
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if field == "data" {
            if self.has_data {
                self.data.push('\n');
            }
            self.has_data = true;
            self.data.push_str(value);
        }
        None
    }

    fn dispatch(&mut self) -> Option<String> {
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_endings_comments_and_marks() {
        let mut parser = SseParser::default();
        let events = parser
            .push("\u{feff}: hello\r\nevent: a\r\ndata: 1\r\n\r\ndata:2\rdata: 3\r\r\n\nid: 9\n\ndata\n\n".as_bytes())
            .unwrap();
        assert_eq!(events, ["1", "2\n3", ""]);
        assert_eq!(parser.finish(), None);
    }

    #[test]
    fn a_last_event_without_its_blank_line_is_still_seen() {
        let mut parser = SseParser::default();
        assert!(parser.push(b"data: [DONE]").unwrap().is_empty());
        assert_eq!(parser.finish(), Some("[DONE]".to_owned()));
    }

    proptest! {
        #[test]
        fn cutting_the_bytes_changes_nothing(
            data in prop::collection::vec("[a-zäß€😀:{} ]{0,12}", 1..6),
            end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            cuts in prop::collection::vec(0_usize..400, 0..12),
        ) {
            let wire: String = data.iter().flat_map(|line| ["data: ", line, end, end]).collect();
            let whole = SseParser::default().push(wire.as_bytes()).unwrap();
            prop_assert_eq!(whole.len(), data.len());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(wire.len())).collect();
            cuts.extend([0, wire.len()]);
            cuts.sort_unstable();
            let mut parser = SseParser::default();
            let mut pieces = Vec::new();
            for pair in cuts.windows(2) {
                pieces.extend(parser.push(&wire.as_bytes()[pair[0]..pair[1]]).unwrap());
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}

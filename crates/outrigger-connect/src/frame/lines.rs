//! Newline framing, as servers really do it.
//!
//! Promises: a message is found when its last bracket arrives, be it on one line, on several
//! (pretty-printed), without a line end, or behind text on the same line. Everything else on the
//! stream is noise and never hides the message after it.
//! Source: MCP, "Transports", stdio ("messages are delimited by newlines"); the rest is tolerance.

use bytes::{Buf, BytesMut};

use super::json::{self, Scan, Step};
use super::{FrameEvent, FrameLimits, KEEP, Turn, Unusable, content_length, noise};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// How messages begin.
const MARK: &[u8] = b"{\"jsonrpc\"";

/// The state between two chunks. Offsets count from the front of the buffer.
#[derive(Debug, Default)]
pub(super) struct Lines {
    state: State,
    /// Bytes of the current item that have been looked at.
    seen: usize,
}

#[derive(Debug, Default)]
enum State {
    /// Between items.
    #[default]
    Start,
    /// Inside something that began like JSON.
    Json(Pretty),
    /// Inside a line of text.
    Text,
    /// Throwing away the rest of a line.
    Skip {
        reason: String,
        head: Vec<u8>,
        tail: Vec<u8>,
    },
}

#[derive(Debug, Default, Clone, Copy)]
struct Pretty {
    scan: Scan,
    /// Line ends passed.
    lines: usize,
    /// The current line has been looked at for a new message.
    checked: bool,
}

/// What the reader tells the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    /// No more bytes will come.
    pub(super) at_end: bool,
    /// A `Content-Length` line switches the framing.
    pub(super) watch_headers: bool,
}

impl Lines {
    pub(super) fn next(
        &mut self,
        buffer: &mut BytesMut,
        limits: FrameLimits,
        input: Input,
    ) -> Turn {
        loop {
            let turn = match std::mem::take(&mut self.state) {
                State::Start => self.start(buffer, input),
                State::Json(pretty) => self.json(buffer, limits, input, pretty),
                State::Text => self.text(buffer, limits, input),
                State::Skip { reason, head, tail } => {
                    let so_far = Unusable {
                        reason,
                        head: head.into(),
                        tail: tail.into(),
                    };
                    Some(self.skip(buffer, input, so_far))
                }
            };
            if let Some(turn) = turn {
                return turn;
            }
        }
    }

    fn go(&mut self, state: State) -> Option<Turn> {
        self.state = state;
        None
    }

    fn wait(&mut self, state: State) -> Turn {
        self.state = state;
        Turn::More
    }

    /// Skips what stands between items and decides what the next one is.
    fn start(&mut self, buffer: &mut BytesMut, input: Input) -> Option<Turn> {
        self.seen = 0;
        loop {
            let blank = buffer
                .iter()
                .position(|byte| !byte.is_ascii_whitespace())
                .unwrap_or(buffer.len());
            buffer.advance(blank);
            if buffer.starts_with(BOM) {
                buffer.advance(BOM.len());
                continue;
            }
            if buffer.is_empty() || (BOM.starts_with(buffer) && !input.at_end) {
                return Some(self.wait(State::Start));
            }
            break;
        }
        match opening(buffer) {
            Opening::Json => self.go(State::Json(Pretty::default())),
            Opening::Text => self.go(State::Text),
            Opening::Unclear if input.at_end => self.go(State::Text),
            Opening::Unclear => Some(self.wait(State::Start)),
        }
    }

    fn json(
        &mut self,
        buffer: &mut BytesMut,
        limits: FrameLimits,
        input: Input,
        mut pretty: Pretty,
    ) -> Option<Turn> {
        if pretty.lines > 0 && !pretty.checked {
            match begins_message(&buffer[self.seen..]) {
                Some(true) if buffer[0] == b'{' || !expects_more(&buffer[..self.seen]) => {
                    return Some(self.release(buffer, self.seen));
                }
                None if !input.at_end => return Some(self.wait(State::Json(pretty))),
                _ => pretty.checked = true,
            }
        }
        match pretty.scan.step(buffer, self.seen, limits.depth) {
            Step::Complete(end) if end <= limits.bytes => Some(self.release(buffer, end)),
            Step::TooDeep(at) if at <= limits.bytes => {
                self.discard(buffer, json::too_deep(limits), at + 1)
            }
            Step::Complete(_) | Step::TooDeep(_) => {
                self.discard(buffer, json::too_large(limits), limits.bytes)
            }
            Step::LineEnd(at) => {
                if at >= limits.bytes {
                    return self.discard(buffer, json::too_large(limits), limits.bytes);
                }
                // A string cannot go on over a line end, and the first line of a pretty-printed
                // text ends where something must follow.
                let broken =
                    pretty.scan.in_string() || (pretty.lines == 0 && !expects_more(&buffer[..at]));
                if broken {
                    return Some(self.release(buffer, at + 1));
                }
                self.seen = at + 1;
                self.go(State::Json(Pretty {
                    scan: pretty.scan,
                    lines: pretty.lines + 1,
                    checked: false,
                }))
            }
            Step::More if input.at_end => Some(self.release(buffer, buffer.len())),
            Step::More if buffer.len() > limits.bytes => {
                self.discard(buffer, json::too_large(limits), limits.bytes)
            }
            Step::More => {
                self.seen = buffer.len();
                Some(self.wait(State::Json(pretty)))
            }
        }
    }

    fn text(&mut self, buffer: &mut BytesMut, limits: FrameLimits, input: Input) -> Option<Turn> {
        let end = memchr::memchr(b'\n', &buffer[self.seen..]).map(|found| self.seen + found);
        // `Loading...{"jsonrpc":"2.0",…}`: a print without a line end, then a message.
        let from = self.seen.saturating_sub(MARK.len());
        let message = memchr::memmem::find(&buffer[from..end.unwrap_or(buffer.len())], MARK);
        if let Some(at) = message.map(|found| from + found)
            && at + MARK.len() <= limits.bytes
        {
            return Some(Turn::Event(noise(&buffer.split_to(at))));
        }
        let end = end.or(if input.at_end {
            Some(buffer.len())
        } else {
            None
        });
        if end.unwrap_or(buffer.len()) > limits.bytes {
            return self.discard(buffer, json::too_large(limits), limits.bytes);
        }
        let Some(end) = end else {
            self.seen = buffer.len();
            return Some(self.wait(State::Text));
        };
        let line = buffer.split_to(end);
        if input.watch_headers
            && let Some(length) = content_length(&line)
        {
            if !buffer.is_empty() {
                buffer.advance(1);
            }
            return Some(Turn::Switch(length));
        }
        Some(Turn::Event(noise(&line)))
    }

    /// Hands over the first `end` bytes as a candidate.
    fn release(&mut self, buffer: &mut BytesMut, end: usize) -> Turn {
        self.state = State::Start;
        self.seen = 0;
        let text = buffer.split_to(end).freeze();
        let text = text.slice(..text.trim_ascii_end().len());
        Turn::Event(FrameEvent::Message(json::repair(text)))
    }

    /// Gives up on the current item and on the rest of its line. The first `known` bytes are there
    /// however the stream was cut.
    fn discard(&mut self, buffer: &mut BytesMut, reason: String, known: usize) -> Option<Turn> {
        let head = buffer[..buffer.len().min(known).min(KEEP)].to_vec();
        let gone = buffer.split_to(self.seen.min(buffer.len()));
        let tail = gone[gone.len().saturating_sub(KEEP)..].to_vec();
        self.seen = 0;
        self.go(State::Skip { reason, head, tail })
    }

    fn skip(&mut self, buffer: &mut BytesMut, input: Input, so_far: Unusable) -> Turn {
        let end = memchr::memchr(b'\n', buffer);
        let gone = buffer.split_to(end.unwrap_or(buffer.len()));
        let mut tail = so_far.tail.to_vec();
        tail.extend_from_slice(&gone[gone.len().saturating_sub(KEEP)..]);
        tail.drain(..tail.len().saturating_sub(KEEP));
        if end.is_none() && !input.at_end {
            return self.wait(State::Skip {
                reason: so_far.reason,
                head: so_far.head.to_vec(),
                tail,
            });
        }
        Turn::Event(FrameEvent::Unusable(Unusable {
            tail: tail.into(),
            ..so_far
        }))
    }
}

enum Opening {
    Json,
    Text,
    Unclear,
}

/// Whether an item begins like a message: an object, or an array of objects.
fn opening(text: &[u8]) -> Opening {
    if !matches!(text[0], b'{' | b'[') {
        return Opening::Text;
    }
    let second = text[1..]
        .iter()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
    match (text[0], second) {
        (_, None) => Opening::Unclear,
        (b'{', Some(b'"' | b'}' | b'\n')) | (b'[', Some(b'{' | b'[' | b']' | b'\n')) => {
            Opening::Json
        }
        _ => Opening::Text,
    }
}

/// Whether a line begins a message of its own. `None`: too short to tell.
fn begins_message(line: &[u8]) -> Option<bool> {
    let mut rest = line
        .iter()
        .filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
    for expected in MARK {
        match rest.next() {
            None => return None,
            Some(byte) if byte != expected => return Some(false),
            Some(_) => {}
        }
    }
    Some(true)
}

/// Whether the text stops where JSON must go on.
fn expects_more(text: &[u8]) -> bool {
    matches!(
        text.trim_ascii_end().last(),
        Some(b'{' | b'[' | b',' | b':')
    )
}

//! From bytes to messages, as pure state machines: data in, data out, whatever the chunks.
//!
//! Promises: bounded memory; every byte ends in a message candidate, in noise, or in a report of
//! what could not be used; the same events for every way of cutting the input.
//! Leaves out: whether a candidate is JSON-RPC (that is read in `rpc`), and all input and output.

mod headers;
mod json;
mod lines;
mod sse;

use bytes::{Bytes, BytesMut};

use crate::{Framing, Limits};

pub use json::check;
pub(crate) use json::find_ids;
pub(crate) use sse::{SseEvent, SseItem, SseReader};

use headers::Headers;
use lines::Lines;

/// What a reader found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameEvent {
    /// Text that begins like a JSON object or array: UTF-8, within the limits, with lone surrogate
    /// escapes replaced. It may still not be JSON.
    Message(Bytes),
    /// A line of something else, without its line end.
    Noise(String),
    /// Something that was a message, probably, and cannot be used.
    Unusable(Unusable),
}

/// A message that cannot be used: what is left of it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// For a person.
    pub reason: String,
    /// The first bytes, at most `KEEP`.
    pub head: Bytes,
    /// The last bytes, at most `KEEP`.
    pub tail: Bytes,
}

/// Bytes kept of each end of a message that cannot be used.
const KEEP: usize = 2048;

/// Characters kept of a line of noise.
const NOISE_CHARS: usize = 2000;

impl Unusable {
    /// Of a message that is there as a whole.
    pub(crate) fn of(text: &[u8], reason: String) -> Self {
        let head = Bytes::copy_from_slice(&text[..text.len().min(KEEP)]);
        let tail = Bytes::copy_from_slice(&text[text.len().saturating_sub(KEEP)..]);
        Self { reason, head, tail }
    }
}

/// The bounds of one message.
#[derive(Debug, Clone, Copy)]
pub struct FrameLimits {
    /// Bytes.
    pub bytes: usize,
    /// Nesting of its JSON.
    pub depth: usize,
}

impl From<&Limits> for FrameLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            bytes: limits.frame_bytes,
            depth: limits.depth,
        }
    }
}

/// Reads messages from a byte stream in either framing.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    limits: FrameLimits,
    mode: Mode,
    /// The framing may still turn out to be the other one.
    undecided: bool,
}

#[derive(Debug)]
enum Mode {
    Lines(Lines),
    Headers(Headers),
}

/// What a machine asks of its reader.
#[derive(Debug)]
enum Turn {
    Event(FrameEvent),
    /// There is nothing to say before more bytes come.
    More,
    /// A `Content-Length: N` line was read: the stream is framed with headers.
    Switch(usize),
}

impl FrameReader {
    /// A reader of an empty stream.
    pub fn new(framing: Framing, limits: FrameLimits) -> Self {
        let mode = match framing {
            Framing::Auto | Framing::Newline => Mode::Lines(Lines::default()),
            Framing::ContentLength => Mode::Headers(Headers::default()),
        };
        Self {
            buffer: BytesMut::new(),
            limits,
            mode,
            undecided: framing == Framing::Auto,
        }
    }

    /// Where new bytes are to be appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The stream is known to be framed with `Content-Length` headers.
    pub fn uses_headers(&self) -> bool {
        matches!(self.mode, Mode::Headers(_))
    }

    /// The next event, or `None` until more bytes have come.
    #[allow(clippy::should_implement_trait, reason = "more may come after `None`")]
    pub fn next(&mut self) -> Option<FrameEvent> {
        self.advance(false)
    }

    /// The next event when no more bytes will come.
    pub fn finish(&mut self) -> Option<FrameEvent> {
        self.advance(true)
    }

    fn advance(&mut self, at_end: bool) -> Option<FrameEvent> {
        loop {
            let turn = match &mut self.mode {
                Mode::Lines(lines) => lines.next(
                    &mut self.buffer,
                    self.limits,
                    lines::Input {
                        at_end,
                        watch_headers: self.undecided,
                    },
                ),
                Mode::Headers(headers) => headers.next(&mut self.buffer, self.limits, at_end),
            };
            match turn {
                Turn::More => return None,
                Turn::Switch(length) => {
                    self.undecided = false;
                    self.mode = Mode::Headers(Headers::with_length(length));
                }
                Turn::Event(event) => {
                    if let FrameEvent::Message(text) = &event
                        && self.undecided
                        && memchr::memmem::find(text, b"\"jsonrpc\"").is_some()
                    {
                        self.undecided = false;
                    }
                    return Some(event);
                }
            }
        }
    }
}

/// A line of noise as text.
fn noise(line: &[u8]) -> FrameEvent {
    let cut = &line[..line.len().min(NOISE_CHARS * 4)];
    let text = String::from_utf8_lossy(cut);
    FrameEvent::Noise(text.trim_end().chars().take(NOISE_CHARS).collect())
}

/// The length that a `Content-Length: N` line gives.
fn content_length(line: &[u8]) -> Option<usize> {
    let line = str::from_utf8(line).ok()?;
    let (name, value) = line.split_once(':')?;
    if !name.trim().eq_ignore_ascii_case("content-length") {
        return None;
    }
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests;

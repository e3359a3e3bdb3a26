//! Server-sent events.
//!
//! Promises: events as the standard defines them (LF, CR and CR LF, comments, several `data:`
//! lines, byte-order mark), bounded in size, cut anywhere.
//! Source: HTML Living Standard, section 9.2.6, "Interpreting an event stream". One liberty: an
//! event that has an id and no data is reported too, for the id.

use bytes::{Buf, Bytes, BytesMut};

use super::FrameLimits;
use super::{KEEP, Unusable, json};

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event:` field; empty means `message`.
    pub(crate) kind: String,
    /// The `data:` lines, joined with LF. Empty when there were none.
    pub(crate) data: Bytes,
    /// The `id:` field of this event.
    pub(crate) id: Option<String>,
    /// The `retry:` field, in milliseconds.
    pub(crate) retry: Option<u64>,
}

/// What the reader found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SseItem {
    Event(SseEvent),
    /// An event that is larger than the limit, from its first bytes to its last.
    Unusable(Unusable),
}

/// An incremental reader.
#[derive(Debug)]
pub(crate) struct SseReader {
    buffer: BytesMut,
    limits: FrameLimits,
    /// Bytes of the current line that have been looked at.
    seen: usize,
    /// The last line ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
    event: SseEvent,
    /// Data from the second line on, with the first; the common case of one line is not copied.
    joined: BytesMut,
    has_data: bool,
    /// The event is too large; its first bytes, and those seen last.
    overflow: Option<(Bytes, Bytes)>,
}

impl SseReader {
    pub(crate) fn new(limits: FrameLimits) -> Self {
        Self {
            buffer: BytesMut::new(),
            limits,
            seen: 0,
            after_cr: false,
            begun: false,
            event: SseEvent::default(),
            joined: BytesMut::new(),
            has_data: false,
            overflow: None,
        }
    }

    /// Appends a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next event, or `None` until more bytes have come. What is not followed by an empty line
    /// is never an event.
    pub(crate) fn next(&mut self) -> Option<SseItem> {
        loop {
            if self.after_cr && !self.buffer.is_empty() {
                self.after_cr = false;
                if self.buffer[0] == b'\n' {
                    self.buffer.advance(1);
                }
            }
            let Some(found) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.seen..]) else {
                self.seen = self.buffer.len();
                self.bound();
                return None;
            };
            let line = self.buffer.split_to(self.seen + found).freeze();
            self.after_cr = self.buffer[0] == b'\r';
            self.buffer.advance(1);
            self.seen = 0;
            let line = if self.begun { line } else { strip_bom(line) };
            self.begun = true;
            if line.is_empty() {
                if let Some(item) = self.dispatch() {
                    return Some(item);
                }
            } else if line.len() > self.limits.bytes {
                self.overflowed(&line);
            } else {
                self.field(&line);
            }
        }
    }

    /// A line without an end must not fill the memory.
    fn bound(&mut self) {
        if self.buffer.len() <= self.limits.bytes {
            return;
        }
        let line = self.buffer.split();
        self.seen = 0;
        self.overflowed(&line);
        // What follows on this line is then read as a field of unknown name.
        self.buffer.extend_from_slice(b"-");
    }

    fn overflowed(&mut self, text: &[u8]) {
        let (head, tail) = (
            &text[..text.len().min(KEEP)],
            &text[text.len().saturating_sub(KEEP)..],
        );
        match &mut self.overflow {
            None => {
                self.overflow = Some((Bytes::copy_from_slice(head), Bytes::copy_from_slice(tail)));
            }
            Some((_, last)) => *last = Bytes::copy_from_slice(tail),
        }
        self.event.data = Bytes::new();
        self.joined = BytesMut::new();
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let name = &line[..colon];
        let mut value = line.slice((colon + 1).min(line.len())..);
        if value.first() == Some(&b' ') {
            value.advance(1);
        }
        match name {
            b"data" if self.overflow.is_some() => self.overflowed(&value),
            b"data"
                if self.event.data.len().max(self.joined.len()) + value.len()
                    > self.limits.bytes =>
            {
                let first = std::mem::take(&mut self.event.data);
                let joined = std::mem::take(&mut self.joined);
                self.overflowed(if joined.is_empty() { &first } else { &joined });
                self.overflowed(&value);
            }
            b"data" if self.has_data => {
                if self.joined.is_empty() {
                    self.joined.extend_from_slice(&self.event.data);
                }
                self.joined.extend_from_slice(b"\n");
                self.joined.extend_from_slice(&value);
            }
            b"data" => {
                self.event.data = value;
                self.has_data = true;
            }
            b"event" => self.event.kind = String::from_utf8_lossy(&value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.event.id = Some(String::from_utf8_lossy(&value).into_owned());
            }
            b"retry" => {
                self.event.retry = str::from_utf8(&value)
                    .ok()
                    .and_then(|text| text.parse().ok());
            }
            _ if self.overflow.is_some() => self.overflowed(line),
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseItem> {
        let mut event = std::mem::take(&mut self.event);
        if !self.joined.is_empty() {
            event.data = self.joined.split().freeze();
        }
        let has_data = std::mem::take(&mut self.has_data);
        if let Some((head, tail)) = self.overflow.take() {
            let reason = json::too_large(self.limits);
            return Some(SseItem::Unusable(Unusable { reason, head, tail }));
        }
        (has_data || event.id.is_some() || event.retry.is_some()).then_some(SseItem::Event(event))
    }
}

fn strip_bom(line: Bytes) -> Bytes {
    if line.starts_with(b"\xef\xbb\xbf") {
        line.slice(3..)
    } else {
        line
    }
}

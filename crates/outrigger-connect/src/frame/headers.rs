//! `Content-Length` framing: a block of headers, an empty line, that many bytes.
//!
//! Promises: lines between the frames that are no headers are noise; a body larger than the limit
//! is skipped by its length and reported.
//! Source: Language Server Protocol, "Base Protocol". N counts bytes.

use bytes::{Buf, BytesMut};

use super::{FrameEvent, FrameLimits, KEEP, Turn, Unusable, content_length, json, noise};

/// A line longer than this is no header.
const LINE: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct Headers {
    length: Option<usize>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Block,
    Body(usize),
    Skip {
        left: usize,
        unusable: Box<Unusable>,
    },
}

impl Headers {
    /// In the middle of a block that has given its length.
    pub(super) fn with_length(length: usize) -> Self {
        Self {
            length: Some(length),
            state: State::Block,
        }
    }

    pub(super) fn next(
        &mut self,
        buffer: &mut BytesMut,
        limits: FrameLimits,
        at_end: bool,
    ) -> Turn {
        loop {
            let turn = match std::mem::take(&mut self.state) {
                State::Block => self.block(buffer, limits, at_end),
                State::Body(length) => self.body(buffer, limits, length, at_end),
                State::Skip { left, unusable } => Some(self.skip(buffer, left, unusable, at_end)),
            };
            if let Some(turn) = turn {
                return turn;
            }
        }
    }

    fn block(&mut self, buffer: &mut BytesMut, limits: FrameLimits, at_end: bool) -> Option<Turn> {
        let end = memchr::memchr(b'\n', &buffer[..buffer.len().min(LINE)]);
        let whole = end.is_some() || buffer.len() >= LINE || (at_end && !buffer.is_empty());
        if !whole {
            return Some(Turn::More);
        }
        let line = buffer.split_to(end.unwrap_or(buffer.len().min(LINE)));
        if end.is_some() {
            buffer.advance(1);
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            if let Some(length) = self.length.take() {
                self.state = if length > limits.bytes {
                    too_large(length, limits)
                } else {
                    State::Body(length)
                };
            }
            return None;
        }
        if let Some(length) = content_length(line) {
            self.length = Some(length);
            return None;
        }
        if self.length.is_some()
            && line.len() > 12
            && line[..12].eq_ignore_ascii_case(b"content-type")
        {
            return None;
        }
        Some(Turn::Event(noise(line)))
    }

    fn body(
        &mut self,
        buffer: &mut BytesMut,
        limits: FrameLimits,
        length: usize,
        at_end: bool,
    ) -> Option<Turn> {
        if buffer.len() < length && !at_end {
            buffer.reserve(length - buffer.len());
            self.state = State::Body(length);
            return Some(Turn::More);
        }
        let body = buffer.split_to(length.min(buffer.len())).freeze();
        if body.is_empty() {
            return None;
        }
        Some(Turn::Event(match json::check(body, limits) {
            Ok(text) => FrameEvent::Message(text),
            Err(unusable) => FrameEvent::Unusable(unusable),
        }))
    }

    fn skip(
        &mut self,
        buffer: &mut BytesMut,
        left: usize,
        mut unusable: Box<Unusable>,
        at_end: bool,
    ) -> Turn {
        let gone = buffer.split_to(left.min(buffer.len()));
        let room = KEEP.saturating_sub(unusable.head.len());
        if room > 0 {
            unusable.head = [&unusable.head[..], &gone[..room.min(gone.len())]]
                .concat()
                .into();
        }
        let tail = [&unusable.tail[..], &gone[gone.len().saturating_sub(KEEP)..]].concat();
        unusable.tail = tail[tail.len().saturating_sub(KEEP)..].to_vec().into();
        let left = left - gone.len();
        if left > 0 && !at_end {
            self.state = State::Skip { left, unusable };
            return Turn::More;
        }
        Turn::Event(FrameEvent::Unusable(*unusable))
    }
}

fn too_large(length: usize, limits: FrameLimits) -> State {
    let unusable = Unusable::of(b"", json::too_large(limits));
    State::Skip {
        left: length,
        unusable: Box::new(unusable),
    }
}

//! The body of an answer: a document, or a stream of events.
//!
//! Promises: a stream that is quiet says so every 15 s, so that nothing between takes it for dead; when
//! nobody reads a modern stream any more, its request is given up.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::DropGuard;

use crate::outlet::Part;

/// How long a stream is quiet.
pub(crate) const QUIET: Duration = Duration::from_secs(15);

/// A comment, which readers leave out.
const PING: &[u8] = b": ping\n\n";

/// The body of an answer.
pub(crate) enum Body {
    /// All of it.
    Whole(Option<Bytes>),
    /// Events.
    Stream(Box<Events>),
}

/// What is sent one after the other.
pub(crate) struct Events {
    first: Option<Bytes>,
    parts: mpsc::Receiver<Part>,
    pings: Interval,
    ended: bool,
    /// Gives the request up when it goes.
    guard: Option<DropGuard>,
}

impl Body {
    pub(crate) fn whole(body: Bytes) -> Self {
        Self::Whole(Some(body).filter(|body| !body.is_empty()))
    }

    /// A stream that belongs to no request. Its first bytes tell that it is there.
    pub(crate) fn standing(parts: mpsc::Receiver<Part>) -> Self {
        Self::events(Bytes::from_static(PING), parts, None)
    }

    /// What is said until a request is answered, and the answer.
    pub(crate) fn answer(
        first: Option<Bytes>,
        parts: mpsc::Receiver<Part>,
        guard: Option<DropGuard>,
    ) -> Self {
        let first = match first {
            Some(message) => event(&message),
            None => Bytes::from_static(PING),
        };
        Self::events(first, parts, guard)
    }

    fn events(first: Bytes, parts: mpsc::Receiver<Part>, guard: Option<DropGuard>) -> Self {
        let mut pings = interval(QUIET);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.reset();
        Self::Stream(Box::new(Events {
            first: Some(first),
            parts,
            pings,
            ended: false,
            guard,
        }))
    }
}

fn event(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 32);
    out.put_slice(b"event: message\ndata: ");
    out.put_slice(message);
    out.put_slice(b"\n\n");
    out.freeze()
}

impl Events {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        match self.parts.poll_recv(cx) {
            Poll::Ready(Some(Part::Message(message))) => {
                self.pings.reset();
                Poll::Ready(Some(event(&message)))
            }
            Poll::Ready(Some(Part::End(reply))) => {
                self.ended = true;
                if let Some(guard) = self.guard.take() {
                    guard.disarm();
                }
                Poll::Ready(Some(event(&reply.body)))
            }
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let tick = self.pings.poll_tick(cx);
                tick.map(|_| Some(Bytes::from_static(PING)))
            }
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Stream(events) => events.poll(cx),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(events) => events.ended && events.first.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

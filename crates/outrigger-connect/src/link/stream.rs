//! Messages over a pair of byte streams.
//!
//! Promises: a message that nobody has begun to write can be taken back; a reader that is never
//! held up by the writer; a writer that gives up nothing half-written.
//! Leaves out: whose streams these are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf, Bytes, BytesMut};
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{Inbox, LinkEvent, Outgoing, Purpose};
use crate::frame::{FrameEvent, FrameReader};
use crate::rpc::Failure;
use crate::tap::Watch;

/// Bytes asked of a read at a time.
const CHUNK: usize = 32 * 1024;

/// Bytes of a message whose room is given back.
const LARGE: usize = 1 << 20;

/// Set once the other side is known to frame with `Content-Length`; the writer then does too.
pub(super) type HeaderFraming = Arc<AtomicBool>;

/// Reads until the stream ends, then says what ended it; `None` is an orderly end.
pub(super) async fn read_all(
    mut stream: impl AsyncRead + Unpin,
    mut frames: FrameReader,
    (framing, watch): (&HeaderFraming, &Watch),
    inbox: &dyn Inbox,
) -> Option<io::Error> {
    let end = loop {
        frames.buffer().reserve(CHUNK);
        match stream.read_buf(frames.buffer()).await {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error),
        }
        let mut large = false;
        while let Some(event) = frames.next() {
            framing.store(frames.uses_headers(), Ordering::Relaxed);
            large |= matches!(&event, FrameEvent::Message(text) if text.len() > LARGE);
            inbox.receive(incoming(event, watch));
        }
        // The buffer would keep the room that a large message took for as long as the link lives.
        if large && frames.buffer().is_empty() {
            *frames.buffer() = BytesMut::new();
        }
    };
    while let Some(event) = frames.finish() {
        inbox.receive(incoming(event, watch));
    }
    end
}

fn incoming(event: FrameEvent, watch: &Watch) -> LinkEvent {
    match &event {
        FrameEvent::Message(text) => watch.came(text),
        FrameEvent::Noise(line) => watch.came(line.as_bytes()),
        FrameEvent::Unusable(what) => watch.unusable(what),
    }
    match event {
        FrameEvent::Message(text) => LinkEvent::Frame { text, of: None },
        FrameEvent::Noise(line) => LinkEvent::Noise(line),
        FrameEvent::Unusable(what) => LinkEvent::Unusable { what, of: None },
    }
}

/// Says why nothing is taken any more, after it has waited a moment for a better answer.
pub(super) type Why = Box<dyn Fn(io::Error) -> BoxFuture<'static, String> + Send + Sync>;

/// Writes what is queued, one message after the other, until the queue is closed.
pub(super) async fn write_all(
    mut stream: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Outgoing>,
    (framing, watch): (HeaderFraming, Watch),
    (inbox, why): (Arc<dyn Inbox>, Why),
) {
    let mut known: Option<String> = None;
    while let Some(Outgoing {
        body,
        purpose,
        ticket,
    }) = queue.recv().await
    {
        if !ticket.begin() {
            continue;
        }
        watch.sent(&body);
        let result = write_one(&mut stream, body, framing.load(Ordering::Relaxed)).await;
        if let Err(failed) = result {
            watch.note(&format!("it could not be written: {}", failed.error));
            if failed.written == 0 {
                ticket.returned();
            }
            if let Purpose::Request(head) = purpose {
                let reason = match known.take() {
                    Some(reason) => reason,
                    None => why(failed.error).await,
                };
                known = Some(reason.clone());
                let failure = if failed.written == 0 {
                    Failure::NotSent(reason)
                } else {
                    Failure::Closed(reason)
                };
                inbox.receive(LinkEvent::Failed {
                    request: head.id,
                    failure,
                });
            }
        }
        ticket.handed_over();
    }
}

/// For a stream that nothing more is known of.
pub(super) fn not_taken(error: &io::Error) -> String {
    format!("the server does not take input any more ({error})")
}

struct WriteFailed {
    written: usize,
    error: io::Error,
}

async fn write_one(
    stream: &mut (impl AsyncWrite + Unpin),
    body: Bytes,
    headers: bool,
) -> Result<(), WriteFailed> {
    let (before, after) = if headers {
        (
            Bytes::from(format!("Content-Length: {}\r\n\r\n", body.len())),
            Bytes::new(),
        )
    } else {
        (Bytes::new(), Bytes::from_static(b"\n"))
    };
    let mut frame = before.chain(body).chain(after);
    let mut written = 0;
    while frame.has_remaining() {
        match stream.write_buf(&mut frame).await {
            Ok(0) => {
                return Err(WriteFailed {
                    written,
                    error: io::ErrorKind::WriteZero.into(),
                });
            }
            Ok(count) => written += count,
            Err(error) => return Err(WriteFailed { written, error }),
        }
    }
    stream
        .flush()
        .await
        .map_err(|error| WriteFailed { written, error })
}

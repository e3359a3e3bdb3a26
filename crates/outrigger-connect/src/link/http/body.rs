//! The body of a POST, which knows whether any of it was handed over.
//!
//! Promises: the first byte leaves only if nobody has withdrawn the message, and the length is known
//! before. A request whose head went out without its body has not been made.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::link::Ticket;

pub(super) struct TicketBody {
    bytes: Option<Bytes>,
    ticket: Arc<Ticket>,
}

/// The message was taken back before any of it was sent.
#[derive(Debug, thiserror::Error)]
#[error("withdrawn before it was sent")]
pub(super) struct Withdrawn;

impl TicketBody {
    pub(super) fn new(bytes: Bytes, ticket: Arc<Ticket>) -> Self {
        Self {
            bytes: Some(bytes),
            ticket,
        }
    }
}

impl Body for TicketBody {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withdrawn>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        if self.ticket.begin() {
            Poll::Ready(Some(Ok(Frame::data(bytes))))
        } else {
            Poll::Ready(Some(Err(Withdrawn)))
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

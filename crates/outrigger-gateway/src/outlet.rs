//! Where what concerns one client, or one request of it, is sent.
//!
//! Promises: bounded; what is only a hint is lost rather than waited for.

use bytes::Bytes;
use tokio::sync::mpsc;

/// Messages that wait for one reader.
const WAITING: usize = 128;

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// The whole message.
    pub(crate) body: Bytes,
    /// The code of an error.
    pub(crate) code: Option<i64>,
}

/// What goes out.
#[derive(Debug)]
pub(crate) enum Part {
    /// A notification, or a request of this side.
    Message(Bytes),
    /// The answer to a request.
    End(Reply),
}

/// A way to one client. Clones lead to the same place.
#[derive(Debug, Clone)]
pub(crate) struct Outlet(mpsc::Sender<Part>);

impl Outlet {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Part>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Sends something that may be lost; whether it was taken.
    pub(crate) fn hint(&self, message: Bytes) -> bool {
        self.0.try_send(Part::Message(message)).is_ok()
    }

    /// Sends a message; false when nobody reads any more.
    pub(crate) async fn put(&self, message: Bytes) -> bool {
        self.0.send(Part::Message(message)).await.is_ok()
    }

    /// Sends an answer.
    pub(crate) async fn end(&self, reply: Reply) {
        // Nobody may read it any more; then nobody misses it.
        let _ = self.0.send(Part::End(reply)).await;
    }

    /// When nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

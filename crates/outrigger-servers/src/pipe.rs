//! The byte streams as a transport of the SDK, with two repairs.
//!
//! Promises: an `initialize` is noted in the order of the stream, so that requests sent right behind
//! it without waiting are not refused; closing takes at most a second. Leaves out framing and
//! parsing, which are the SDK's: it skips lines that are not JSON, answers JSON that is no message
//! with "invalid request", and drops lines over 16 MiB.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Whether an `initialize` was received.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handshake(Arc<AtomicBool>);

impl Handshake {
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) struct Pipe<R: AsyncRead, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, R, W>,
    handshake: Handshake,
}

impl<R, W> Pipe<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(reader: R, writer: W, handshake: Handshake) -> Self {
        Self {
            inner: AsyncRwTransport::new_server(reader, writer),
            handshake,
        }
    }
}

impl<R, W> Transport<RoleServer> for Pipe<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.inner.receive().await?;
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::InitializeRequest(_))
        {
            self.handshake.0.store(true, Ordering::Release);
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // The inner close waits for a lock that a send holds for as long as nobody reads.
        timeout(CLOSE_LIMIT, self.inner.close())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

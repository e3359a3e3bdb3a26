//! Serves one built-in server over a pair of byte streams until end of file.
//!
//! Promises: newline-delimited JSON-RPC; both protocol eras in any order over the same pipe; requests
//! already received are answered before the end (for up to 5 s, the SDK's limit); closing is bounded
//! even when the other side has stopped reading. Leaves out where the streams come from.

use std::{path::PathBuf, sync::Arc};

use rmcp::service::{QuitReason, serve_directly_with_ct};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    task::JoinError,
};
use tokio_util::sync::CancellationToken;

use crate::{
    artifacts::ArtifactReader,
    built_in::BuiltIn,
    clock::{Clock, SystemClock},
    handler::Handler,
    pipe::Pipe,
    resources::Shelf,
    time::ZoneError,
    toolbox::Toolbox,
};

/// What the servers need from outside.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The folder that `workspace` shows. It may appear later: a missing one is a tool error.
    pub workspace: PathBuf,
    /// Where `time` gets the present moment from.
    pub clock: Arc<dyn Clock>,
    /// The zone that `time` uses when a call names none, as an IANA name; `None` is the system's.
    pub time_zone: Option<String>,
    /// What `resources` lists and reads; without one there is nothing.
    pub shelf: Option<Arc<dyn Shelf>>,
    /// Where `artifacts` reads.
    pub artifacts: Option<Arc<dyn ArtifactReader>>,
}

impl ServeOptions {
    /// Options for `workspace` with the system's clock and time zone.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            clock: Arc::new(SystemClock),
            time_zone: None,
            shelf: None,
            artifacts: None,
        }
    }
}

/// Why a server could not start, or ended before end of file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// [`ServeOptions::time_zone`] names no known zone.
    #[error("the default time zone is wrong: {0}")]
    TimeZone(#[source] ZoneError),
    /// The task that answers requests died.
    #[error("the server `{server}` stopped unexpectedly: {source}")]
    Stopped {
        /// Which server it was.
        server: BuiltIn,
        /// What the runtime says about it.
        source: JoinError,
    },
}

/// Serves `server` until `reader` is at its end; dropping the future ends it too.
pub async fn serve<R, W>(
    server: BuiltIn,
    options: ServeOptions,
    reader: R,
    writer: W,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let toolbox = Toolbox::new(server, options).map_err(ServeError::TimeZone)?;
    let (handler, handshake) = Handler::new(server, toolbox);
    // The SDK drops a last line that lacks its newline; `printf '{…}' | outrigger server` sends one.
    let reader = reader.chain(b"\n".as_slice());
    let pipe = Pipe::new(reader, writer, handshake);
    // Not the SDK's own handshake: that one settles on an era with the first request, then refuses
    // the other, and gives up when a notification comes first.
    let running = serve_directly_with_ct(handler, pipe, None, CancellationToken::new());
    match running.waiting().await {
        Ok(QuitReason::JoinError(source)) | Err(source) => {
            Err(ServeError::Stopped { server, source })
        }
        Ok(_) => Ok(()),
    }
}

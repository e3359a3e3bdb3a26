//! What a connection needs to know before it starts. Everything is resolved here: no variable is
//! left to expand, no path is relative, no default is looked up elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::DuplexStream;
use url::Url;

use crate::{OAuthSettings, ServerName};

/// One server, ready to be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its configured name.
    pub name: ServerName,
    /// How to reach it.
    pub transport: TransportSpec,
    /// Which protocol eras to try.
    pub protocol: Protocol,
    /// The protocol versions that may be spoken, as dates; `None`: all that are known here.
    pub versions: Option<Vec<String>>,
    /// How long each stage may take.
    pub deadlines: Deadlines,
    /// How much it may send.
    pub limits: Limits,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportSpec {
    /// A child process, spoken to over its standard input and output.
    Stdio(StdioSpec),
    /// Streamable HTTP, or what a server that does not speak it offers instead (HTTP+SSE).
    Http(HttpSpec),
    /// The deprecated HTTP+SSE transport of 2024-11-05, at the address of its event stream.
    Sse(HttpSpec),
    /// WebSocket (`ws`, `wss`), one message a text frame.
    WebSocket(HttpSpec),
    /// A server in this process, over a pipe.
    InProcess(InProcessSpec),
}

/// A child process.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// The program: an absolute path, or a name to look up in `PATH` of [`StdioSpec::env`].
    pub command: String,
    /// Its arguments, passed as they are; no shell is involved.
    pub args: Vec<String>,
    /// Its whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Its working folder, absolute.
    pub cwd: PathBuf,
    /// How messages are framed.
    pub framing: Framing,
}

/// An address and what is sent with each request to it.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// The endpoint.
    pub url: Url,
    /// Headers sent with every request to that origin, and to no other. Values may be secret.
    pub headers: Vec<(String, String)>,
    /// Files of certificates (PEM) whose authorities are trusted besides those of the system.
    pub ca_files: Vec<PathBuf>,
    /// How tokens are got where the server asks for one and the headers hold none. Not for
    /// WebSocket, whose headers are all that is sent.
    pub oauth: OAuthSettings,
}

impl HttpSpec {
    /// An address without headers, and with nothing said about signing in.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            headers: Vec::new(),
            ca_files: Vec::new(),
            oauth: OAuthSettings::default(),
        }
    }
}

/// A server in this process.
#[derive(Clone)]
pub struct InProcessSpec(pub Arc<dyn ServePipe>);

/// Whether it is the very same server.
impl PartialEq for InProcessSpec {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for InProcessSpec {}

/// Something that can serve MCP over a pipe.
pub trait ServePipe: Send + Sync {
    /// Serves until the other end of the pipe is closed.
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()>;

    /// Why it has ended, where it has words for that.
    fn farewell(&self) -> Option<String> {
        None
    }
}

/// How messages are framed on a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Decided by the first bytes received; newline until then.
    #[default]
    Auto,
    /// One JSON text a line (MCP, "stdio").
    Newline,
    /// `Content-Length: N`, an empty line, N bytes, as in the Language Server Protocol.
    ContentLength,
}

/// Which protocol eras to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Modern first, anything but a modern answer means legacy.
    #[default]
    Auto,
    /// `server/discover` and per-request metadata only (2026-07-28 and later).
    Modern,
    /// `initialize` only (2025-11-25 and earlier).
    Legacy,
}

/// How long each stage may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From the first byte to a server that is ready to list. Covers probing and a second start.
    pub start: Duration,
    /// For the answer to `server/discover` before `initialize` is tried as well.
    pub probe: Duration,
    /// For all pages of one listing.
    pub list: Duration,
    /// For one call; progress extends it.
    pub call: Duration,
    /// For one call, whatever its progress.
    pub call_hard: Duration,
    /// For the answer to a call that was given up, before whoever has nothing else to do ends.
    pub late: Duration,
    /// For closing, all steps together.
    pub close: Duration,
    /// How long nobody may use it before a gateway stops it, to start it again when somebody wants it;
    /// `None`: it stays. Connections know nothing of it.
    pub idle: Option<Duration>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            probe: Duration::from_secs(3),
            list: Duration::from_secs(30),
            call: Duration::from_mins(1),
            call_hard: Duration::from_mins(10),
            late: Duration::from_secs(2),
            close: Duration::from_secs(5),
            idle: Some(Duration::from_mins(30)),
        }
    }
}

/// How much a server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message.
    pub frame_bytes: usize,
    /// Nesting of one message's JSON.
    pub depth: usize,
    /// Tools of one server.
    pub tools: usize,
    /// Pages of one listing.
    pub pages: usize,
    /// Log and progress notifications, and lines that are no messages, that are kept of each
    /// second; those beyond are counted and dropped.
    pub notifications_per_second: u32,
    /// Calls under way at one time; further ones wait.
    pub concurrent_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 64 << 20,
            depth: 128,
            tools: 5000,
            pages: 500,
            notifications_per_second: 500,
            concurrent_calls: 16,
        }
    }
}

impl fmt::Debug for StdioSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioSpec")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("framing", &self.framing)
            .finish()
    }
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        // Path and parameters may be secret too.
        let origin = self.url.origin().ascii_serialization();
        f.debug_struct("HttpSpec")
            .field("origin", &origin)
            .field("headers", &names)
            .field("ca_files", &self.ca_files)
            .field("oauth", &self.oauth)
            .finish()
    }
}

impl fmt::Debug for InProcessSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessSpec")
    }
}

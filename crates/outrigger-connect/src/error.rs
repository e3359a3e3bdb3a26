//! What can go wrong with a connection, worded for a person and kept apart by what is known to
//! have happened.

use std::fmt;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::ServerName;

/// The stages of a connection's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Starting the process or opening the connection.
    Start,
    /// Agreeing on a protocol era and version.
    Handshake,
    /// Listing what the server offers.
    List,
    /// A tool call.
    Call,
    /// Ending.
    Close,
}

/// A server that could not be connected to.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// Which server.
    pub server: ServerName,
    /// How far it came.
    pub stage: Stage,
    /// What kind of failure it was.
    pub kind: ConnectErrorKind,
    /// One sentence with the particulars: command, status, what was received.
    pub message: String,
    /// The last lines of the server's standard error, oldest first, at most 20.
    pub stderr_tail: Vec<String>,
    /// What a person could do about it.
    pub hints: Vec<String>,
}

/// The kinds of [`ConnectError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectErrorKind {
    /// The program does not exist or cannot be executed, or the process ended before it answered.
    StartupFailed,
    /// No answer in time.
    Timeout,
    /// The connection ended in the middle.
    Closed,
    /// The host could not be reached (name, route, refused, TLS).
    Unreachable,
    /// An HTTP answer that is not MCP; the message names status and content type.
    HttpError,
    /// The server wants credentials (401), or has refused the ones it got (403).
    AuthRequired,
    /// No protocol version that both sides speak.
    VersionMismatch,
    /// The server answered the handshake with a JSON-RPC error.
    RpcError,
    /// The server answered with something that is not the protocol.
    BadResult,
    /// The caller gave up.
    Cancelled,
}

/// A listing that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ListError {
    /// The connection has ended.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// No answer in time.
    #[error("no answer to `{method}` within {}", Seconds(*after))]
    Timeout {
        /// The method.
        method: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// A JSON-RPC error.
    #[error("the server answered `{method}` with error {code}: {message}")]
    Rpc {
        /// The method.
        method: &'static str,
        /// JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
    },
    /// An HTTP answer that is not MCP.
    #[error("{message}")]
    Http {
        /// The method.
        method: &'static str,
        /// The HTTP status.
        status: u16,
        /// Status, content type and the first words of the body.
        message: String,
    },
    /// An answer that is not a listing.
    #[error("the answer to `{method}` cannot be used: {reason}")]
    Malformed {
        /// The method.
        method: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// A `tools/call` without a result. Each variant says what is known about its effect.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// Nothing of this call left the process.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The server answered with a JSON-RPC error.
    #[error("the server answered with error {code}: {message}")]
    Rpc {
        /// JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
        /// The error's `data`, as it came.
        data: Option<Box<RawValue>>,
    },
    /// Answered with an HTTP status instead of a result.
    #[error("{message}")]
    Http {
        /// The HTTP status.
        status: u16,
        /// The status says that the call was turned away before it ran (401, 403, 404, 405, 413,
        /// 429 …). Otherwise its effect is unknown.
        refused: bool,
        /// Status, content type and the first words of the body.
        message: String,
    },
    /// Sent, and no answer in time. The server was told to cancel.
    #[error("no answer within {}", Seconds(*after))]
    Deadline {
        /// How long was waited.
        after: Duration,
    },
    /// Sent, and the connection ended before the answer.
    #[error("the connection ended before the answer: {0}")]
    Closed(String),
    /// Sent, and the caller gave up. The server was told to cancel.
    #[error("cancelled before the answer")]
    Cancelled,
    /// Answered, and with no result yet: the server wants input that nobody gives, or has given up
    /// the task that it made of the call. What it has done by then is not known.
    #[error("the call was not finished: {0}")]
    Unfinished(String),
    /// Answered with something that is not a result (unparsable, too large, too deep).
    #[error("the answer cannot be used: {0}")]
    Malformed(String),
}

/// A duration as a person reads it: `0.4 s`, `12 s`.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0.as_secs_f64();
        if secs < 10.0 {
            write!(f, "{secs:.1} s")
        } else {
            write!(f, "{secs:.0} s")
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Handshake => "handshake",
            Self::List => "list",
            Self::Call => "call",
            Self::Close => "close",
        })
    }
}

//! The connection itself. (Skeleton: the signatures that other crates build on.)
#![allow(clippy::todo, clippy::unused_async, unused_variables, missing_docs, reason = "skeleton, replaced in the next commits")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{CallError, ConnectError, ListError, ServerName, ServerSpec};

/// Makes connections. Holds what they share: the client's name, the supervisor program, HTTP pools.
#[derive(Debug, Clone)]
pub struct Connector {}

impl Connector {
    /// `supervisor`: program and leading arguments that run [`outrigger_sandbox`]'s supervisor
    /// (normally this binary and its hidden subcommand); without it children are started directly.
    pub fn new(client_version: &str, supervisor: Option<Vec<std::ffi::OsString>>) -> Self {
        todo!()
    }

    /// Connects, agrees on an era, and returns a connection that is ready to list.
    pub async fn connect(&self, spec: &ServerSpec, cancel: &CancellationToken) -> Result<Connection, ConnectError> {
        todo!()
    }
}

/// A live connection; clones share it.
#[derive(Debug, Clone)]
pub struct Connection {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28 and later.
    Modern,
    /// 2025-11-25 and earlier.
    Legacy,
}

/// What the server said about itself.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    pub era: Era,
    pub protocol_version: String,
    /// `serverInfo.name` and `.version`, where given.
    pub name: Option<String>,
    pub version: Option<String>,
    pub instructions: Option<String>,
    pub capabilities: Option<Box<RawValue>>,
    pub timings: Timings,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    pub start: Duration,
    pub handshake: Duration,
}

/// All pages of `tools/list`, each tool as it came.
#[derive(Debug)]
pub struct ToolListing {
    pub tools: Vec<Box<RawValue>>,
    pub pages: usize,
    /// Why the listing is not whole (limit reached, cursor repeated), for a person.
    pub problems: Vec<String>,
    pub took: Duration,
}

/// A progress notification of a call.
#[derive(Debug, Clone)]
pub struct Progress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// How one call is to be made.
pub struct CallOptions {
    pub cancel: CancellationToken,
    /// Overrides the server's deadline.
    pub deadline: Option<Duration>,
    pub on_progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Called once with the answer to a call that was given up on (deadline, cancel), if it still comes.
    pub on_late: Option<Box<dyn FnOnce(Result<Box<RawValue>, CallError>) + Send>>,
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub struct CloseReport {
    pub took: Duration,
    /// Exit status or signal of the process, in words.
    pub exit: Option<String>,
    /// Steps beyond closing its input that were needed: `terminated`, `killed`.
    pub forced: Option<&'static str>,
}

impl Connection {
    pub fn server(&self) -> &ServerName {
        todo!()
    }

    pub fn peer(&self) -> &PeerInfo {
        todo!()
    }

    /// All pages of `tools/list`.
    pub async fn list_tools(&self) -> Result<ToolListing, ListError> {
        todo!()
    }

    /// Sends one `tools/call`, once. `arguments` go out byte for byte; the result comes back byte for byte.
    pub async fn call_tool(&self, tool: &str, arguments: &RawValue, options: CallOptions) -> Result<Box<RawValue>, CallError> {
        todo!()
    }

    /// Counts up whenever the server says that its tools have changed.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        todo!()
    }

    /// `None` while the connection lives, then why it ended.
    pub fn ended(&self) -> watch::Receiver<Option<String>> {
        todo!()
    }

    /// The last lines of the server's standard error and of what else it printed.
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        todo!()
    }

    /// Ends the connection in order, within the close deadline whatever the server does. Idempotent.
    pub async fn close(&self) -> CloseReport {
        todo!()
    }
}

//! One live connection to one MCP server: start, agree on a protocol era, stay alive, end.
//!
//! [`Connector::connect`] turns a [`ServerSpec`] into a [`Connection`]. A connection moves raw JSON:
//! what a server sent is handed on byte for byte, so nothing is lost to a typed model of the
//! protocol. It knows neither policy nor models, and it never sends a `tools/call` twice.

mod connection;
mod error;
mod name;
mod spec;

pub use connection::{CallOptions, CloseReport, Connection, Connector, Era, PeerInfo, Progress, Timings, ToolListing};
pub use error::{CallError, ConnectError, ConnectErrorKind, ListError, Stage};
pub use name::{InvalidServerName, ServerName};
pub use spec::{
    Deadlines, Framing, HttpSpec, InProcessSpec, Limits, Protocol, ServePipe, ServerSpec, StdioSpec, TransportSpec,
};

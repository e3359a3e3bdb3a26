//! One live connection to one MCP server: start, agree on a protocol era, stay alive, end.
//!
//! [`Connector::connect`] turns a [`ServerSpec`] into a [`Connection`]. A connection moves raw JSON:
//! what a server sent is handed on byte for byte, so nothing is lost to a typed model of the
//! protocol. It knows neither policy nor models, and it never sends a `tools/call` twice.

mod call;
mod connection;
mod connector;
mod desk;
mod eras;
mod error;
mod frame;
mod handlers;
mod handshake;
mod link;
mod listening;
mod listing;
mod name;
mod oauth;
mod rpc;
mod spec;
mod subscribing;
mod tap;
mod text;
mod trace;
pub mod wire;

pub use call::{Completions, Reference};
pub use connection::{
    CallOptions, CloseReport, Connection, Era, Listing, MaySend, Offer, OnLate, OnProgress, OnSent,
    PeerInfo, Progress, SignedOff, Timings, ToolListing,
};
pub use connector::Connector;
pub use eras::EraCache;
pub use error::{CallError, ConnectError, ConnectErrorKind, ListError, Stage};
pub use handlers::{
    Asker, Elicitation, ElicitationAnswer, ElicitationHandler, Handlers, OnLogged, OnRefused,
    Refusal, Root, RootsHandler, SamplingHandler,
};
pub use handshake::PROTOCOL_VERSIONS;
pub use name::{InvalidServerName, ServerName};
pub use oauth::{
    AuthorizationHandler, Description, FileTokens, KeySource, LoginMark, MemoryTokens, OAuth,
    OAuthError, OAuthFlow, OAuthSettings, Secret, SignInReason, SignedIn, SignedOut, StoreError,
    TokenLock, TokenStore, Visit, VisitError,
};
pub use outrigger_sandbox::Process;
pub use rpc::Updates;
pub use spec::{
    Deadlines, Framing, HttpSpec, InProcessSpec, Limits, Protocol, ServePipe, ServerSpec,
    StdioSpec, TransportSpec,
};
pub use subscribing::Followed;
pub use tap::{Crossing, Direction, HttpPart, Tap};
pub use trace::TraceContext;

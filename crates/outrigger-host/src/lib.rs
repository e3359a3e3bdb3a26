//! From configuration to one finished `tools/call`: catalog, names, schemas, policy, toolset,
//! pipeline.
//!
//! [`Host::start`] brings up the servers of a [`config::Config`]; [`Host::toolset`] freezes what may
//! be used; [`Host::call`] is the only road to a tool, and every call on it ends in exactly one
//! [`outcome::CallOutcome`]. Nothing here knows a model, a terminal or the environment.

pub mod approve;
mod arguments;
pub mod artifact;
pub mod catalog;
pub mod config;
mod digest;
pub mod discovery;
pub mod grants;
pub mod hidden;
pub mod hooks;
mod host;
mod kept_file;
mod name;
pub mod offers;
pub mod outcome;
pub mod pins;
mod pipeline;
pub mod policy;
mod preview;
pub mod questions;
pub mod result;
pub mod review;
mod schema;
mod shared_texts;
mod text;
pub mod tokens;
pub mod toolset;
mod traces;
pub mod words;

pub use digest::Digest;
pub use host::{
    Builtin, Failure, FailureKind, Host, InUse, Parts, Ready, ServerState, ServerStatus, Succeeded,
    Successor, Upkeep, Upstreams, WeakHost,
};
pub use kept_file::KeptFileError;
pub use name::ToolName;
pub use pipeline::{
    CallContext, CallReport, KeptCall, LateNote, Permit, ProposedCall, Repeat, RepeatKey, Retold,
    SAME_IS_UNKNOWN,
};
pub use preview::Preview;
pub use schema::{Schema, UnusableSchema, Violation};
pub use shared_texts::{ChangeText, SharedText, SharedTexts};
pub use traces::Traces;

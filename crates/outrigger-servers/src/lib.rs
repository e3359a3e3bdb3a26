//! The built-in MCP servers: `time`, `echo` and `workspace`, over any pair of byte streams, and
//! `resources` and `artifacts`, for a host that has other servers.
//!
//! Promises: each speaks both protocol eras over one pipe, answers every request it can parse, reads
//! and never writes, and ends at end of file. What a model did wrong comes back as a tool error that
//! says what was wrong and what would work. Leaves out: starting processes, policy, and everything
//! else a host does; this crate does not know that there is one.

mod arguments;
mod artifacts;
mod built_in;
mod clock;
mod echo;
mod handler;
mod pipe;
mod resources;
mod serve;
mod time;
mod tool;
mod toolbox;
mod workspace;

pub use artifacts::{Artifact, ArtifactReader};
pub use built_in::{BuiltIn, UnknownBuiltIn};
pub use clock::{Clock, FixedClock, SystemClock};
pub use resources::{Reading, Shelf};
pub use serve::{ServeError, ServeOptions, serve};
pub use time::ZoneError;

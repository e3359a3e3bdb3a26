//! Serves the governed catalog as an MCP server, in both eras, to any other host.
//!
//! Promises: each call of a client passes [`Host::call`](outrigger_host::Host::call) and nothing else;
//! what a server answered goes on byte for byte; a listing is answered at once from what is known,
//! whatever servers do, and whoever has listed is told when it changes; what belongs to one client
//! (its calls, its questions, its progress) reaches no other, and what belongs to one principal (its
//! servers, sessions, artifacts) no other one.
//! Leaves out: models, the terminal and the environment. This crate listens, and besides the redirect
//! of a login nothing else does.

mod activity;
mod answer;
mod approval;
mod auth;
mod changes;
mod client;
mod clients;
mod flight;
mod front;
mod gateway;
mod http;
mod listen;
mod message;
mod metrics;
mod names;
mod outlet;
mod parked;
mod pipe;
mod reason;
mod renew;
mod room;
mod session;
mod slots;
mod tasks;
mod tenant;
mod view;
mod web;

pub use activity::Activity;
pub use approval::Approvers;
pub use auth::{Token, TokenError};
pub use clients::Clients;
pub use gateway::{Gateway, Naming, Record, Settings};
pub use listen::{ListenError, Listener};
pub use renew::Renewed;
pub use tenant::{End, Identity, Keeper, Tenant};

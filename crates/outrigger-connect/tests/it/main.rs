//! Connections against scripted servers: in this process, on loopback sockets, and as children.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod eras;
mod faults;
mod http;
mod oauth;
mod offers;
mod older;
mod older_tasks;
mod peer;
mod process;
mod questions;
mod rounds;
mod tls;
mod web;
mod websocket;
mod wire;

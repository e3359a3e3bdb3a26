//! The host from outside: configuration from files, and calls through the whole pipeline.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod config;
mod discovery;
mod docs;
mod hooks;
mod lab;
mod pipeline;
mod policy;
mod results;
mod sharing;
mod unknown;

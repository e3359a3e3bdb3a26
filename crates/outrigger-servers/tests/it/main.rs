//! The servers as a client sees them: raw JSON-RPC lines over a pipe, in both protocol eras.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod client;
mod eras;
mod faults;
mod tools;

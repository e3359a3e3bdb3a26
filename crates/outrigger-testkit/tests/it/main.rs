//! The testkit's own programs, as other crates' tests use them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod scripted_model;

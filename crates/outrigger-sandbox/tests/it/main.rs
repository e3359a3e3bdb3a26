//! The sandbox with real processes: shells and Python programs that behave well and badly.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod end;
mod gone;
mod refuse;
mod talk;
mod world;

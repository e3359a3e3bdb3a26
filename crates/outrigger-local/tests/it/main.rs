//! The local model with real weights: `SmolLM2`, small enough for tests and too weak to be useful, so
//! that what holds here holds whatever the weights say.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod embedding;
mod pull;
mod real;

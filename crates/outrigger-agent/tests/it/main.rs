//! Tests of the agent against real HTTP servers and scripted models.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod agent_loop;
mod provider_choice;
mod provider_formats;
mod provider_play;
mod provider_schemas;
mod provider_suite;
mod steady;

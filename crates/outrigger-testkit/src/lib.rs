//! What tests play against: a scripted model provider over real HTTP.
//!
//! Used by tests only; nothing here is part of the program.

pub mod headless;
pub mod provider_server;
pub mod replay;

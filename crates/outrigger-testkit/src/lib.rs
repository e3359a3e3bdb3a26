//! What tests play against: a scripted model provider over real HTTP, gateways in places of their own, and
//! the law of compiled schemas.
//!
//! Used by tests only; nothing here is part of the program.

pub mod bucket;
pub mod gateway;
pub mod headless;
pub mod instances;
#[cfg(unix)]
pub mod postgres;
pub mod provider_server;
pub mod replay;
pub mod schema_law;

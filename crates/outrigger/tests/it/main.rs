//! The program from outside: the built binary, real and scripted servers, a scripted model over real
//! HTTP. What a person or a script sees is what is asserted: output, exit code, journal.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests start programs, and may fail"
)]

mod accidents;
mod artifacts;
mod asking;
mod attacks;
mod audit;
mod bad_calls;
mod bad_config;
mod bad_journal;
mod bad_models;
mod bad_servers;
mod bank;
mod chat;
mod collector;
mod declared;
mod embeddings;
mod eras;
mod gate;
mod gateway;
mod handing_on;
mod hooks;
mod hosts;
mod inspect;
mod interrupt;
mod killed;
mod layers;
mod lazy;
mod limits;
mod login;
mod model;
mod offers;
mod pins;
mod place;
mod policy;
mod profiles;
mod provider_search;
mod providers;
mod proxies;
mod reading;
mod real;
mod references;
mod refusal;
mod release;
mod replay;
#[cfg(feature = "postgres")]
mod replicas;
mod resume;
mod scripted;
mod secrets;
mod servers;
mod single;
mod telemetry;
mod terminal;
mod trust;
mod wire;

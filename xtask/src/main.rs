//! The project's own chores, run as `cargo xtask CHORE`: install what tests need, run them, check
//! what the house wants checked, run the suites over a folder of shared cases.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "chores start programs, read the environment and talk"
)]

mod browser;
mod check;
mod clients;
mod conformance;
mod debian;
mod gateway;
mod load;
mod postgres;
mod retrieval;
mod servers;
mod shared;
mod steps;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask CHORE
  test [ARG...]   install the servers, clients, browser and database that tests need, then run all tests (ARGs go to `cargo test`)
  check           formatting, lints, documentation, dependencies
  servers         only install the servers and clients
  conformance     the official conformance suite: the connection as a client, the gateway as a server
  load [SECONDS]  many clients before a gateway whose servers are killed, hang and flood (default 20 s)
  shared          the suites over the shared cases (OUTRIGGER_SHARED, default ../shared)";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let chore = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let done = match chore.as_str() {
        "test" => installed()
            .and_then(|()| browser::install())
            .and_then(|()| steps::test(&rest)),
        "check" => check::all(),
        "servers" => installed(),
        "conformance" => conformance::all(),
        "load" => load::run_for(rest.first()),
        "shared" => shared::all(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What tests need of other people's.
fn installed() -> Result<(), String> {
    servers::install()?;
    postgres::install()?;
    clients::install()
}

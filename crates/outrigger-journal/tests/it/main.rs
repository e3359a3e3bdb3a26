//! The journal against real files, real processes and a real full disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests; some start this very program again as the process that is killed"
)]

mod approvals;
mod artifacts;
mod audit;
#[cfg(feature = "postgres")]
mod bucket;
mod calls;
mod crash;
mod files;
mod leases;
mod load;
mod memory;
mod migration;
mod order;
#[cfg(feature = "postgres")]
mod postgres;
mod process;
mod runs;
mod setup;
mod sharing;
mod unknown;

//! The supervisor as a program of its own, for the tests of this crate only: in the product it is
//! a hidden subcommand of `outrigger`.

use std::process::ExitCode;

fn main() -> ExitCode {
    outrigger_sandbox::supervisor::run(std::env::args_os().skip(1))
}

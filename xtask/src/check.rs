//! What must hold besides the tests.

use std::process::Command;

use crate::steps::cargo;

const DENY: &str = "0.20.2";

pub(crate) fn all() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--features", "outrigger/local", "--", "-D", "warnings"])?;
    documentation()?;
    dependencies()
}

/// Documentation of all crates, where a broken link is an error.
fn documentation() -> Result<(), String> {
    let words = ["doc", "--workspace", "--no-deps", "--document-private-items", "--features", "outrigger/local"];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!("$ RUSTDOCFLAGS=-Dwarnings cargo {}", words.join(" "));
    let status = Command::new(cargo).args(words).env("RUSTDOCFLAGS", "-Dwarnings").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo doc` ended with {status}")),
        Err(error) => Err(format!("`cargo doc` cannot be run: {error}")),
    }
}

/// Licences, sources and bans of all dependencies. The advisory database is not in a package
/// registry; `cargo deny check advisories` asks it where it can be reached.
fn dependencies() -> Result<(), String> {
    let there = Command::new("cargo").args(["deny", "--version"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        // Unoptimised: it is compiled in a fraction of the time, and runs for a second.
        cargo(&["install", "cargo-deny", "--version", DENY, "--locked", "--debug", "--no-default-features"])?;
    }
    cargo(&["deny", "--all-features", "check", "bans", "licenses", "sources"])
}

//! What must hold besides the tests.

use std::path::Path;
use std::process::Command;

use crate::steps::{FEATURES, cargo, run, target};

const DENY: &str = "0.20.2";

pub(crate) fn all() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        FEATURES,
        "--",
        "-D",
        "warnings",
    ])?;
    documentation()?;
    dependencies()
}

/// Documentation of all crates, where a broken link is an error.
fn documentation() -> Result<(), String> {
    let words = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--features",
        FEATURES,
    ];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!("$ RUSTDOCFLAGS=-Dwarnings cargo {}", words.join(" "));
    let status = Command::new(cargo)
        .args(words)
        .env("RUSTDOCFLAGS", "-Dwarnings")
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo doc` ended with {status}")),
        Err(error) => Err(format!("`cargo doc` cannot be run: {error}")),
    }
}

/// Licences, sources and bans of all dependencies. The advisory database is not in a package
/// registry; `cargo deny check advisories` asks it where it can be reached.
fn dependencies() -> Result<(), String> {
    let tools = target().join("tools");
    let deny = tools.join("bin/cargo-deny");
    let there = Command::new(&deny).arg("--version").output();
    let wanted =
        |output: std::process::Output| output.stdout.trim_ascii_end().ends_with(DENY.as_bytes());
    if !there.is_ok_and(wanted) {
        install(&tools)?;
    }
    let words = ["--all-features", "check", "bans", "licenses", "sources"];
    run(deny, &words)
}

/// Into the project's own folder, and unoptimised: it is compiled in a fraction of the time, and
/// runs for a few seconds.
fn install(tools: &Path) -> Result<(), String> {
    let tools = tools.display().to_string();
    let words = ["install", "cargo-deny", "--version", DENY, "--root", &tools];
    let lean = [
        "--locked",
        "--debug",
        "--no-default-features",
        "--config",
        "profile.dev.debug=false",
    ];
    cargo(&[words.as_slice(), &lean].concat())
}

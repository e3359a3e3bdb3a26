//! Running programs, one after the other, each said before it runs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// What tests need is installed here, and nowhere else.
pub(crate) fn test_folder() -> PathBuf {
    root().join(".outrigger-test")
}

/// Runs a program in the workspace's folder; a failure names it.
pub(crate) fn run<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: &[A],
) -> Result<(), String> {
    run_in(&root(), program, arguments)
}

/// Runs a program in a folder; a failure names it.
pub(crate) fn run_in<A: AsRef<OsStr>>(
    folder: &Path,
    program: impl AsRef<OsStr>,
    arguments: &[A],
) -> Result<(), String> {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.as_ref().to_string_lossy())
        .collect();
    let line = format!("{} {}", program.as_ref().to_string_lossy(), words.join(" "));
    eprintln!("$ {line}");
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("`{line}` cannot be run: {error}")),
    }
}

/// Cargo, as it runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(cargo, arguments)
}

/// What tests are built with: whatever needs no service of the machine.
pub(crate) const FEATURES: &str = "outrigger/local,outrigger/postgres";

/// What `cargo` is told to test everything, the local model among it. Whatever else wants built
/// programs says the same: other features of the dependencies would build them all once more.
pub(crate) fn test_words() -> [&'static str; 4] {
    ["test", "--workspace", "--features", FEATURES]
}

/// All tests of the workspace.
pub(crate) fn test(rest: &[String]) -> Result<(), String> {
    let mut words = test_words().to_vec();
    words.extend(rest.iter().map(String::as_str));
    cargo(&words)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |target| root().join(target))
}

/// A program of the workspace that [`test_words`] have built.
pub(crate) fn built(name: &str) -> OsString {
    target().join("debug").join(name).into()
}

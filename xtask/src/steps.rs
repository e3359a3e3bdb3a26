//! Running programs, one after the other, each said before it runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// What tests need is installed here, and nowhere else.
pub(crate) fn test_folder() -> PathBuf {
    root().join(".outrigger-test")
}

/// Runs a program in the workspace's folder; a failure names it.
pub(crate) fn run<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[A]) -> Result<(), String> {
    run_in(&root(), program, arguments)
}

/// Runs a program in a folder; a failure names it.
pub(crate) fn run_in<A: AsRef<OsStr>>(
    folder: &Path,
    program: impl AsRef<OsStr>,
    arguments: &[A],
) -> Result<(), String> {
    let words: Vec<_> = arguments.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    let line = format!("{} {}", program.as_ref().to_string_lossy(), words.join(" "));
    eprintln!("$ {line}");
    let status = Command::new(program).args(arguments).current_dir(folder).status();
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

/// All tests of the workspace, the local model's among them.
pub(crate) fn test(rest: &[String]) -> Result<(), String> {
    let mut words = vec!["test", "--workspace", "--features", "outrigger/local"];
    words.extend(rest.iter().map(String::as_str));
    cargo(&words)
}

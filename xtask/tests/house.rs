//! The house rules that can be counted. There is no list of exceptions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const LINES: usize = 600;

/// Which crates a crate may use. What is not here may use none of ours.
const ARROWS: [(&str, &[&str]); 13] = [
    ("outrigger-sandbox", &[]),
    ("outrigger-journal", &[]),
    ("outrigger-model", &[]),
    ("outrigger-search", &[]),
    ("outrigger-servers", &[]),
    ("outrigger-schemas", &[]),
    ("outrigger-connect", &["outrigger-sandbox"]),
    (
        "outrigger-host",
        &["outrigger-connect", "outrigger-journal", "outrigger-search"],
    ),
    (
        "outrigger-agent",
        &[
            "outrigger-host",
            "outrigger-journal",
            "outrigger-model",
            "outrigger-schemas",
        ],
    ),
    (
        "outrigger-gateway",
        &["outrigger-connect", "outrigger-host", "outrigger-journal"],
    ),
    ("outrigger-local", &["outrigger-model"]),
    (
        "outrigger",
        &[
            "outrigger-agent",
            "outrigger-connect",
            "outrigger-gateway",
            "outrigger-host",
            "outrigger-journal",
            "outrigger-local",
            "outrigger-model",
            "outrigger-sandbox",
            "outrigger-schemas",
            "outrigger-servers",
        ],
    ),
    (
        "outrigger-testkit",
        &[
            "outrigger-connect",
            "outrigger-host",
            "outrigger-journal",
            "outrigger-local",
            "outrigger-sandbox",
            "outrigger-schemas",
            "outrigger-search",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                walk(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("crates"), &mut found);
    walk(&root().join("xtask"), &mut found);
    assert!(found.len() > 100, "the sources were not found");
    found
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|path| (fs::read_to_string(&path).unwrap().lines().count(), path))
        .filter(|(lines, _)| *lines > LINES)
        .collect();
    assert!(long.is_empty(), "over {LINES} lines: {long:?}");
}

#[test]
fn every_file_opens_with_what_it_promises() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|path| {
            !fs::read_to_string(path)
                .unwrap()
                .trim_start()
                .starts_with("//!")
        })
        .collect();
    assert!(silent.is_empty(), "no `//!` at the top: {silent:?}");
}

#[test]
fn no_module_hides_behind_mod_rs_and_none_is_a_drawer() {
    let banned = [
        "mod.rs",
        "util.rs",
        "utils.rs",
        "helper.rs",
        "helpers.rs",
        "common.rs",
        "misc.rs",
        "types.rs",
    ];
    let bad: Vec<_> = sources()
        .into_iter()
        .filter(|path| banned.contains(&path.file_name().unwrap().to_str().unwrap()))
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}

/// The dependencies that a crate ships with.
fn dependencies(folder: &Path) -> (String, Vec<String>) {
    let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let name = manifest["package"]["name"].as_str().unwrap().to_owned();
    let table = manifest
        .get("dependencies")
        .and_then(|table| table.as_table())
        .cloned()
        .unwrap_or_default();
    (name, table.keys().cloned().collect())
}

fn crates() -> BTreeMap<String, Vec<String>> {
    fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| dependencies(&entry.unwrap().path()))
        .collect()
}

#[test]
fn arrows_point_one_way() {
    let allowed: BTreeMap<_, _> = ARROWS.into_iter().collect();
    for (name, uses) in crates() {
        let may = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("`{name}` has no place in the arrows"));
        for used in uses.iter().filter(|used| used.starts_with("outrigger")) {
            assert!(
                may.contains(&used.as_str()),
                "`{name}` must not use `{used}`"
            );
        }
    }
}

#[test]
fn the_sdk_stays_in_its_room() {
    for (name, uses) in crates() {
        let may = name == "outrigger-servers";
        assert!(
            may || !uses.contains(&"rmcp".to_owned()),
            "`{name}` must not use `rmcp`"
        );
    }
}

#[test]
fn nothing_listens_but_the_gateway_and_tests() {
    // RFC 8252: the redirect of a page to sign in on is received on loopback, by the command line.
    let login = Path::new("crates/outrigger/src/loopback.rs");
    let gateway = Path::new("crates/outrigger-gateway/src/listen.rs");
    assert!(root().join(login).is_file() && root().join(gateway).is_file());
    for path in sources() {
        if path.ends_with(login) || path.ends_with(gateway) {
            continue;
        }
        let shown = path.display().to_string();
        let tests = shown.contains("/tests/")
            || shown.contains("outrigger-testkit")
            || shown.contains("/benches/");
        let test_module = shown.ends_with("tests.rs") || shown.contains("xtask");
        if tests || test_module {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let shipped = text.split("#[cfg(test)]").next().unwrap();
        for listener in ["TcpListener", "UnixListener"] {
            assert!(!shipped.contains(listener), "{shown} listens");
        }
    }
}

#[test]
fn the_short_documents_are_short() {
    for (name, lines) in [("ARCHITECTURE.md", 250), ("CONTRIBUTING.md", 120)] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        assert!(
            text.lines().count() <= lines,
            "{name} has more than {lines} lines"
        );
    }
}

//! `import` and `install` with the files of other hosts as those hosts write them: comments, trailing
//! commas, byte order marks, keys of their own, variables each in its own way.

mod import;
mod install;

use std::fs;

use crate::place::{Place, fixture};

/// Where each host keeps its list in a place, and the list of a real one.
const FILES: [(&str, &str, &str); 8] = [
    ("claude", "home/.claude.json", "claude.json"),
    (
        "claude-desktop",
        "config/Claude/claude_desktop_config.json",
        "claude_desktop_config.json",
    ),
    ("codex", "home/.codex/config.toml", "codex.toml"),
    ("vscode", "config/Code/User/mcp.json", "vscode.json"),
    ("cursor", "home/.cursor/mcp.json", "cursor.json"),
    ("gemini", "home/.gemini/settings.json", "gemini.json"),
    (
        "opencode",
        "config/opencode/opencode.jsonc",
        "opencode.jsonc",
    ),
    ("zed", "config/zed/settings.json", "zed.json"),
];

/// Secrets that stand in those lists.
const SECRETS: [&str; 4] = [
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "0f3c9a7be15d2846aa",
    "s3cr3t-of-the-client",
    "abcdefgh12345678",
];

/// A place where these hosts have been used.
fn used(hosts: &[&str]) -> Place {
    let place = Place::new();
    for (host, path, name) in FILES {
        if hosts.contains(&host) {
            let text = fs::read(fixture(&format!("hosts/{name}"))).unwrap();
            let workspace = place.project().display().to_string();
            // Only one of them has the mark, and not all are UTF-8 by nature.
            let text = String::from_utf8(text).unwrap();
            place.write(path, text.replace("@WORKSPACE@", &workspace));
        }
    }
    place
}

fn ours(place: &Place) -> String {
    let file = place.root.join("config/outrigger/outrigger.toml");
    place.tidy(&fs::read_to_string(file).unwrap_or_default())
}

#[test]
fn lists_of_what_happened_need_no_further_word() {
    let place = Place::new();
    place.run(&["call", "time", "current_time"]);
    for list in ["runs", "artifacts", "grants"] {
        assert_eq!(
            place.json(&[list, "--json"]),
            place.json(&[list, "list", "--json"]),
            "{list}"
        );
    }
    assert_eq!(
        place
            .json(&["runs", "--json", "-n", "1"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(place.run(&["runs", "--json", "unknown"]).code, 2);
}

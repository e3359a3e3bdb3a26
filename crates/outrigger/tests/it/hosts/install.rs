//! The entry that leads another host here.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{FILES, SECRETS, used};
use crate::place::Place;

#[test]
fn the_entry_is_put_in_and_taken_out_and_nothing_else_changes() {
    for (host, path, _) in FILES {
        let place = used(&[host]);
        let file = place.root.join(path);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::read_to_string(&file).unwrap();
        let words = ["install", "--into", host, "--yes"];
        let ran = place.run(&words);
        assert_eq!(ran.code, 0, "{host}: {ran:#?}");
        for secret in SECRETS {
            assert!(!ran.out.contains(secret), "{host}: {ran:#?}");
        }
        let after = fs::read_to_string(&file).unwrap();
        assert!(after.contains(env!("CARGO_BIN_EXE_outrigger")), "{after}");
        // Every line that was there still is, but for a comma behind the last entry.
        for line in before.lines() {
            assert!(
                after.contains(line.trim_end_matches(',')),
                "{host} lost `{line}`:\n{after}"
            );
        }
        assert_eq!(
            before.starts_with('\u{feff}'),
            after.starts_with('\u{feff}'),
            "{host}"
        );
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640,
            "{host}"
        );
        let backup = format!("{}.backup", file.display());
        assert_eq!(fs::read_to_string(&backup).unwrap(), before, "{host}");
        let mode = fs::metadata(&backup).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{host}");

        let again = place.run(&words);
        assert!(
            again.code == 0 && again.err.contains("is already in"),
            "{host}: {again:#?}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), after, "{host}");
        // It leads here, so it is nothing to take over.
        let found = place.json(&["import", "--from", host, "--server", "outrigger", "--json"]);
        assert_eq!(
            found["servers"][0]["why"], "it is this program itself",
            "{host}"
        );

        let gone = place.run(&["install", "--into", host, "--remove", "--yes"]);
        assert_eq!(gone.code, 0, "{host}: {gone:#?}");
        let restored = fs::read_to_string(&file).unwrap();
        assert_eq!(plain(&restored), plain(&before), "{host}");
        let gone = place.run(&["install", "--into", host, "--remove", "--yes"]);
        assert!(
            gone.code == 0 && gone.err.contains("is not in"),
            "{host}: {gone:#?}"
        );
    }
}

/// A text without the spacing and commas that an edit may leave.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && *c != ',')
        .collect()
}

/// The file of a host, wherever it is.
fn written(place: &Place, path: &str) -> String {
    let text = fs::read_to_string(place.root.join(path)).unwrap_or_else(|_| {
        fs::read_to_string(place.root.join("config/opencode/opencode.json")).unwrap()
    });
    text.replace(env!("CARGO_BIN_EXE_outrigger"), "/usr/bin/outrigger")
}

/// What `install` writes for a program, and for an address where a host takes one.
fn both_entries(host: &str, path: &str) -> String {
    let place = Place::new();
    let ran = place.run(&["install", "--into", host, "--yes", "--workspace", "."]);
    assert_eq!(ran.code, 0, "{host}: {ran:#?}");
    let mut said = format!("{host}\n{}\n", place.tidy(&written(&place, path)));
    let web = ["--yes", "--http", "http://127.0.0.1:4180/mcp"];
    let ran = place.run(&[&["install", "--into", host], &web[..]].concat());
    if host == "claude-desktop" {
        assert!(
            ran.code == 2 && ran.err.contains("only starts programs"),
            "{ran:#?}"
        );
        return said;
    }
    writeln!(said, "{}", place.tidy(&written(&place, path))).unwrap();
    let found = place.json(&["import", "--json"]);
    assert_eq!(found["servers"][0]["fate"], "left", "{found}");
    said
}

#[test]
#[allow(clippy::too_many_lines, reason = "the entries of eight hosts")]
fn entries_in_the_words_of_each_host() {
    let said: String = FILES
        .iter()
        .map(|(host, path, _)| both_entries(host, path))
        .collect();
    insta::assert_snapshot!(said, @r#"
    claude
    {
      "mcpServers": {
        "outrigger": {
          "type": "stdio",
          "command": "/usr/bin/outrigger",
          "args": ["serve", "--workspace", "/project"]
        }
      }
    }
    {
      "mcpServers": {
        "outrigger": {
          "type": "http",
          "url": "http://127.0.0.1:PORT/mcp"
        }
      }
    }
    claude-desktop
    {
      "mcpServers": {
        "outrigger": {
          "command": "/usr/bin/outrigger",
          "args": ["serve", "--workspace", "/project"]
        }
      }
    }
    codex
    [mcp_servers.outrigger]
    command = "/usr/bin/outrigger"
    args = ["serve", "--workspace", "/project"]
    required = true
    [mcp_servers.outrigger]
    required = true
    url = "http://127.0.0.1:PORT/mcp"
    vscode
    {
      "servers": {
        "outrigger": {
          "type": "stdio",
          "command": "/usr/bin/outrigger",
          "args": ["serve", "--workspace", "/project"]
        }
      }
    }
    {
      "servers": {
        "outrigger": {
          "type": "http",
          "url": "http://127.0.0.1:PORT/mcp"
        }
      }
    }
    cursor
    {
      "mcpServers": {
        "outrigger": {
          "command": "/usr/bin/outrigger",
          "args": ["serve", "--workspace", "/project"]
        }
      }
    }
    {
      "mcpServers": {
        "outrigger": {
          "url": "http://127.0.0.1:PORT/mcp"
        }
      }
    }
    gemini
    {
      "mcpServers": {
        "outrigger": {
          "command": "/usr/bin/outrigger",
          "args": ["serve", "--workspace", "/project"]
        }
      }
    }
    {
      "mcpServers": {
        "outrigger": {
          "httpUrl": "http://127.0.0.1:PORT/mcp"
        }
      }
    }
    opencode
    {
      "mcp": {
        "outrigger": {
          "type": "local",
          "command": ["/usr/bin/outrigger", "serve", "--workspace", "/project"],
          "enabled": true
        }
      }
    }
    {
      "mcp": {
        "outrigger": {
          "type": "remote",
          "enabled": true,
          "url": "http://127.0.0.1:PORT/mcp"
        }
      }
    }
    zed
    {
      "context_servers": {
        "outrigger": {
          "source": "custom",
          "command": "/usr/bin/outrigger",
          "args": ["serve", "--workspace", "/project"]
        }
      }
    }
    {
      "context_servers": {
        "outrigger": {
          "url": "http://127.0.0.1:PORT/mcp"
        }
      }
    }
    "#);
}

#[test]
fn a_link_stays_a_link_and_keys_of_the_entry_stay() {
    let place = Place::new();
    let real = place.write(
        "dotfiles/codex.toml",
        "[mcp_servers.outrigger]\ncommand = \"old\"\ntool_timeout_sec = 9 # slow\n",
    );
    fs::create_dir_all(place.root.join("home/.codex")).unwrap();
    let link = place.root.join("home/.codex/config.toml");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(place.run(&["install", "--into", "codex", "--yes"]).code, 0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let text = fs::read_to_string(&real).unwrap();
    assert!(
        text.contains("tool_timeout_sec = 9 # slow") && !text.contains("old"),
        "{text}"
    );
    assert!(place.root.join("dotfiles/codex.toml.backup").exists());

    fs::remove_file(&real).unwrap();
    let ran = place.run(&["install", "--into", "codex", "--yes"]);
    assert!(
        ran.code == 1 && ran.err.contains("leads nowhere"),
        "{ran:#?}"
    );
}

#[test]
fn line_ends_and_inline_tables_stay_as_they_are() {
    let place = Place::new();
    place.write(
        "home/.codex/config.toml",
        "# a\r\nmcp_servers = { x = { command = \"y\" } }\r\n",
    );
    place.write(
        "home/.cursor/mcp.json",
        "{\r\n  \"mcpServers\": {}\r\n}\r\n",
    );
    let ran = place.run(&["install", "--into", "codex,cursor", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    for file in ["home/.codex/config.toml", "home/.cursor/mcp.json"] {
        let text = fs::read_to_string(place.root.join(file)).unwrap();
        assert_eq!(
            text.matches('\n').count(),
            text.matches("\r\n").count(),
            "{text:?}"
        );
        assert!(text.contains("outrigger"), "{text}");
    }
}

#[test]
fn a_list_that_is_no_table_is_left_as_it_is() {
    let place = Place::new();
    for text in [
        "{\"mcpServers\": []}",
        "{\"mcpServers\": {\"outrigger\": 5}}",
        "[]",
    ] {
        let file = place.write("home/.cursor/mcp.json", text);
        let ran = place.run(&["install", "--into", "cursor", "--yes"]);
        assert!(
            ran.code == 1 && ran.err.contains("is left as it is"),
            "{ran:#?}"
        );
        assert_eq!(fs::read_to_string(file).unwrap(), text);
    }
}

#[test]
fn the_entry_names_the_profile_only_when_there_is_one() {
    let place = Place::new();
    let words = [
        "install",
        "--into",
        "cursor",
        "--yes",
        "--profile",
        "reading",
    ];
    let ran = place.run(&words);
    assert!(
        ran.code == 2 && ran.err.contains("no profile `reading`"),
        "{ran:#?}"
    );
    assert!(!place.root.join("home/.cursor").exists());
    place.user("[profiles.reading]\nservers = [\"time\"]");
    assert_eq!(place.run(&words).code, 0);
    let text = fs::read_to_string(place.root.join("home/.cursor/mcp.json")).unwrap();
    let root: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        root["mcpServers"]["outrigger"]["args"],
        json!(["serve", "--profile", "reading"])
    );
}

#[test]
fn in_a_file_that_is_read_here_too_the_entry_starts_nothing() {
    for http in [&[][..], &["--http", "http://127.0.0.1:4180/mcp"]] {
        let place = Place::new();
        let words = ["install", "--into", "claude", "--project", "--yes"];
        let ran = place.run(&[&words, http].concat());
        assert_eq!(ran.code, 0, "{ran:#?}");
        assert!(place.root.join("project/.mcp.json").exists());
        let doctor = place.json(&["doctor", "--json"]);
        let servers = doctor["servers"].as_array().unwrap();
        let ours = servers.iter().find(|it| it["server"] == "outrigger");
        assert_eq!(ours.unwrap()["state"], "disabled", "{doctor}");
        place.assert_nothing_runs();
        let found = place.json(&["import", "--json"]);
        assert_eq!(found["servers"], json!([]));
    }
    let words = ["install", "--into", "claude-desktop", "--project", "--yes"];
    let ran = Place::new().run(&words);
    assert_eq!(ran.code, 2, "{ran:#?}");
}

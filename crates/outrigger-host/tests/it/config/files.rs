//! Files as people write them: comments, byte order marks, three formats, odd bodies.

use outrigger_host::config::{FileState, Severity};

use super::{Place, ready, states, stdio};

#[test]
fn json_may_have_comments_and_trailing_commas() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{
  // of the team
  "mcpServers": {
    "a": {"command": "python3", "args": ["http://x/*y*/", "a // b",]}, /* keep */
    // "old": {"command": "x"},
  },
}"#,
    );
    let config = place.load();
    assert_eq!(states(&config), "a ready");
    assert_eq!(stdio(&config, "a").args, ["http://x/*y*/", "a // b"]);
    assert_eq!(config.problems, []);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let text = r#"{"mcpServers": {"a": {"command": "é"}}}"#;
    let utf16 = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
        mark.into_iter()
            .chain(text.encode_utf16().flat_map(bytes))
            .collect::<Vec<u8>>()
    };
    for body in [
        [b"\xEF\xBB\xBF", text.as_bytes()].concat(),
        utf16([0xFF, 0xFE], u16::to_le_bytes),
        utf16([0xFE, 0xFF], u16::to_be_bytes),
    ] {
        let place = Place::new();
        place.write("project/.mcp.json", body);
        assert_eq!(stdio(&place.load(), "a").command, "é");
    }
}

#[test]
fn three_formats_mean_the_same() {
    let toml = r#"
[servers.a]
command = "x"
args = ["1", "two"]
env.PORT = 8080
read_only = true
timeouts = { start = "1m30s", call = 5 }
limits.frame_bytes = "1 MiB"
"#;
    let json = r#"{"servers": {"a": {"command": "x", "args": [1, "two"], "env": {"PORT": 8080},
        "read_only": true, "timeouts": {"start": "1m30s", "call": 5}, "limits": {"frame_bytes": "1 MiB"}}}}"#;
    let yaml = "
servers:
  a:
    command: x
    args: [1, two]
    env: {PORT: 8080}
    read_only: true
    timeouts: {start: 1m30s, call: 5}
    limits:
      frame_bytes: 1 MiB
";
    let mut seen = Vec::new();
    for (ending, text) in [
        ("toml", toml),
        ("json", json),
        ("yaml", yaml),
        ("yml", yaml),
    ] {
        let place = Place::with(&format!("project/.outrigger/outrigger.{ending}"), text);
        let config = place.load();
        assert_eq!(config.problems, [], "{ending}");
        let settings = ready(&config, "a");
        let spec = stdio(&config, "a");
        seen.push((
            settings.read_only,
            settings.spec.deadlines,
            settings.spec.limits,
            spec.args.clone(),
            spec.env.clone(),
            place.tidy(&spec.cwd.to_string_lossy()),
        ));
    }
    assert_eq!(seen[0].1.start.as_secs(), 90);
    assert_eq!(seen[0].4["PORT"], "8080");
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:#?}");
}

#[test]
fn yaml_of_an_older_host_loads_as_it_is() {
    let place = Place::with(
        "user/outrigger.yaml",
        "
mcp_servers:
  files: &base
    type: stdio
    command: npx
    args:
      - -y
      - '@modelcontextprotocol/server-filesystem'
      - /srv
    read_only: true
  wiki:
    type: http
    url: https://wiki.example/mcp
    headers:
      X-Team: red
",
    );
    let config = place.load();
    assert_eq!(states(&config), "files ready, wiki ready");
    assert!(ready(&config, "files").read_only);
    assert_eq!(config.problems, []);
}

#[test]
fn vs_code_servers_are_read_from_any_file() {
    let text = r#"{"inputs": [], "servers": {"a": {"type": "stdio", "command": "python3", "gallery": true}}}"#;
    let mut place = Place::with("project/mcp.json", text);
    assert_eq!(states(&place.load()), "a ready");
    place.write(
        "project/.vscode/mcp.json",
        text.replace("\"a\"", "\"editor\""),
    );
    assert_eq!(
        states(&place.load()),
        "a ready",
        "the editor's own file is not read by itself"
    );
    place.around.explicit = vec![".vscode/mcp.json".into()];
    assert_eq!(states(&place.load()), "a ready, editor ready");
}

#[test]
fn odd_bodies_hold_no_servers_and_are_said() {
    let seen = |body: &str| {
        let place = Place::with("project/.mcp.json", body);
        let config = place.load();
        assert_eq!(config.servers.len(), 0);
        assert_eq!(config.fatal().count(), 0, "{body}");
        config
            .problems
            .iter()
            .map(|problem| place.tidy(&problem.to_string()))
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(seen(""), @"project/.mcp.json:1:1: the file is empty; an empty configuration in JSON is `{}`");
    insta::assert_snapshot!(seen("null"), @"project/.mcp.json:1:1: the file must hold a table, found nothing (null); nothing in it is used");
    insta::assert_snapshot!(seen("[]"), @"project/.mcp.json:1:1: the file must hold a table, found a list; nothing in it is used");
    insta::assert_snapshot!(seen(r#"{"mcpServers": null}"#), @"project/.mcp.json:1:16: `mcpServers` is empty");
    assert_eq!(seen("{}"), "");
    assert_eq!(seen(r#"{"mcpServers": {}}"#), "");
}

#[test]
fn an_empty_file_of_ours_is_fine() {
    for file in ["outrigger.toml", "outrigger.yaml"] {
        let place = Place::with(&format!("user/{file}"), "# nothing yet\n");
        assert_eq!(place.load().problems, []);
    }
}

#[test]
fn a_broken_file_stops_no_other() {
    let place = Place::with("project/.mcp.json", "{\"mcpServers\": {\n");
    place.write(
        "project/mcp.json",
        r#"{"mcpServers": {"b": {"command": "x"}}}"#,
    );
    let config = place.load();
    assert_eq!(states(&config), "b ready");
    assert_eq!(config.fatal().count(), 1);
    let found: Vec<_> = config
        .files
        .iter()
        .filter(|file| file.state != FileState::Missing)
        .collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].state, FileState::Broken);
    assert_eq!(found[1].state, FileState::Read { servers: 1 });
}

#[test]
fn a_key_written_twice_is_said_and_the_last_one_counts() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#,
    );
    let config = place.load();
    assert_eq!(stdio(&config, "a").command, "y");
    assert_eq!(config.problems.len(), 1);
    assert_eq!(config.problems[0].severity, Severity::Warning);
    insta::assert_snapshot!(place.tidy(&config.problems[0].to_string()), @"project/.mcp.json:1:40: `a` stands here again; the one on line 1 is not used; keep one of the two");
}

#[test]
fn a_key_written_twice_in_our_own_file_is_a_fault() {
    for (ending, text) in [
        (
            "yaml",
            "policy: {tools: {x: deny}}\npolicy: {tools: {y: allow}}\n",
        ),
        (
            "json",
            r#"{"policy": {"tools": {"x": "deny"}}, "policy": {}}"#,
        ),
        ("toml", "[policy]\n[policy]\n"),
    ] {
        let place = Place::with(&format!("user/outrigger.{ending}"), text);
        assert_eq!(place.load().fatal().count(), 1, "{ending}");
    }
}

#[test]
fn toml_of_another_host_is_read_in_its_own_words() {
    let mut place = Place::new();
    let file = place.write(
        "config.toml",
        "model = 'some'\n[mcp_servers.a]\ncommand = 'x'\nstartup_timeout_sec = 20\n",
    );
    place.around.explicit = vec![file];
    let config = place.load();
    assert_eq!(states(&config), "a ready");
    assert_eq!(config.fatal().count(), 0);
    assert!(config.model.default.is_none());
}

#[test]
fn an_explicit_file_without_a_known_ending_is_read_by_its_first_character() {
    let mut place = Place::new();
    let json = place.write("one", r#" {"mcpServers": {"a": {"command": "x"}}}"#);
    let toml = place.write("two.conf", "[servers.b]\ncommand = 'y'");
    place.around.explicit = vec![json, toml];
    assert_eq!(states(&place.load()), "a ready, b ready");
}

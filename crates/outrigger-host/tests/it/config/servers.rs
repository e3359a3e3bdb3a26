//! What the keys of a server mean.

use std::time::Duration;

use outrigger_connect::{Framing, Protocol};

use super::{Place, http, ready, states, stdio};

#[test]
fn every_spelling_of_a_type_is_understood() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {
  "none": {"command": "python3"},
  "stdio": {"type": "stdio", "command": "python3"},
  "h1": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
  "h2": {"type": "streamable-http", "url": "http://127.0.0.1:1/mcp"},
  "h3": {"type": "streamableHttp", "url": "http://127.0.0.1:1/mcp"},
  "h4": {"url": "http://127.0.0.1:1/mcp"},
  "h5": {"transport": "http", "url": "http://127.0.0.1:1/mcp"},
  "sse": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
  "ws": {"type": "ws", "url": "ws://127.0.0.1:1/"},
  "ws2": {"url": "wss://127.0.0.1:1/"}
}}"#,
    );
    let config = place.load();
    assert_eq!(
        states(&config),
        "none ready, stdio ready, h1 ready, h2 ready, h3 ready, h4 ready, h5 ready, sse ready, ws ready, ws2 ready"
    );
    assert_eq!(http(&config, "h5").url.as_str(), "http://127.0.0.1:1/mcp");
    assert_eq!(http(&config, "sse").url.as_str(), "http://127.0.0.1:1/sse");
    assert_eq!(http(&config, "ws").url.as_str(), "ws://127.0.0.1:1/");
    assert_eq!(http(&config, "ws2").url.as_str(), "wss://127.0.0.1:1/");
}

#[test]
fn one_bad_entry_stops_no_other() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}, "broken": {"args": ["x"]}, "c": {"command": "x"}, "d": 5}}"#,
    );
    assert_eq!(
        states(&place.load()),
        "a ready, broken broken, c ready, d broken"
    );
}

#[test]
fn keys_of_other_hosts_are_read_or_said() {
    let place = Place::with(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {
  "command": ["npx", "-y", "thing"], "args": ["--more"], "environment": {"A": "1"}, "enabledTools": ["r*"],
  "autoApprove": ["*"], "alwaysAllow": ["echo"], "icon": "x", "timeout": 60, "_note": "mine"
}}, "theme": "dark"}"#,
    );
    let config = place.load();
    let spec = stdio(&config, "a");
    assert_eq!(spec.command, "npx");
    assert_eq!(spec.args, ["-y", "thing", "--more"]);
    assert_eq!(spec.env["A"], "1");
    assert_eq!(
        ready(&config, "a").allowed_tools.as_deref(),
        Some(["r*".to_owned()].as_slice())
    );
    assert_eq!(
        config.policy.rules,
        [],
        "a list of approvals in a checkout grants nothing"
    );
    let said: Vec<_> = config
        .problems
        .iter()
        .map(|problem| place.tidy(&problem.to_string()))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    project/.mcp.json:3:3: `mcpServers.a.autoApprove` grants nothing here; what may run without asking is said in `[policy]` of `outrigger.toml`
    project/.mcp.json:3:25: `mcpServers.a.alwaysAllow` grants nothing here; what may run without asking is said in `[policy]` of `outrigger.toml`
    project/.mcp.json:3:50: `mcpServers.a.icon` is not a key that is used here
    project/.mcp.json:3:63: `mcpServers.a.timeout` is not used: some hosts mean seconds by it, some milliseconds; write `"timeouts": {"call": "60s"}`
    project/.mcp.json:4:5: `theme` is not a key that is used here
    "#);
    assert_eq!(config.fatal().count(), 0);
}

#[test]
fn everything_about_a_server_can_be_said() {
    let place = Place::toml(
        r#"
[servers.a]
command = "x"
type = "stdio"
enabled = true
description = "Files of the team"
read_only = true
protocol = "legacy"
framing = "content-length"
allowed_tools = ["read_*"]
disabled_tools = ["read_secret"]

[servers.a.timeouts]
start = "2m"
probe = "500ms"
list = 7.5
call = "15m"
close = "1s"

[servers.a.limits]
frame_bytes = "2MB"
depth = 32
tools = 10
pages = 3
concurrent_calls = 1

[servers.b]
url = "https://h.example/mcp?x=1"
headers = { Authorization = "Bearer abcdefgh", X-Team = "red" }
protocol = "modern"
"#,
    );
    let config = place.load();
    assert_eq!(config.all_problems().count(), 0);
    let settings = ready(&config, "a");
    let spec = &settings.spec;
    assert!(settings.read_only);
    assert_eq!(settings.description.as_deref(), Some("Files of the team"));
    assert_eq!(settings.disabled_tools, ["read_secret"]);
    assert_eq!(spec.protocol, Protocol::Legacy);
    assert_eq!(stdio(&config, "a").framing, Framing::ContentLength);
    assert_eq!(spec.deadlines.start, Duration::from_secs(120));
    assert_eq!(spec.deadlines.probe, Duration::from_millis(500));
    assert_eq!(spec.deadlines.list, Duration::from_millis(7500));
    assert_eq!(spec.deadlines.call, Duration::from_secs(900));
    assert_eq!(
        spec.deadlines.call_hard,
        Duration::from_secs(900),
        "raised to the soft one"
    );
    assert_eq!(spec.limits.frame_bytes, 2 << 20);
    assert_eq!(spec.limits.concurrent_calls, 1);
    assert_eq!(ready(&config, "b").spec.protocol, Protocol::Modern);
    let origins: Vec<_> = settings
        .origins()
        .map(|(key, origin)| format!("{key} {}:{}", origin.line, origin.column))
        .collect();
    insta::assert_snapshot!(origins.join(", "), @"command 3:1, type 4:1, description 6:1, read_only 7:1, protocol 8:1, framing 9:1, allowed_tools 10:1, disabled_tools 11:1, timeouts 13:12, limits 20:12");
}

#[test]
fn secrets_are_known_to_the_redactor_and_paths_are_not() {
    let place = Place::toml(
        r#"
[servers.a]
command = "x"
args = ["--api-key", "literal-key", "--url=http://h", "--token=in-one", "${DIR}", "${VERBOSE}"]
env = { GITHUB_TOKEN = "ghp_literal", MODE = "fast", REF = "${SOME_REF}" }
[servers.b]
url = "https://me:pass-word@h.example/mcp?api_key=query-key"
headers = { Authorization = "Bearer ${TOKEN}", Cookie = "sid=cookie-value" }
"#,
    )
    .set("TOKEN", "tok-123")
    .set("DIR", "/home/me/data")
    .set("VERBOSE", "1")
    .set("SOME_REF", "reference-value");
    place.write(
        "user/outrigger.toml",
        "[model.providers.p]\nheaders = { x-api-key = 'provider-key' }",
    );
    let config = place.load();
    insta::assert_snapshot!(config.secrets().join("\n"), @r"
    sid=cookie-value
    reference-value
    Bearer tok-123
    provider-key
    ghp_literal
    literal-key
    pass-word
    query-key
    tok-123
    in-one
    ");
    // Arguments and addresses are shown by the connection's own types; nothing else is.
    let shown = ["literal-key", "in-one", "pass-word", "query-key"];
    let debug = format!("{config:?}{:?}", place.around);
    for secret in config
        .secrets()
        .iter()
        .filter(|secret| !shown.contains(&secret.as_str()))
    {
        assert!(!debug.contains(secret), "{secret}");
    }
}

#[test]
fn the_password_of_a_proxy_is_secret() {
    let place = Place::new().set("HTTPS_PROXY", "http://me:proxy-pass@proxy:3128");
    assert_eq!(place.load().secrets(), ["proxy-pass"]);
}

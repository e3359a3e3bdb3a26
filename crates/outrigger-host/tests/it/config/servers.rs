//! What the keys of a server mean.

use std::time::Duration;

use outrigger_connect::{Framing, Protocol};
use outrigger_host::config::Sharing;

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
instructions = true
protocol = "legacy"
versions = ["2025-06-18", "2024-11-05"]
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
headers = { Authorization = "Bearer ${B_TOKEN}", X-Team = "red" }
protocol = "modern"
"#,
    )
    .set("B_TOKEN", "abcdefgh");
    let config = place.load();
    assert_eq!(config.all_problems().count(), 0);
    let settings = ready(&config, "a");
    let spec = &settings.spec;
    assert!(settings.read_only && settings.instructions);
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
    insta::assert_snapshot!(origins.join(", "), @"command 3:1, type 4:1, description 6:1, read_only 7:1, instructions 8:1, protocol 9:1, versions 10:1, framing 11:1, allowed_tools 12:1, disabled_tools 13:1, timeouts 15:12, limits 22:12");
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

#[test]
fn the_same_can_be_said_in_every_format() {
    for (file, text) in [
        (
            "project/.mcp.json",
            r#"{"mcpServers": {"a": {"command": "x", "versions": ["2025-03-26"], "limits": {"notifications_per_second": 7}}}}"#,
        ),
        (
            "user/outrigger.yaml",
            "servers:\n  a: { command: x, versions: [\"2025-03-26\"], limits: { notifications_per_second: 7 } }",
        ),
        (
            "user/outrigger.toml",
            "[servers.a]\ncommand = 'x'\nversions = ['2025-03-26']\nlimits.notifications_per_second = 7",
        ),
    ] {
        let config = Place::with(file, text).load_trusted();
        let spec = &ready(&config, "a").spec;
        let versions = spec.versions.as_deref().unwrap_or_default();
        assert_eq!(versions, ["2025-03-26"], "{file}");
        assert_eq!(spec.limits.notifications_per_second, 7, "{file}");
    }
}

#[test]
fn what_holds_for_all_servers_gives_way_to_what_one_says() {
    let place = Place::new();
    place.write(
        "user/outrigger.toml",
        "[limits]\ntools = 10\ndepth = 20\nmax_turns = 3\n[timeouts]\nstart = '5s'\ncall = '20m'",
    );
    place.write(
        "project/.outrigger/outrigger.toml",
        "[limits]\ntools = 11\n[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'x'\nlimits.depth = 30\ntimeouts.start = '6s'",
    );
    let config = place.load_trusted();
    assert_eq!(config.all_problems().count(), 0, "{}", place.page());
    let (a, b) = (&ready(&config, "a").spec, &ready(&config, "b").spec);
    assert_eq!((a.limits.tools, a.limits.depth), (11, 20));
    assert_eq!((b.limits.tools, b.limits.depth), (11, 30));
    assert_eq!(a.deadlines.start, Duration::from_secs(5));
    assert_eq!(b.deadlines.start, Duration::from_secs(6));
    let twenty = Duration::from_secs(1200);
    assert_eq!((a.deadlines.call, a.deadlines.call_hard), (twenty, twenty));
    assert_eq!(config.limits.max_turns.value, 3);
    let origin = |key: &str| place.tidy(&config.defaults.origin(key).to_string());
    assert_eq!(
        [
            "limits.tools",
            "limits.depth",
            "limits.pages",
            "timeouts.call"
        ]
        .map(origin),
        [
            "project/.outrigger/outrigger.toml:2",
            "user/outrigger.toml:3",
            "default",
            "user/outrigger.toml:7",
        ]
    );
    let shown = place.tidy(&outrigger_host::config::show::render(&config, true));
    for line in [
        "tools = 11  # project/.outrigger/outrigger.toml:2",
        "start = \"5s\"  # user/outrigger.toml:6",
        "pages = 500  # default",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let json = outrigger_host::config::show::to_json(&config);
    assert_eq!(json["limits"]["tools"]["value"], 11);
    assert_eq!(json["timeouts"]["call"]["value"], "20m");
}

#[test]
fn a_limit_that_cannot_be_read_stops_everything() {
    let place = Place::with(
        "user/outrigger.toml",
        "[limits]\nframe_bytes = 'big'\ntool = 1\n[timeouts]\nstrat = '5s'\ncall_hard = '1s'",
    );
    assert_eq!(place.load().fatal().count(), 4);
    insta::assert_snapshot!(place.lines(), @r#"
    user/outrigger.toml:2:15: `limits.frame_bytes` must be a size such as `"64 MiB"` or a number of bytes, found `big`
    user/outrigger.toml:3:1: unknown key `tool` in `limits`; did you mean `tools`?
    user/outrigger.toml:5:1: unknown key `strat` in `timeouts`; did you mean `start`?
    user/outrigger.toml:6:13: `timeouts.call_hard` is shorter than `timeouts.call`
    "#);
}

#[test]
fn authorities_are_those_of_the_server_then_of_the_person_then_of_the_environment() {
    let place = Place::new();
    let extra = place.write("extra.pem", "");
    let place = place
        .set("NODE_EXTRA_CA_CERTS", &super::text(&extra))
        .set("TEAM", "blue");
    place.write(
        "user/outrigger.toml",
        "[tls]\nca_files = ['company.pem', '~/more.pem']\n[servers.b]\nurl = 'wss://h.example/mcp'",
    );
    place.write(
        "project/.outrigger/outrigger.toml",
        "[servers.a]\nurl = 'https://h.example/mcp'\nca_file = 'certs/${TEAM}.pem'\n[servers.c]\ncommand = 'x'\nca_file = 'x'",
    );
    let config = place.load_trusted();
    let files = |name: &str| {
        let files = http(&config, name).ca_files.iter();
        let files: Vec<_> = files.map(|file| place.tidy(&super::text(file))).collect();
        files.join(" ")
    };
    assert_eq!(
        files("a"),
        "project/certs/blue.pem user/company.pem home/more.pem extra.pem"
    );
    assert_eq!(files("b"), "user/company.pem home/more.pem extra.pem");
    insta::assert_snapshot!(place.lines(), @"project/.outrigger/outrigger.toml:6:1: `servers.c.ca_file` is not used: the server is of type `stdio`");
    let shown = place.tidy(&outrigger_host::config::show::render(&config, true));
    assert!(shown.contains("[tls]\nca_files = [\"user/company.pem\", \"home/more.pem\", \"extra.pem\"]  # user/outrigger.toml:2"), "{shown}");

    // A checkout decides nothing about other servers than its own.
    let place =
        Place::toml("[tls]\nca_files = ['evil.pem']\n[servers.a]\nurl = 'https://h.example/'");
    assert!(http(&place.load_trusted(), "a").ca_files.is_empty());
    insta::assert_snapshot!(place.lines(), @"project/.outrigger/outrigger.toml:1:2: `tls` in a file of the project is not used: it decides whom all your servers may be; say it in your own `outrigger.toml`, or give a server of the project a `ca_file`");
}

#[test]
fn what_may_know_one_principal_from_another_is_not_shared_unless_it_says_so() {
    let place = Place::toml(
        "[servers.process]
command = 'x'
[servers.said]
command = 'x'
sharing = 'shared'
[servers.open]
url = 'http://127.0.0.1:1/mcp'
[servers.fixed]
url = 'http://127.0.0.1:1/mcp'
headers.Authorization = 'Bearer ${TOKEN}'
[servers.kept]
url = 'http://127.0.0.1:1/mcp'
headers.Authorization = 'Bearer ${TOKEN}'
sharing = 'per-principal'
[servers.signs]
url = 'http://127.0.0.1:1/mcp'
headers.X-Team = 'blue'
oauth.client_id = 'me'
",
    )
    .set("TOKEN", "t-1");
    let config = place.load();
    let shared = |name| ready(&config, name).sharing() == Sharing::Shared;
    let names = ["process", "said", "open", "fixed", "kept", "signs"];
    assert_eq!(
        names.map(shared),
        [false, true, false, true, false, false],
        "{}",
        place.page()
    );
    let place = Place::toml("[servers.a]\ncommand = 'x'\nsharing = 'all'");
    insta::assert_snapshot!(place.tidy(&place.page()), @r"
    error: `servers.a.sharing` cannot be `all`
      project/.outrigger/outrigger.toml:3:11
         |
       3 | sharing = 'all'
         |           ^
      hint: it can be `shared`, `per-principal`
    ");
}

#[test]
fn what_runs_in_one_place_is_shared_by_all_principals() {
    let place =
        Place::toml("[servers.a]\ncommand = 'x'\nsingle = true\n[servers.b]\ncommand = 'x'");
    let config = place.load();
    let (a, b) = (ready(&config, "a"), ready(&config, "b"));
    assert_eq!((a.single, b.single), (true, false));
    assert_eq!(
        (a.sharing(), b.sharing()),
        (Sharing::Shared, Sharing::PerPrincipal)
    );
    let place = Place::toml("[servers.a]\ncommand = 'x'\nsingle = true\nsharing = 'per-principal'");
    insta::assert_snapshot!(place.tidy(&place.page()), @r"
    error: `servers.a.sharing` has one for each principal, and `single` one in all
      project/.outrigger/outrigger.toml:4:1
         |
       4 | sharing = 'per-principal'
         | ^
      hint: leave out one of them; what is `single` is shared by all principals
    ");
}

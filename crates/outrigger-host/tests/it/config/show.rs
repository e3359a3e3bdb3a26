//! `config show`.

use outrigger_host::config::show;

use super::{Place, ready, stdio};

fn place() -> Place {
    let place = Place::new();
    place.write(
        "user/outrigger.toml",
        r#"
[servers.files]
command = "old"
[model]
default = "openai:gpt"
[model.providers.openai]
kind = "openai"
base_url = "https://api.example/v1"
key_env = "OPENAI_API_KEY"
headers = { X-Api-Key = "literal-secret" }
[policy]
default = "ask"
[policy.tools]
"mcp__time__*" = "allow"
"#,
    );
    place.write(
        "project/.mcp.json",
        r#"{
  "mcpServers": {
    "files": {
      "command": "~/bin/files",
      "args": ["--token", "literal-token", "${DIR:-data}", "line\nbreak \"q\""],
      "env": {"API_KEY": "literal-key", "REF": "${TOKEN}", "MODE": "fast"},
      "cwd": "sub",
      "timeouts": {"start": "1m"}
    },
    "wiki": {"type": "http", "url": "https://u:literal-pass@h.example/mcp?token=literal-query",
             "headers": {"Authorization": "Bearer literal-bearer", "X-Y": "1"}},
    "odd name": {"command": "x", "disabled": true},
    "broken": {"command": "x", "args": ["${NOPE}"]},
    "time": {"command": "x"}
  }
}"#,
    );
    place.set("TOKEN", "tok-12345")
}

/// The page, as it is whatever the folder.
fn shown(origin: bool) -> String {
    let place = place();
    let shown = place.tidy(&show::render(&place.load_trusted(), origin));
    assert!(!shown.contains("literal-") && !shown.contains("tok-12345"));
    let (shown, discovery) = shown.split_once("\n\n[discovery]\n").unwrap();
    assert!(discovery.starts_with("mode = \"auto\""), "{discovery}");
    shown.to_owned()
}

/// What is there, and how runs go.
fn halves(places: bool) -> (String, String) {
    let shown = shown(places);
    let at = shown.find("[limits]").unwrap();
    let (first, second) = shown.split_at(at);
    (first.to_owned(), second.to_owned())
}

#[test]
#[allow(clippy::too_many_lines, reason = "all that is shown, as it is shown")]
fn effective_values_with_their_places() {
    insta::assert_snapshot!(halves(true).0, @r#"
    [servers.files]  # project/.mcp.json:3
    command = "home/bin/files"  # project/.mcp.json:4
    args = ["--token", "••••", "${DIR:-data}", "line\nbreak \"q\""]  # project/.mcp.json:5
    env.API_KEY = "••••"  # project/.mcp.json:6
    env.REF = "${TOKEN}"  # project/.mcp.json:6
    env.MODE = "fast"  # project/.mcp.json:6
    cwd = "project/sub"  # project/.mcp.json:7
    timeouts = { start = "1m" }  # project/.mcp.json:8
    # replaces the entry at user/outrigger.toml:2

    [servers.wiki]  # project/.mcp.json:10
    type = "http"  # project/.mcp.json:10
    url = "https://u:••••@h.example/mcp?token=••••"  # project/.mcp.json:10
    headers.Authorization = "Bearer ••••"  # project/.mcp.json:11
    headers.X-Y = "1"  # project/.mcp.json:11

    [servers."odd name"]  # project/.mcp.json:12
    enabled = false

    # [servers.broken] is set aside:
    #   project/.mcp.json:13:41: `mcpServers.broken.args[0]` uses `${NOPE}`, and no variable `NOPE` is set; set `NOPE` in the environment, or write `${NOPE:-…}` with a default

    [servers.time]  # project/.mcp.json:14
    command = "x"  # project/.mcp.json:14

    [policy]
    default = "ask"  # user/outrigger.toml:12
    mode = "default"  # default

    [[policy.rule]]  # user/outrigger.toml:14
    tool = "mcp__time__*"
    decision = "allow"

    [model]
    default = "openai:gpt"  # user/outrigger.toml:5

    [model.providers.openai]  # user/outrigger.toml:6
    kind = "openai"  # user/outrigger.toml:7
    base_url = "https://api.example/v1"  # user/outrigger.toml:8
    key_env = "OPENAI_API_KEY"  # user/outrigger.toml:9
    headers.X-Api-Key = "••••"  # user/outrigger.toml:10
    "#);
}

#[test]
fn how_runs_go_with_its_places() {
    insta::assert_snapshot!(halves(true).1, @r#"
    [limits]
    max_turns = 40  # default
    max_calls = 200  # default
    max_tokens = "none"  # default
    max_time = "30m"  # default
    max_servers = 100  # default
    frame_bytes = "64 MiB"  # default
    depth = 128  # default
    tools = 5000  # default
    pages = 500  # default
    notifications_per_second = 500  # default
    concurrent_calls = 16  # default

    [timeouts]
    start = "30s"  # default
    probe = "3s"  # default
    list = "30s"  # default
    call = "1m"  # default
    call_hard = "10m"  # default
    late = "2s"  # default
    close = "5s"  # default
    idle = "30m"  # default

    [builtin]
    time = true  # default
    # the configured server `time` stands in its place
    workspace = true  # default
    echo = false  # default
    resources = false  # default
    "#);
}

#[test]
#[allow(clippy::too_many_lines, reason = "all that is shown, as it is shown")]
fn without_places_it_is_plain() {
    insta::assert_snapshot!(halves(false).0, @r#"
    [servers.files]
    command = "home/bin/files"
    args = ["--token", "••••", "${DIR:-data}", "line\nbreak \"q\""]
    env.API_KEY = "••••"
    env.REF = "${TOKEN}"
    env.MODE = "fast"
    cwd = "project/sub"
    timeouts = { start = "1m" }

    [servers.wiki]
    type = "http"
    url = "https://u:••••@h.example/mcp?token=••••"
    headers.Authorization = "Bearer ••••"
    headers.X-Y = "1"

    [servers."odd name"]
    enabled = false

    # [servers.broken] is set aside:
    #   project/.mcp.json:13:41: `mcpServers.broken.args[0]` uses `${NOPE}`, and no variable `NOPE` is set; set `NOPE` in the environment, or write `${NOPE:-…}` with a default

    [servers.time]
    command = "x"

    [policy]
    default = "ask"
    mode = "default"

    [[policy.rule]]
    tool = "mcp__time__*"
    decision = "allow"

    [model]
    default = "openai:gpt"

    [model.providers.openai]
    kind = "openai"
    base_url = "https://api.example/v1"
    key_env = "OPENAI_API_KEY"
    headers.X-Api-Key = "••••"
    "#);
}

#[test]
fn how_runs_go_is_plain_too() {
    insta::assert_snapshot!(halves(false).1, @r#"
    [limits]
    max_turns = 40
    max_calls = 200
    max_tokens = "none"
    max_time = "30m"
    max_servers = 100
    frame_bytes = "64 MiB"
    depth = 128
    tools = 5000
    pages = 500
    notifications_per_second = 500
    concurrent_calls = 16

    [timeouts]
    start = "30s"
    probe = "3s"
    list = "30s"
    call = "1m"
    call_hard = "10m"
    late = "2s"
    close = "5s"
    idle = "30m"

    [builtin]
    time = true
    # the configured server `time` stands in its place
    workspace = true
    echo = false
    resources = false
    "#);
}

#[test]
fn what_is_shown_can_be_read_back() {
    let first = place();
    first.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"files": {"command": "./bin/x y", "args": ["a\u0001\n\"\\", "$${X}", "~/z"], "env": {"A.B": "ü", "REF": "${TOKEN}"},
            "cwd": "sub", "read_only": true, "instructions": true, "timeouts": {"call": "90s"}, "limits": {"tools": 7}},
            "odd \"name\" é": {"disabled": true}}}"#,
    );
    let config = first.load_trusted();
    let mut second = Place::new().set("TOKEN", "tok-12345");
    second.around.workspace = first.around.workspace.clone();
    second.around.home = first.around.home.clone();
    second.around.user_dir = None;
    let file = second.write("shown.toml", show::render(&config, true));
    second.around.explicit = vec![file];
    std::fs::remove_file(first.path("project/.mcp.json")).unwrap();
    let again = second.load_trusted();
    let problems: Vec<_> = again.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, [""; 0]);
    let (a, b) = (stdio(&config, "files"), stdio(&again, "files"));
    assert_eq!(
        (&a.command, &a.args, &a.env, &a.cwd),
        (&b.command, &b.args, &b.env, &b.cwd)
    );
    assert_eq!(
        ready(&config, "files").spec.deadlines,
        ready(&again, "files").spec.deadlines
    );
    assert_eq!(
        ready(&config, "files").spec.limits,
        ready(&again, "files").spec.limits
    );
    assert!(ready(&again, "files").read_only && ready(&again, "files").instructions);
    assert_eq!(super::states(&config), super::states(&again));
    assert_eq!(config.policy.default.value, again.policy.default.value);
    assert_eq!(config.policy.rules.len(), again.policy.rules.len());
    assert_eq!(config.limits.max_time.value, again.limits.max_time.value);
}

#[test]
fn a_mask_that_comes_back_is_refused() {
    let mut second = Place::new();
    second.around.explicit =
        vec![second.write("shown.toml", show::render(&place().load_trusted(), false))];
    let config = second.load_trusted();
    assert_eq!(
        super::states(&config),
        "files broken, wiki broken, odd name disabled, time ready"
    );
    let said: Vec<_> = config
        .all_problems()
        .map(|problem| second.tidy(&problem.to_string()))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @"
    shown.toml:3:20: `servers.files.args[1]` is the mask that `config show` prints, not the value itself; write the value, or better a variable such as `${TOKEN}`
    shown.toml:4:15: `servers.files.env.API_KEY` is the mask that `config show` prints, not the value itself; write the value, or better a variable such as `${TOKEN}`
    shown.toml:5:11: `servers.files.env.REF` uses `${TOKEN}`, and no variable `TOKEN` is set; set `TOKEN` in the environment, or write `${TOKEN:-…}` with a default
    shown.toml:12:7: `servers.wiki.url` is the mask that `config show` prints, not the value itself; write the value, or better a variable such as `${TOKEN}`
    shown.toml:13:25: `servers.wiki.headers.Authorization` is the mask that `config show` prints, not the value itself; write the value, or better a variable such as `${TOKEN}`
    shown.toml:40:21: `model.providers.openai.headers.X-Api-Key` is the mask that `config show` prints, not the value itself; write the value, or better a variable such as `${TOKEN}`
    ");
}

#[test]
fn json_says_the_same() {
    let place = place();
    let json = show::to_json(&place.load_trusted());
    let text = place.tidy(&serde_json::to_string(&json).unwrap());
    assert!(!text.contains("literal-"), "{text}");
    assert!(!text.contains("tok-12345"), "{text}");
    assert_eq!(json["servers"]["files"]["state"], "ready");
    assert_eq!(
        json["servers"]["files"]["settings"]["env.REF"]["value"],
        "${TOKEN}"
    );
    assert_eq!(
        json["servers"]["files"]["settings"]["env.REF"]["origin"]["line"],
        6
    );
    assert_eq!(
        json["servers"]["broken"]["problems"][0]["key"],
        "mcpServers.broken.args[0]"
    );
    assert_eq!(json["shadowed"][0]["name"], "files");
    assert_eq!(json["policy"]["rules"][0]["decision"], "allow");
    assert_eq!(json["limits"]["max_turns"]["origin"]["layer"], "builtin");
    assert_eq!(json["builtin"]["time"]["running"], false);
    assert_eq!(
        json["model"]["providers"]["openai"]["settings"]["base_url"]["value"],
        "https://api.example/v1"
    );
}

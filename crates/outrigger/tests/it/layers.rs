//! Files of the person, of the project and of the command line together, and how they are shown.

use serde_json::json;

use crate::place::Place;
use crate::scripted::scripted;

#[test]
#[allow(clippy::too_many_lines, reason = "all that is shown, as it is shown")]
fn the_nearer_file_wins_and_is_named() {
    let place = Place::new();
    place.user("[servers.a]\ncommand = 'from-user'\n\n[servers.b]\ncommand = 'only-user'\nargs = ['x']\n\n[limits]\nmax_turns = 7");
    place.write(
        "project/.mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"from-project\"}\n  }\n}\n",
    );
    place.write(
        "nearest.yaml",
        "mcp_servers:\n  a:\n    type: stdio\n    command: from-flag\nlimits:\n  max_calls: 3\n",
    );
    let shown = |words: &[&str]| {
        let ran = place.run(&[&["config", "show", "--origin"], words].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:#?}");
        place.tidy(&ran.out)
    };
    let of = |shown: &str| {
        ["user", "project", "flag"].map(|from| shown.contains(&format!("from-{from}")))
    };
    let project = shown(&[]);
    assert_eq!(of(&project), [false, true, false], "{project}");
    let nearest = shown(&["--config", "../nearest.yaml"]);
    assert_eq!(of(&nearest), [false, false, true], "{nearest}");
    let (nearest, _) = nearest.split_once("\n\n[discovery]\n").unwrap();
    insta::assert_snapshot!(nearest, @r#"
    [servers.a]  # /project/../nearest.yaml:2
    type = "stdio"  # /project/../nearest.yaml:3
    command = "from-flag"  # /project/../nearest.yaml:4
    # replaces the entry at /project/.mcp.json:3
    # replaces the entry at /config/outrigger/outrigger.toml:1

    [servers.b]  # /config/outrigger/outrigger.toml:4
    command = "only-user"  # /config/outrigger/outrigger.toml:5
    args = ["x"]  # /config/outrigger/outrigger.toml:6

    [policy]
    default = "ask"  # default
    mode = "default"  # default

    [limits]
    max_turns = 7  # /config/outrigger/outrigger.toml:9
    max_calls = 3  # /project/../nearest.yaml:6
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
    workspace = true  # default
    echo = false  # default
    resources = false  # default
    "#);
}

#[test]
fn a_broken_nearer_entry_sets_the_server_aside() {
    let place = Place::new();
    let (good, log) = scripted(&place, "farther");
    let (other, _) = scripted(&place, "other");
    place.user(&format!(
        "[servers.lab]\ncommand = 'python3'\nargs = {}",
        good["args"]
    ));
    place.servers(&json!({ "lab": { "args": ["no command"] }, "other": other }));
    let ran = place.run(&["tools", "--json"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    let listed = ran.json();
    let states: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["server"].as_str().unwrap(), s["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        states,
        [
            ("lab", "quarantined"),
            ("other", "ready"),
            ("time", "ready"),
            ("workspace", "ready")
        ]
    );
    assert!(
        listed[0]["error"]
            .as_str()
            .unwrap()
            .contains(".mcp.json:3:"),
        "{listed:#}"
    );
    assert_eq!(
        log.heard().len(),
        0,
        "the farther entry is not used instead"
    );
    let called = place.run(&["call", "lab", "repeat", "text=x", "--allow", "*"]);
    assert_eq!(called.code, 2, "{called:#?}");
}

#[test]
fn the_workspace_binds_everything() {
    let place = Place::new();
    place.write(
        "elsewhere/.mcp.json",
        json!({ "mcpServers": { "where": {
        "command": "sh", "args": ["-c", "echo \"$0 in $PWD\" >&2; exit 1", "${workspace}/x"],
    } } })
        .to_string(),
    );
    place.write("elsewhere/notes.txt", "found me\n");
    let read = place.run(&[
        "--workspace",
        "../elsewhere",
        "call",
        "workspace",
        "read",
        "path=notes.txt",
        "--quiet",
    ]);
    assert!(read.code == 0 && read.out.contains("found me"), "{read:#?}");
    let ran = place.run(&["--workspace", "../elsewhere", "doctor"]);
    assert!(
        place
            .tidy(&ran.out)
            .contains("| /elsewhere/x in /elsewhere"),
        "{}",
        ran.out
    );
}

#[test]
fn an_undefined_variable_sets_its_server_aside() {
    let place = Place::new();
    let (good, _log) = scripted(&place, "lab");
    place.servers(&json!({ "lab": good, "needy": { "command": "x", "args": ["${NO_SUCH}", "${ALSO:-fine}"] } }));
    let ran = place.run(&["tools", "needy"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    insta::assert_snapshot!(place.tidy(&ran.out), @"
    needy set aside (config): /project/.mcp.json:13:9: `mcpServers.needy.args[0]` uses `${NO_SUCH}`, and no variable `NO_SUCH` is set
      hint: set `NO_SUCH` in the environment, or write `${NO_SUCH:-…}` with a default
    0 tools in all, ~0 tokens per request
    ");
    assert_eq!(
        place
            .run(&["call", "lab", "repeat", "text=x", "--allow", "*"])
            .code,
        0
    );
}

//! Profiles: what a client or a model sees of the servers, and what is started.

use std::fmt::Write as _;

use serde_json::json;

use crate::gateway::served::Line;
use crate::place::Place;
use crate::scripted::{Log, lab};

const PROFILES: &str = r#"
[profiles.clock]
description = "only the time"
servers = ["time"]

[profiles.repeating]
tools = ["mcp__lab__rep*", "mcp__time__current_time"]

[profiles.nothing]
servers = []
"#;

fn place() -> (Place, Log) {
    let (place, log) = lab();
    place.user(PROFILES);
    (place, log)
}

/// The names of tools that the gateway lists under these words.
fn listed(place: &Place, words: &[&str]) -> Vec<String> {
    let mut line = Line::start(place, &[&["serve"], words].concat());
    line.begin("2025-06-18", json!({}));
    let answer = line.ask("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
    let names = names.map(ToOwned::to_owned).collect();
    assert_eq!(line.end(), 0);
    names
}

#[test]
fn a_client_sees_what_its_profile_names() {
    let (place, log) = place();
    let all = listed(&place, &[]);
    assert!(all.len() > 4, "{all:?}");
    // What is kept of the listing is not that of another profile.
    let few = listed(&place, &["--profile", "repeating"]);
    assert_eq!(few, ["lab__repeat", "time__current_time"]);
    let started = log.of("initialize").len() + log.of("server/discover").len();
    let clock = listed(&place, &["--profile", "clock"]);
    assert!(
        !clock.is_empty() && clock.iter().all(|name| name.starts_with("time__")),
        "{clock:?}"
    );
    // A server that is not named is not even started.
    assert_eq!(
        log.of("initialize").len() + log.of("server/discover").len(),
        started
    );
    assert_eq!(
        listed(&place, &["--profile", "nothing"]),
        Vec::<String>::new()
    );
    assert_eq!(listed(&place, &[]), all);
    place.assert_nothing_runs();
}

#[test]
fn what_is_hidden_cannot_be_called_and_why_says_so() {
    let (place, _log) = place();
    let mut line = Line::start(&place, &["serve", "--profile", "repeating", "--allow", "*"]);
    line.begin("2025-06-18", json!({}));
    let call = json!({ "name": "time__days_between", "arguments": { "end": "2027-01-01" } });
    assert_eq!(line.ask("tools/call", call)["error"]["code"], -32602);
    line.end();

    let ran = place.run(&["call", "lab", "repeat", "text=x", "--profile", "clock"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    insta::assert_snapshot!(place.tidy(&ran.err), @r#"
    error: the profile `clock` at /config/outrigger/outrigger.toml:2 does not name a server `lab`
    "#);
    let ran = place.run(&[
        "call",
        "time",
        "days_between",
        "end=2027-01-01",
        "--profile",
        "repeating",
    ]);
    assert_eq!(ran.code, 2, "{ran:#?}");

    let mut said = String::new();
    for (tool, profile) in [
        ("mcp__lab__repeat", "clock"),
        ("mcp__time__days_between", "repeating"),
        ("mcp__time__current_time", "repeating"),
        ("nowhere", "clock"),
    ] {
        let ran = place.run(&["why", tool, "--profile", profile]);
        writeln!(said, "{}{}", ran.out, ran.err).unwrap();
    }
    insta::assert_snapshot!(place.tidy(&said), @r#"
    mcp__lab__repeat
      let through  no: the profile `clock` at /config/outrigger/outrigger.toml:2 does not name the server `lab`, which is not started
      active       no

    mcp__time__days_between
      discovered   yes: `days_between` of the server `time`
      set aside    no
      let through  no: the profile `repeating` at /config/outrigger/outrigger.toml:6 does not name it
      active       no

    mcp__time__current_time
      discovered   yes: `current_time` of the server `time`
      set aside    no
      let through  yes
      policy       allow: built-in tools may run
      active       yes: models are shown it

    error: no connected server has a tool `nowhere`
    hint: the profile `clock` may leave its server out: try it without `--profile`
    hint: `outrigger tools` lists what they have
    "#);
}

#[test]
fn an_unknown_profile_ends_every_command_that_uses_servers() {
    let (place, log) = place();
    for words in [
        &["serve"][..],
        &["tools"],
        &["call", "lab", "repeat"],
        &["ask", "x"],
        &["doctor"],
        &["why", "x"],
        &["resource"],
        &["prompt"],
    ] {
        let ran = place.run(&[words, &["--profile", "clok"]].concat());
        assert_eq!(ran.code, 2, "{words:?}: {ran:#?}");
        assert!(
            ran.err.contains("there is no profile `clok`")
                && ran.err.contains("`clock`, `repeating`, `nothing`"),
            "{words:?}: {ran:#?}"
        );
    }
    assert_eq!(log.of("tools/list").len(), 0);
}

#[test]
fn a_profile_only_narrows() {
    let (place, _log) = place();
    place.user("[profiles.all]\nservers = [\"*\"]\ntools = [\"*\"]\n[builtin]\nworkspace = false\n[policy.tools]\n\"mcp__lab__repeat\" = \"deny\"");
    let names = |words: &[&str]| {
        let mut servers = place.json(&[&["tools", "--json"], words].concat());
        for server in servers.as_array_mut().unwrap() {
            server["took_ms"] = 0.into();
        }
        servers
    };
    assert_eq!(names(&["--profile", "all"]), names(&[]));
    let ran = place.run(&[
        "call",
        "lab",
        "repeat",
        "text=x",
        "--profile",
        "all",
        "--allow",
        "*",
    ]);
    assert_eq!(ran.code, 3, "{ran:#?}");
}

#[test]
fn a_checkout_cannot_widen_a_profile_and_a_broken_one_starts_nothing() {
    let (place, _log) = place();
    place.write(
        "project/.outrigger/outrigger.toml",
        "[profiles.clock]\nservers = [\"*\"]\n[profiles.own]\nservers = [\"time\"]\n",
    );
    let ran = place.run_wary(&["tools", "--profile", "clock"]);
    assert!(!ran.out.contains("workspace"), "{ran:#?}");
    assert!(
        ran.err
            .contains("`profiles.clock` does not replace the one at"),
        "{ran:#?}"
    );
    assert_eq!(place.run_wary(&["tools", "--profile", "own"]).code, 0);

    place.write(
        "project/.outrigger/outrigger.toml",
        "[profiles.own]\nserver = [\"time\"]\ntools = [\"[\"]\n",
    );
    let ran = place.run_wary(&["tools"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    insta::assert_snapshot!(place.tidy(&ran.err), @r#"
    note: this folder is not trusted, so what its files bring is not used: server `lab`
    hint: `outrigger trust` shows it and asks; `--trust-project` trusts it for one run
    error: unknown key `server` in `profiles.own`
      /project/.outrigger/outrigger.toml:2:1
         |
       2 | server = ["time"]
         | ^
      hint: did you mean `servers`?
    error: `[` is not a usable glob: unclosed character class; missing ']'
      /project/.outrigger/outrigger.toml:3:10
         |
       3 | tools = ["["]
         |          ^
    error: the configuration cannot be used; nothing was started
    hint: `outrigger doctor` looks at the rest
    "#);
}

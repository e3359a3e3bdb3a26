//! Configuration that cannot be used: what is said, where, and the exit code.

use serde_json::json;

use crate::place::{Place, Ran};

fn said(place: &Place, ran: &Ran) -> String {
    place.tidy(&format!("exit {}\n{}", ran.code, ran.err))
}

fn with(file: &str, text: &str) -> String {
    let place = Place::new();
    place.write(file, text);
    let ran = place.run(&["tools"]);
    assert_eq!(ran.out, "", "nothing was started");
    said(&place, &ran)
}

#[test]
fn no_configuration_at_all_still_has_tools() {
    let place = Place::new();
    let ran = place.run(&["tools"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:#?}");
    assert!(
        ran.out.contains("mcp__time__current_time") && ran.out.contains("mcp__workspace__read"),
        "{}",
        ran.out
    );
    let called = place.run(&[
        "call",
        "time",
        "days_between",
        "start=2026-12-01",
        "end=2027-01-01",
    ]);
    assert!(called.code == 0 && called.out.contains("31"), "{called:#?}");
    let seen = place.run(&["doctor"]);
    assert_eq!(seen.code, 0, "{seen:#?}");
    assert!(
        seen.out.contains(
            "servers: 2 configured, 2 connected\ntools:   6 discovered, 6 allowed, 6 active"
        ),
        "{}",
        seen.out
    );
}

#[test]
fn broken_files_name_line_and_column() {
    insta::assert_snapshot!(with("project/.mcp.json", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\" \"args\": []}\n  }\n}"), @r#"
    exit 2
    error: broken JSON at line 3, column 26: a comma is missing before this
      /project/.mcp.json:3:26
         |
       3 |     "a": {"command": "x" "args": []}
         |                          ^
    error: the configuration cannot be used; nothing was started
    hint: `outrigger doctor` looks at the rest
    "#);
    insta::assert_snapshot!(with("project/.outrigger/outrigger.toml", "[servers.a]\ncommand = x"), @"
    exit 2
    error: broken TOML at line 2, column 11: string values must be quoted, expected literal string
      /project/.outrigger/outrigger.toml:2:11
         |
       2 | command = x
         |           ^
    error: the configuration cannot be used; nothing was started
    hint: `outrigger doctor` looks at the rest
    ");
    insta::assert_snapshot!(with("config/outrigger/outrigger.yaml", "servers:\n  a:\n    command: x\n   args: []\n"), @"
    exit 2
    error: broken YAML at line 4, column 4: while parsing a block mapping, did not find expected key
      /config/outrigger/outrigger.yaml:4:4
         |
       4 |    args: []
         |    ^
    error: the configuration cannot be used; nothing was started
    hint: `outrigger doctor` looks at the rest
    ");
}

#[test]
fn an_unknown_key_suggests_the_nearest() {
    insta::assert_snapshot!(with("config/outrigger/outrigger.toml", "[limits]\nmax_turn = 3"), @"
    exit 2
    error: unknown key `max_turn` in `limits`
      /config/outrigger/outrigger.toml:2:1
         |
       2 | max_turn = 3
         | ^
      hint: did you mean `max_turns`?
    error: the configuration cannot be used; nothing was started
    hint: `outrigger doctor` looks at the rest
    ");
    insta::assert_snapshot!(with("config/outrigger/outrigger.toml", "[polcy]\ndefault = 'deny'"), @"
    exit 2
    error: unknown key `polcy`
      /config/outrigger/outrigger.toml:1:2
         |
       1 | [polcy]
         |  ^
      hint: did you mean `policy`?
    error: the configuration cannot be used; nothing was started
    hint: `outrigger doctor` looks at the rest
    ");
    let place = Place::with_servers(&json!({ "a": { "comand": "x" } }));
    let ran = place.run(&["tools", "a"]);
    insta::assert_snapshot!(place.tidy(&format!("exit {}\n{}{}", ran.code, ran.out, ran.err)), @"
    exit 4
    a set aside (config): /project/.mcp.json:4:7: `mcpServers.a.comand` is not a key that is used here; /project/.mcp.json:3:5: `mcpServers.a` has neither `command` nor `url`
      hint: did you mean `command`?
      hint: a program to start needs `command`, a server on the network needs `url`
    0 tools in all, ~0 tokens per request
    ");
}

#[test]
fn what_was_named_must_be_there() {
    let place = Place::new();
    insta::assert_snapshot!(said(&place, &place.run(&["--config", "nowhere.toml", "tools"])), @"
    exit 2
    error: the file named by `--config` does not exist
      /project/nowhere.toml
    error: the configuration cannot be used; nothing was started
    hint: `outrigger doctor` looks at the rest
    ");
    insta::assert_snapshot!(said(&place, &place.run(&["--workspace", "nowhere", "tools"])), @"
    exit 2
    error: the workspace `/project/nowhere` cannot be used: No such file or directory (os error 2)
    ");
    place.write("project/file", "");
    insta::assert_snapshot!(said(&place, &place.run(&["--workspace", "file", "tools"])), @"
    exit 2
    error: the workspace `/project/file` is not a folder
    ");
    let homeless = place.run_with(&["runs"], |command| {
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    });
    insta::assert_snapshot!(said(&place, &homeless), @"
    exit 2
    error: there is no home folder (`HOME` is not set)
    hint: set `HOME`, or give --state-dir DIR
    ");
}

#[test]
fn a_doctor_looks_at_the_rest() {
    let place = Place::new();
    place.write("project/.mcp.json", "{\n");
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(
        ran.out.contains("error: broken JSON at line 1, column 1"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("ok   time"), "{}", ran.out);
}

#[test]
fn words_that_mean_nothing() {
    let place = Place::new();
    let ran = place.run(&["tols"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("unrecognized subcommand 'tols'"),
        "{}",
        ran.err
    );
    insta::assert_snapshot!(said(&place, &place.run(&["tools", "tme"])), @"
    exit 2
    error: there is no server `tme`
    hint: configured are `time`, `workspace`
    ");
    insta::assert_snapshot!(said(&place, &place.run(&["server", "clock"])), @"
    exit 2
    error: there is no built-in server `clock`; there are `time`, `echo` and `workspace`
    ");
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "x", "--allow", "mcp__["])), @"
    exit 2
    error: `mcp__[` is not a usable glob: unclosed character class; missing ']'
    hint: for example `--allow 'mcp__files__*'`
    ");
    insta::assert_snapshot!(said(&place, &place.run(&["ask", "  "])), @r#"
    exit 2
    error: there is no question
    hint: outrigger ask "What day is it today?"
    "#);
    insta::assert_snapshot!(said(&place, &place.run(&["ask"])), @r#"
    exit 2
    error: there is no question
    hint: outrigger ask "What day is it today?"
    "#);
}

#[test]
fn help_lists_the_exit_codes() {
    let ran = Place::new().run(&["--help"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for line in [
        "0    done",
        "3    refused",
        "5    the outcome of a call is unknown",
        "130  interrupted",
    ] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
}

//! Servers that cannot be had: named, explained with their own last words, and a hint.

use serde_json::{Value, json};

use crate::place::Place;

/// What `doctor` says about one server, and the exit code.
fn seen(entry: &Value) -> String {
    let place = Place::with_servers(&json!({ "bad": entry }));
    place.user("[builtin]\ntime = false\nworkspace = false");
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.err, "", "{ran:#?}");
    place.assert_nothing_runs();
    place.tidy(&format!("exit {}\n{}", ran.code, ran.out))
}

#[test]
fn a_command_that_is_not_there() {
    let place = Place::with_servers(&json!({ "bad": { "command": "no-such-server" } }));
    let ran = place.run_with(&["tools", "bad"], |command| {
        command.env("PATH", "/usr/bin:/bin");
    });
    insta::assert_snapshot!(place.tidy(&format!("exit {}\n{}{}", ran.code, ran.out, ran.err)), @"
    exit 4
    bad set aside (start): `no-such-server` was not found in PATH (/usr/bin:/bin)
      hint: give the absolute path of the program, or add its folder to PATH in `env`
    0 tools in all, ~0 tokens per request
    ");
    let doctor = place.run_with(&["doctor"], |command| {
        command.env("PATH", "/usr/bin:/bin");
    });
    insta::assert_snapshot!(doctor.out.lines().filter(|line| line.contains("hint")).collect::<Vec<_>>().join("\n"), @"       hint: give the absolute path of the program, or add its folder to PATH in `env`");
    insta::assert_snapshot!(seen(&json!({ "command": "./not/here" })), @"
    exit 4
    FAIL bad set aside (start): `/project/not/here` does not exist
           hint: give the absolute path of the program, or add its folder to PATH in `env`

    servers: 1 configured, 0 connected
    tools:   0 discovered, 0 allowed, 0 active
    ");
}

#[test]
fn a_server_that_exits_at_once_has_the_last_word() {
    insta::assert_snapshot!(seen(&json!({ "command": "sh", "args": ["-c", "echo reading settings >&2; echo 'cannot open the database: disk is on fire' >&2; exit 3"] })), @"
    exit 4
    FAIL bad set aside (start): `sh -c echo reading settings >&2; echo 'cannot open the database: disk is on fire' >&2; exit 3` ended before it answered `initialize`: exit status 3, both times it was started
           | reading settings
           | cannot open the database: disk is on fire
           hint: run the command by itself in a terminal to see what it says

    servers: 1 configured, 0 connected
    tools:   0 discovered, 0 allowed, 0 active
    ");
    insta::assert_snapshot!(seen(&json!({ "command": "true" })), @"
    exit 4
    FAIL bad set aside (start): `true` ended before it answered `initialize`: exit status 0, both times it was started
           hint: run the command by itself in a terminal to see what it says

    servers: 1 configured, 0 connected
    tools:   0 discovered, 0 allowed, 0 active
    ");
}

#[test]
fn its_last_words_are_also_beside_a_question_and_a_call() {
    let place = Place::with_servers(
        &json!({ "bad": { "command": "sh", "args": ["-c", "echo 'no licence found' >&2; exit 3"] } }),
    );
    let called = place.run(&["call", "bad", "anything"]);
    assert_eq!(called.code, 4, "{called:#?}");
    assert!(called.err.contains("| no licence found"), "{}", called.err);
    assert!(
        place.last_run().contains("server bad: failed at start"),
        "{}",
        place.last_run()
    );
}

#[test]
fn an_address_where_nobody_listens() {
    insta::assert_snapshot!(seen(&json!({ "url": "http://127.0.0.1:1/mcp" })), @"
    exit 4
    FAIL bad set aside (start): cannot reach http://127.0.0.1:1/mcp: Connection refused (os error 111)
           hint: is the server running, and is the address right?

    servers: 1 configured, 0 connected
    tools:   0 discovered, 0 allowed, 0 active
    ");
    insta::assert_snapshot!(seen(&json!({ "url": "127.0.0.1:1/mcp" })), @"
    exit 4
    FAIL bad set aside (config): /project/.mcp.json:4:14: `mcpServers.bad.url` has no `http://` or `https://` at its beginning
           hint: write `http://` before it

    servers: 1 configured, 0 connected
    tools:   0 discovered, 0 allowed, 0 active
    ");
    insta::assert_snapshot!(seen(&json!({ "url": "ftp://127.0.0.1/mcp" })), @"
    exit 4
    FAIL bad set aside (config): /project/.mcp.json:4:14: `mcpServers.bad.url` begins with `ftp://`, which is not spoken here
           hint: it must begin with `http://` or `https://`

    servers: 1 configured, 0 connected
    tools:   0 discovered, 0 allowed, 0 active
    ");
}

#[test]
fn an_address_where_something_else_listens() {
    // A model provider is a web server that knows nothing of this protocol.
    let other = crate::model::Model::turns([]);
    let place =
        Place::with_servers(&json!({ "bad": { "url": format!("{}/mcp", other.base_url()) } }));
    let ran = place.run(&["tools", "bad"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    assert!(ran.out.contains("404"), "{}", ran.out);
}

#[test]
fn a_program_that_speaks_another_language() {
    let said = seen(
        &json!({ "command": "sh", "args": ["-c", "while read line; do echo 'what?'; done"], "timeouts": { "start": "2s", "probe": "1s" } }),
    );
    insta::assert_snapshot!(said, @"
    exit 4
    FAIL bad set aside (handshake): no answer to `initialize` from `sh -c while read line; do echo 'what?'; done` within 2.0 s
           | what?
           | what?
           hint: if it only starts slowly (a package to install, say), raise its `start` deadline
           hint: it printed 2 lines on its standard output that are no messages; is it an MCP server?

    servers: 1 configured, 0 connected
    tools:   0 discovered, 0 allowed, 0 active
    ");
}

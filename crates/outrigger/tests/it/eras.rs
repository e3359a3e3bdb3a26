//! Which era a server speaks is remembered between runs, and believed only as long as it holds.

use std::fs;

use serde_json::json;

use crate::place::Place;

/// A server of one era that ends on the other's first question, and logs the methods it hears.
fn server(modern: bool) -> String {
    let (knows, result) = if modern {
        (
            "server/discover",
            r#"{"supportedVersions": ["2026-07-28"], "capabilities": {}}"#,
        )
    } else {
        (
            "initialize",
            r#"{"protocolVersion": "2025-06-18", "capabilities": {}}"#,
        )
    };
    format!(
        r#"
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    open("heard.log", "a").write(m["method"] + "\n")
    if m["method"] == "{knows}":
        r = {result}
    elif m["method"] == "tools/list":
        r = {{"tools": []}}
    elif m["method"] == "subscriptions/listen" or "id" not in m:
        continue
    else:
        sys.exit("what is that?")
    print(json.dumps({{"jsonrpc": "2.0", "id": m["id"], "result": r}}), flush=True)
"#
    )
}

/// The first question that each start of the server heard.
fn asked(place: &Place) -> Vec<String> {
    let ran = place.run(&["tools", "lab"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let log = place.project().join("heard.log");
    let heard = fs::read_to_string(&log).unwrap();
    fs::remove_file(log).unwrap();
    let questions = heard
        .lines()
        .filter(|method| ["server/discover", "initialize"].contains(method));
    questions.map(str::to_owned).collect()
}

#[test]
fn a_second_start_asks_only_what_the_server_knows() {
    let place = Place::with_servers(
        &json!({ "lab": { "command": "python3", "args": ["server.py"], "env": { "TOKEN": "tok-very-secret-1" } } }),
    );
    place.write("project/server.py", server(false));
    assert_eq!(asked(&place), ["server/discover", "initialize"]);
    assert_eq!(asked(&place), ["initialize"], "no probe");

    // The name of a server is nothing that it is known by.
    let entry = fs::read_to_string(place.project().join(".mcp.json")).unwrap();
    place.write("project/.mcp.json", entry.replace("\"TOKEN\"", "\"OTHER\""));
    assert_eq!(asked(&place), ["initialize"]);

    let folder = place.root.join("cache/outrigger/eras");
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "legacy\n");
    fs::write(file.path(), "leg").unwrap();
    assert_eq!(asked(&place), ["server/discover", "initialize"]);

    // It learns the new era and forgets the old one.
    place.write("project/server.py", server(true));
    assert_eq!(asked(&place), ["initialize", "server/discover"]);
    assert_eq!(asked(&place), ["server/discover"]);
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "modern\n");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    place.assert_nothing_runs();
}

#[test]
fn without_a_place_to_remember_every_start_asks() {
    let place =
        Place::with_servers(&json!({ "lab": { "command": "python3", "args": ["server.py"] } }));
    place.write("project/server.py", server(false));
    // A file where the folder should be.
    place.write("cache", "");
    for _ in 0..2 {
        assert_eq!(asked(&place), ["server/discover", "initialize"]);
    }
}

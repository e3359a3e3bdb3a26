//! Processes of servers behind the gateway: gone when nobody uses them, back when somebody does, and
//! never too many.

use serde_json::{Value, json};

use super::served::Line;
use super::text;
use crate::place::{Place, fixture, until};
use crate::scripted::scripted;

/// Processes that run this fixture.
fn running(place: &Place, fixture: &str) -> usize {
    let all = place.processes();
    let is_it = |line: &&String| {
        let program = line.split(' ').next().unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        name.starts_with("python") && line.contains(fixture)
    };
    all.iter().filter(is_it).count()
}

fn uris(listed: &Value) -> usize {
    listed["result"]["resources"].as_array().unwrap().len()
}

#[test]
fn a_server_that_nobody_uses_is_gone_until_it_is_wanted() {
    let place = Place::new();
    let (mut lab, log) = scripted(&place, "lab");
    lab["timeouts"] = json!({ "idle": "1s" });
    let notes = json!({
        "command": "python3",
        "args": [fixture("asking_server.py"), place.root.join("log")],
        "timeouts": { "idle": "1s" },
    });
    place.servers(&json!({ "lab": lab, "notes": notes }));
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    line.begin("2025-11-25", json!({}));
    let tools = line.ask("tools/list", json!({}));
    let resources = line.ask("resources/list", json!({}));
    assert_eq!(uris(&resources), 2);
    until("the servers are gone", || {
        running(&place, "scripted_server") + running(&place, "asking_server") == 0
    });

    // Listed as before, without a process, and without a word about it.
    assert_eq!(line.ask("tools/list", json!({}))["result"], tools["result"]);
    let again = line.ask("resources/list", json!({}));
    assert_eq!(again["result"], resources["result"]);
    assert_eq!(running(&place, "asking_server"), 0);
    let changed = |line: &Line| {
        let mut heard = line.heard.iter();
        heard.any(|told| told["method"] == "notifications/tools/list_changed")
    };
    line.heard.clear();

    let call = json!({ "name": "lab__repeat", "arguments": { "text": "back" } });
    let answer = line.ask("tools/call", call);
    assert_eq!(text(&answer), "back");
    assert_eq!(running(&place, "scripted_server"), 1);
    assert_eq!(log.of("initialize").len(), 2);
    line.ask("resources/read", json!({ "uri": "note:1" }));
    until("the servers are gone", || {
        running(&place, "scripted_server") + running(&place, "asking_server") == 0
    });
    assert!(!changed(&line), "{:?}", line.heard);
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
    let events = place.events();
    assert!(events.contains("nobody has used it for"), "{events}");
}

#[test]
fn no_more_servers_run_than_may() {
    let place = Place::new();
    let (mut one, _) = scripted(&place, "one");
    let (mut two, _) = scripted(&place, "two");
    for entry in [&mut one, &mut two] {
        entry["timeouts"] = json!({ "idle": "2s" });
    }
    place.servers(&json!({ "one": one, "two": two }));
    place.user("[limits]\nmax_servers = 1");
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    line.begin("2025-11-25", json!({}));
    // One makes room for the other, which was never seen.
    let mut most = 0;
    until("both were seen", || {
        most = most.max(running(&place, "scripted_server"));
        let listed = line.ask("tools/list", json!({})).to_string();
        listed.contains("one__keep") && listed.contains("two__keep")
    });
    let mut call = |server: &str| {
        let call = json!({ "name": format!("{server}__keep"), "arguments": {} });
        text(&line.ask("tools/call", call)).to_owned()
    };
    // Whoever has the place keeps it while it is used.
    let mut told = String::new();
    until("one is too many", || {
        told = ["one", "two", "one"].map(&mut call).join("\n");
        told.contains("busy")
    });
    assert!(
        told.contains("nothing was sent") && told.contains("`limits.max_servers` is 1"),
        "{told}"
    );
    for server in ["one", "two"] {
        until("there is room", || !call(server).contains("busy"));
        most = most.max(running(&place, "scripted_server"));
    }
    assert_eq!(most, 1);
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
}

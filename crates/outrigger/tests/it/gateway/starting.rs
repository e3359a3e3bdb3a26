//! What clients see while servers start, fail, and change.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::served::{Line, Served, modern, names_over};
use super::text;
use crate::place::{Place, fixture, until};
use crate::scripted::scripted;

/// A place with a server, `slow`, that does not begin before `gate` is there, and one that does.
pub(super) fn gated() -> (Place, std::path::PathBuf) {
    let place = Place::new();
    let gate = place.root.join("gate");
    let (lab, _) = scripted(&place, "lab");
    let tools = place.write("tools.json", tools(&["keep", "close"]));
    let wait = "while [ ! -e \"$0\" ]; do sleep 0.02; done; exec python3 \"$@\"";
    let slow = json!({ "command": "sh", "args": [
        "-c", wait, gate, fixture("scripted_server.py"), place.root.join("slow.log"), tools
    ] });
    place.servers(&json!({ "slow": slow, "lab": lab }));
    (place, gate)
}

fn tools(names: &[&str]) -> String {
    let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
    Value::from(names.iter().map(tool).collect::<Vec<_>>()).to_string()
}

/// Fills what is kept, and takes the gate away again.
pub(super) fn known(place: &Place, gate: &std::path::Path) {
    fs::write(gate, "").unwrap();
    let mut line = Line::start(place, &["serve", "--allow", "*"]);
    let names = names_over(&mut line);
    assert!(names.contains(&"slow__keep".to_owned()), "{names:?}");
    until("it is kept", || {
        fs::read_dir(place.root.join("cache/outrigger/gateway"))
            .is_ok_and(|files| files.count() == 1)
    });
    assert_eq!(line.end(), 0);
    fs::remove_file(gate).unwrap();
}

#[test]
fn the_listing_does_not_wait_and_a_call_does() {
    let (place, gate) = gated();
    known(&place, &gate);
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    let names = names_over(&mut line);
    assert!(names.contains(&"slow__keep".to_owned()), "{names:?}");
    assert!(names.contains(&"lab__repeat".to_owned()), "{names:?}");
    // The rest works meanwhile.
    let call = json!({ "name": "lab__repeat", "arguments": { "text": "a" } });
    assert_eq!(text(&line.ask("tools/call", call)), "a");
    let waiting = line.send(
        "tools/call",
        json!({ "name": "slow__keep", "arguments": {} }),
    );
    assert_eq!(line.ask("ping", json!({}))["result"], json!({}));
    // What it offers by now is something else.
    place.write("tools.json", tools(&["keep", "shut"]));
    fs::write(&gate, "").unwrap();
    let end = line.wait(waiting);
    assert_eq!(text(&end), "kept");
    line.hears("notifications/tools/list_changed");
    let names: Vec<_> = line.ask("tools/list", json!({}))["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        names.contains(&"slow__shut".to_owned()) && !names.contains(&"slow__close".to_owned()),
        "{names:?}"
    );
    let gone = line.ask(
        "tools/call",
        json!({ "name": "slow__close", "arguments": {} }),
    );
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    assert_eq!(line.end(), 0);
}

#[test]
fn the_first_listing_of_all_waits_for_what_is_not_known() {
    let (place, gate) = gated();
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    line.begin("2025-11-25", json!({}));
    let id = line.send("tools/list", json!({}));
    assert_eq!(line.ask("ping", json!({}))["result"], json!({}));
    fs::write(&gate, "").unwrap();
    let listed = line.wait(id);
    assert!(listed.to_string().contains("slow__keep"), "{listed}");
    assert_eq!(line.end(), 0);
}

#[test]
fn what_any_program_has_met_is_known_in_another_configuration_too() {
    let (place, gate) = gated();
    known(&place, &gate);
    // As after any change of the configuration, and in any other folder.
    fs::remove_dir_all(place.root.join("cache")).unwrap();
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    let names = names_over(&mut line);
    assert!(names.contains(&"slow__keep".to_owned()), "{names:?}");
    fs::write(&gate, "").unwrap();
    let call = json!({ "name": "slow__keep", "arguments": {} });
    assert_eq!(text(&line.ask("tools/call", call)), "kept");
    assert_eq!(line.end(), 0);
    // Nor is it shown where a rule denies it.
    fs::remove_dir_all(place.root.join("cache")).unwrap();
    fs::remove_file(&gate).unwrap();
    place.user("[policy]\ntools = { 'mcp__slow__close' = 'deny' }");
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    let names = names_over(&mut line);
    assert!(names.contains(&"slow__keep".to_owned()), "{names:?}");
    assert!(!names.contains(&"slow__close".to_owned()), "{names:?}");
    assert_eq!(line.end(), 0);
}

#[test]
fn lists_of_prompts_do_not_wait_for_a_server_that_has_been_met() {
    let (place, gate) = gated();
    known(&place, &gate);
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    line.begin("2025-11-25", json!({}));
    let begun = Instant::now();
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let listed = line.ask(method, json!({}));
        assert!(listed["result"].is_object(), "{listed}");
    }
    // As long as they wait for strangers.
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(line.end(), 0);
}

#[test]
fn what_is_known_is_kept_before_the_slowest_server_is_there() {
    let (place, _gate) = gated();
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    line.begin("2025-11-25", json!({}));
    let folder = place.root.join("cache/outrigger/gateway");
    let kept = || {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut texts = files.map(|file| fs::read_to_string(file.path()).unwrap_or_default());
        texts.any(|text| text.contains("mcp__lab__repeat"))
    };
    until("it is kept", kept);
    assert_eq!(line.end(), 0);
}

#[test]
fn a_server_that_cannot_be_had_says_so_and_the_rest_works() {
    let (place, gate) = gated();
    known(&place, &gate);
    // The same configuration; what it starts is gone.
    fs::write(&gate, "").unwrap();
    fs::remove_file(place.root.join("tools.json")).unwrap();
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    let names = names_over(&mut line);
    assert!(names.contains(&"slow__keep".to_owned()), "{names:?}");
    let call = json!({ "name": "slow__keep", "arguments": {} });
    let answer = line.ask("tools/call", call);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let words = text(&answer);
    let start = "Not called: nothing was sent to the server `slow` (";
    assert!(words.starts_with(start), "{words}");
    let call = json!({ "name": "lab__repeat", "arguments": { "text": "a" } });
    assert_eq!(text(&line.ask("tools/call", call)), "a");
    assert_eq!(line.end(), 0);
}

#[test]
fn a_change_is_told_in_each_era_s_way() {
    let place = Place::new();
    let now = place.write("now.json", tools(&["keep", "old"]));
    let then = place.write("then.json", tools(&["keep", "new"]));
    let log = place.root.join("lab.log");
    place.servers(&json!({ "lab": {
        "command": "python3", "args": [fixture("scripted_server.py"), log, now, "1", then]
    } }));
    let served = Served::start(&place, &["--allow", "*"]);
    let id = served.session(json!({}));
    let names = served.names();
    assert!(names.contains(&"lab__old".to_owned()), "{names:?}");
    let get = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {id}\r\n\r\n"
    );
    let legacy = served.open(get.as_bytes());
    let params = modern(
        json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } }),
    );
    let body = json!({ "jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen", "params": params }).to_string();
    let post = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: subscriptions/listen\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let modern_stream = served.open(post.as_bytes());
    let (mut legacy, mut modern_stream) = (Events::of(legacy), Events::of(modern_stream));
    let first = modern_stream.next();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        first["params"]["notifications"],
        json!({ "toolsListChanged": true, "promptsListChanged": true })
    );
    served.modern(
        "tools/call",
        json!({ "name": "lab__keep", "arguments": {} }),
    );
    let told = modern_stream.next();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(
        told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "sub"
    );
    assert_eq!(legacy.next()["method"], "notifications/tools/list_changed");
    let names = served.names();
    assert!(names.contains(&"lab__new".to_owned()), "{names:?}");
    // Whoever listens is told of the end.
    drop(served);
    let end = modern_stream.next();
    assert_eq!(end["id"], "sub");
    assert_eq!(
        end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "sub"
    );
}

/// The events of an open stream.
struct Events(std::io::Lines<std::io::BufReader<std::net::TcpStream>>);

impl Events {
    fn of(stream: std::net::TcpStream) -> Self {
        use std::io::BufRead as _;
        let mut lines = std::io::BufReader::new(stream).lines();
        // To the first bytes of the body: from there on it listens.
        for line in lines.by_ref() {
            if line.unwrap().is_empty() {
                break;
            }
        }
        Self(lines)
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        loop {
            let line = self.0.next().expect("the stream ended").unwrap();
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

//! Resources that clients follow: a server is told when the first of them does, and when the last does not
//! any more.

use serde_json::{Value, json};

use super::isolation::{standing, until_line};
use super::principals::{Somebody, principal};
use super::served::{Line, Served, modern};
use crate::place::{Place, fixture, until};
use crate::scripted::Log;

const URI: &str = "memo://kept";

/// Two principals with one server that keeps things.
fn keeping() -> (Place, [String; 2], Log) {
    let place = Place::new();
    let log = place.root.join("keep.log");
    place.servers(&json!({ "lab": {
        "command": "python3",
        "args": [fixture("keeping_server.py"), log],
        "sharing": "shared",
    } }));
    place.user("[builtin]\ntime = false\nworkspace = false");
    let tokens = ["alice", "bob"].map(|name| principal(&place, name, ""));
    (place, tokens, Log::at(log))
}

fn request(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": { "uri": URI } })
}

#[test]
fn a_server_is_told_once_that_a_resource_is_followed_and_once_that_it_is_not() {
    let (place, tokens, log) = keeping();
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let sessions = [&alice, &alice, &bob].map(|somebody| somebody.session());
    let ask = |somebody: &Somebody<'_>, session: usize, method: &str| {
        let heard = somebody.within(&sessions[session], &request(method));
        assert_eq!(heard.json()["result"], json!({}), "{heard:?}");
    };
    let told =
        || ["resources/subscribe", "resources/unsubscribe"].map(|method| log.of(method).len());
    // Two sessions of alice, one of bob, and a stream of the newer era.
    let mut hears = standing(&bob, &sessions[2]);
    ask(&alice, 0, "resources/subscribe");
    ask(&alice, 0, "resources/subscribe");
    ask(&alice, 1, "resources/subscribe");
    ask(&bob, 2, "resources/subscribe");
    let wanted = json!({ "notifications": { "resourceSubscriptions": [URI] } });
    let mut listening = bob.begin("subscriptions/listen", wanted);
    until_line(&mut listening, "acknowledged");
    assert_eq!(told(), [1, 0]);

    ask(&alice, 0, "resources/unsubscribe");
    // A session that is ended follows nothing any more.
    let headers = [("Mcp-Session-Id", sessions[1].as_str()), alice.shown()];
    assert_eq!(served.request("DELETE", "/mcp", &headers, b"").status, 204);
    drop(listening);
    alice.call("lab__keep", json!({ "text": "x" }));
    until_line(&mut hears, "notifications/resources/updated");
    assert_eq!(told(), [1, 0], "bob follows it still");
    ask(&bob, 2, "resources/unsubscribe");
    until("the server is told", || told() == [1, 1]);

    // From the beginning, by a stream that its client leaves.
    let wanted = json!({ "notifications": { "resourceSubscriptions": [URI] } });
    let mut listening = bob.begin("subscriptions/listen", wanted);
    until_line(&mut listening, "acknowledged");
    assert_eq!(told(), [2, 1]);
    drop(listening);
    until("the server is told again", || told() == [2, 2]);
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn a_server_of_the_newer_era_is_listened_to_for_what_is_followed_only() {
    let place = Place::new();
    let log = Log::at(place.root.join("shelf.log"));
    place.servers(&json!({ "shelf": {
        "command": "python3", "args": [fixture("shelf_server.py"), log.0, "modern"],
    } }));
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    line.begin("2025-11-25", json!({}));
    let follows = || {
        let last = log.of("subscriptions/listen").pop().unwrap();
        last["params"]["notifications"]["resourceSubscriptions"].clone()
    };
    let (a, b) = ("note:///a", "note:///bytes");
    for uri in [a, b] {
        let answer = line.ask("resources/subscribe", json!({ "uri": uri }));
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    assert_eq!(follows(), json!([a, b]));
    let wanted = json!({ "notifications": { "resourceSubscriptions": [a] } });
    let listening = line.send("subscriptions/listen", modern(wanted));
    line.hears("notifications/subscriptions/acknowledged");
    let count = log.of("subscriptions/listen").len();
    line.ask("resources/unsubscribe", json!({ "uri": a }));
    line.ask("resources/unsubscribe", json!({ "uri": b }));
    until("one is left", || follows() == json!([a]));
    line.tell("notifications/cancelled", json!({ "requestId": listening }));
    until("none is left", || follows() == Value::Null);
    assert_eq!(log.of("subscriptions/listen").len(), count + 2);
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
}

//! What has an id is good to whoever it was given to alone: to anybody else the id of somebody's task, round or
//! subscription is as good as one that was made up.

use std::fs;

use serde_json::{Value, json};

use super::isolation::{call_asked, standing, until_line};
use super::principals::{Somebody, principal};
use super::served::{Heard, Served};
use super::tasks::takes_tasks;
use super::text;
use crate::place::{Place, fixture, until};

/// As long as an id of ours.
const MADE_UP: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Two principals with a server, of each its own or one for both.
fn two(sharing: &str) -> (Place, [String; 2]) {
    let place = Place::new();
    let log = place.root.join("keep.log");
    place.servers(&json!({ "lab": {
        "command": "python3",
        "args": [fixture("keeping_server.py"), log],
        "answers": ["elicitation"],
        "sharing": sharing,
    } }));
    place.user("[builtin]\ntime = false\nworkspace = false");
    let tokens = ["alice", "bob"].map(|name| principal(&place, name, ""));
    (place, tokens)
}

/// What was said, without the id that was asked about.
fn without(heard: &Heard, id: &str) -> (u16, Value) {
    let said = heard.json().to_string().replace(id, "ID");
    (heard.status, serde_json::from_str(&said).unwrap())
}

/// A request of a session.
fn request(method: &str, params: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": 9, "method": method });
    message["params"] = params;
    message
}

/// Asks about both ids in each way that there is, and compares what is said.
#[track_caller]
fn means_nothing_to(somebody: &Somebody<'_>, session: &str, id: &str) {
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let ask = |id: &str| {
            let params = json!({ "taskId": id, "inputResponses": {} });
            without(&somebody.heard(method, takes_tasks(params)), id)
        };
        let told = ask(id);
        assert_eq!(told.1["error"]["code"], -32602, "{method}: {told:?}");
        assert_eq!(told, ask(MADE_UP), "{method}");
    }
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let ask = |id: &str| {
            let message = request(method, json!({ "taskId": id }));
            without(&somebody.within(session, &message), id)
        };
        let told = ask(id);
        assert_eq!(told.1["error"]["code"], -32602, "{method}: {told:?}");
        assert_eq!(told, ask(MADE_UP), "{method}");
    }
    let listed = somebody.within(session, &request("tasks/list", json!({})));
    assert_eq!(listed.json()["result"]["tasks"], json!([]));
    let listening = |id: &str| {
        let params = takes_tasks(json!({ "notifications": { "taskIds": [id] } }));
        let mut stream = somebody.begin("subscriptions/listen", params);
        let told = until_line(&mut stream, "acknowledged");
        let (_, told) = told.rsplit_once("data: ").unwrap();
        told.replace(id, "ID")
    };
    assert_eq!(listening(id), listening(MADE_UP));
    assert!(!listening(id).contains("ID"));
}

#[test]
fn a_task_is_nobody_elses() {
    for sharing in ["per-principal", "shared"] {
        let (place, tokens) = two(sharing);
        let served = Served::start(&place, &["--allow", "*"]);
        let [alice, bob] = tokens
            .each_ref()
            .map(|token| Somebody::with(&served, token));
        let [of_alice, of_bob] = [&alice, &bob].map(|somebody| somebody.session());
        assert_eq!(text(&bob.call("lab__keep", json!({ "text": "b" }))), "kept");
        // One of each era that is working, and one that asks something.
        let begin = |tool: &str| {
            let call = json!({ "name": tool, "arguments": {}, "task": {} });
            let made = alice.within(&of_alice, &request("tools/call", call)).json();
            made["result"]["task"]["taskId"]
                .as_str()
                .unwrap_or_else(|| panic!("{made}"))
                .to_owned()
        };
        // While there is no other call: whose question it is is known then.
        let asks = begin("lab__ask");
        let status = |id: &str| {
            let message = request("tasks/get", json!({ "taskId": id }));
            alice.within(&of_alice, &message).json()["result"]["status"].clone()
        };
        until("it asks", || status(&asks) == "input_required");
        let legacy = begin("lab__hold");
        let hold = json!({ "name": "lab__hold", "arguments": {} });
        let made = alice.heard("tools/call", takes_tasks(hold)).json();
        let modern = made["result"]["taskId"].as_str().unwrap().to_owned();
        for id in [&modern, &legacy, &asks] {
            means_nothing_to(&bob, &of_bob, id);
        }
        // Nothing came of all that.
        assert_eq!(status(&legacy), "working");
        assert_eq!(status(&asks), "input_required");
        fs::write(place.root.join("keep.log.go"), "").unwrap();
        for id in [&modern, &legacy] {
            until("it is done", || status(id) == "completed");
            means_nothing_to(&bob, &of_bob, id);
        }
        let message = request("tasks/result", json!({ "taskId": legacy }));
        let done = alice.within(&of_alice, &message).json();
        assert_eq!(text(&done), "held");
    }
}

#[test]
fn the_state_of_a_round_is_nobody_elses() {
    let (place, tokens) = two("shared");
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let asked = call_asked(&alice, json!({ "name": "lab__ask" }));
    let state = asked["result"]["requestState"].as_str().unwrap();
    let back =
        |state: &str| json!({ "name": "lab__ask", "inputResponses": {}, "requestState": state });
    let told = call_asked(&bob, back(state));
    assert_eq!(told["error"]["code"], -32602, "{told}");
    assert_eq!(told, call_asked(&bob, back(MADE_UP)));
    // It is good still.
    let again = call_asked(&alice, back(state));
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
}

#[test]
fn whoever_does_not_follow_a_resource_hears_nothing_of_it() {
    let (place, tokens) = two("shared");
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let sessions = [&alice, &bob].map(|somebody| somebody.session());
    let list = request("tools/list", json!({}));
    for (somebody, session) in [&alice, &bob].into_iter().zip(&sessions) {
        assert_eq!(somebody.within(session, &list).status, 200);
    }
    let mut streams = [standing(&alice, &sessions[0]), standing(&bob, &sessions[1])];
    let follow = |method: &str| request(method, json!({ "uri": "memo://kept" }));
    let followed = alice.within(&sessions[0], &follow("resources/subscribe"));
    assert_eq!(followed.status, 200);
    // That bob does not want it is nothing to alice.
    let left = bob.within(&sessions[1], &follow("resources/unsubscribe"));
    assert_eq!(left.status, 200);
    alice.call("lab__keep", json!({ "text": "x" }));
    until_line(&mut streams[0], "notifications/resources/updated");
    bob.call("lab__grow", json!({}));
    let told = until_line(&mut streams[1], "notifications/tools/list_changed");
    assert!(
        !told.contains("updated") && !told.contains("memo://"),
        "{told}"
    );
}

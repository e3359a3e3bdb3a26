//! Two principals with servers of their own that have state and credentials: nothing crosses, whatever
//! one of them guesses.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use super::principals::{Somebody, principal};
use super::served::{Served, modern_with};
use super::text;
use crate::place::{Place, fixture, until};
use crate::scripted::Log;

const NAMES: [&str; 2] = ["alice", "bob"];

/// A place with a server that keeps things, started for each principal with a secret of theirs.
fn keeping() -> (Place, [String; 2], Log) {
    let place = Place::new();
    let log = place.root.join("keep.log");
    place.servers(&json!({ "lab": {
        "command": "python3",
        "args": [fixture("keeping_server.py"), log],
        "env": { "SECRET": "of-everybody" },
        "answers": ["elicitation"],
    } }));
    place.user("[builtin]\ntime = false\nworkspace = false");
    let tokens = NAMES.map(|name| {
        let own = format!("servers.lab.env.SECRET = \"literal:secret-of-{name}\"");
        principal(&place, name, &own)
    });
    (place, tokens, Log::at(log))
}

/// What a server knows of somebody.
#[track_caller]
pub(super) fn state(somebody: &Somebody<'_>) -> Value {
    serde_json::from_str(text(&somebody.call("lab__kept", json!({})))).unwrap()
}

fn answering() -> Value {
    json!({ "elicitation": { "form": {} } })
}

/// A call of a client of the modern era that can be asked.
#[track_caller]
pub(super) fn call_asked(somebody: &Somebody<'_>, mut params: Value) -> Value {
    params["arguments"] = json!({});
    let heard = somebody.heard("tools/call", modern_with(params, answering()));
    heard.json()
}

/// The stream of a session for what belongs to no request.
pub(super) fn standing(somebody: &Somebody<'_>, session: &str) -> BufReader<TcpStream> {
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nAuthorization: {}\r\n\
         Mcp-Session-Id: {session}\r\n\r\n",
        somebody.authorization
    );
    BufReader::new(somebody.served.open(head.as_bytes()))
}

/// All that comes until a line has this in it.
#[track_caller]
pub(super) fn until_line(stream: &mut BufReader<TcpStream>, mark: &str) -> String {
    let mut all = String::new();
    while !all.contains(mark) {
        let before = all.len();
        stream.read_line(&mut all).unwrap();
        assert!(all.len() > before, "it ended: {all}");
    }
    all
}

#[test]
fn state_and_credentials_of_a_program_are_ones_own() {
    let (place, tokens, log) = keeping();
    let served = Served::start(&place, &["--allow", "*"]);
    let people = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    // At the same time, often.
    thread::scope(|scope| {
        for (name, somebody) in NAMES.into_iter().zip(&people) {
            for thread in 0..4 {
                scope.spawn(move || {
                    for turn in 0..10 {
                        let told = json!({ "text": format!("{name}-{thread}-{turn}") });
                        assert_eq!(text(&somebody.call("lab__keep", told)), "kept");
                        let kept = state(somebody);
                        let kept = kept["kept"].as_array().unwrap();
                        assert!(kept.iter().all(|it| it.as_str().unwrap().starts_with(name)));
                    }
                });
            }
        }
    });
    let states = people.each_ref().map(state);
    for (name, state) in NAMES.into_iter().zip(&states) {
        assert_eq!(
            state["secret"], "[redacted]",
            "{name}: what is secret stays so"
        );
        assert_eq!(state["kept"].as_array().unwrap().len(), 40);
    }
    assert_ne!(states[0]["pid"], states[1]["pid"]);
    for message in log.heard() {
        let text = message["params"]["arguments"]["text"].as_str();
        let Some((name, _)) = text.and_then(|text| text.split_once('-')) else {
            continue;
        };
        assert_eq!(message["secret"], format!("secret-of-{name}"));
    }
    // Resources are read from one's own server.
    let uri = json!({ "uri": "memo://kept" });
    for (somebody, state) in people.iter().zip(&states) {
        let read = somebody.heard("resources/read", uri.clone()).json();
        let text = read["result"]["contents"][0]["text"].as_str().unwrap();
        let read: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            (&read["kept"], &read["pid"]),
            (&state["kept"], &state["pid"])
        );
    }
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn nobody_uses_the_session_of_somebody_else() {
    let (place, tokens, _) = keeping();
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let (of_alice, of_bob) = (alice.session(), bob.session());
    let ping = json!({ "jsonrpc": "2.0", "id": 5, "method": "ping" });
    let stolen = [("Mcp-Session-Id", of_alice.as_str()), bob.shown()];
    assert_eq!(bob.within(&of_alice, &ping).status, 404);
    for method in ["GET", "DELETE"] {
        assert_eq!(served.request(method, "/mcp", &stolen, b"").status, 404);
    }
    assert_eq!(alice.within(&of_alice, &ping).status, 200);

    // Questions are numbered, so a number is easily guessed. It is one's own question's.
    let call = json!({ "jsonrpc": "2.0", "id": 6, "method": "tools/call",
        "params": { "name": "lab__ask", "arguments": {} } });
    let body = call.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: {}\r\n\
         Accept: application/json, text/event-stream\r\nMcp-Session-Id: {of_alice}\r\nContent-Length: {}\r\n\r\n{body}",
        alice.authorization,
        body.len()
    );
    let mut asked = BufReader::new(served.open(head.as_bytes()));
    until_line(&mut asked, "elicitation/create");
    let answer = |word: &str| {
        json!({ "jsonrpc": "2.0", "id": "outrigger-1",
        "result": { "action": "accept", "content": { "word": word } } })
    };
    assert_eq!(bob.within(&of_bob, &answer("of bob")).status, 202);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 6 } });
    assert_eq!(bob.within(&of_bob, &cancel).status, 202);
    assert_eq!(alice.within(&of_alice, &answer("of alice")).status, 202);
    let told = until_line(&mut asked, "\"id\":6");
    assert!(
        told.contains("of alice") && !told.contains("of bob"),
        "{told}"
    );
}

#[test]
fn nobody_answers_for_somebody_else() {
    let (place, tokens, log) = keeping();
    place.user("[[policy.rule]]\ntool = \"mcp__lab__ask\"\ndecision = \"allow\"");
    let served = Served::start(&place, &[]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    for (tool, content) in [
        // A question of the server, and one of policy.
        ("lab__ask", json!({ "word": "yes" })),
        ("lab__kept", json!({ "decision": "approve" })),
    ] {
        let asked = call_asked(&alice, json!({ "name": tool }));
        let result = &asked["result"];
        assert_eq!(result["resultType"], "input_required", "{asked}");
        let questions = result["inputRequests"].as_object().unwrap();
        let answers = questions.keys().map(|name| {
            let answer = json!({ "action": "accept", "content": content });
            (name.clone(), answer)
        });
        let answers: serde_json::Map<_, _> = answers.collect();
        let back = json!({ "name": tool, "inputResponses": answers, "requestState": result["requestState"] });
        let before = log.of("tools/call").len();
        let stolen = call_asked(&bob, back.clone());
        assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
        assert_eq!(log.of("tools/call").len(), before);
        let answered = call_asked(&alice, back.clone());
        let told = text(&answered);
        assert!(told.contains("yes") || told.contains("kept"), "{told}");
        // It was good once.
        assert_eq!(call_asked(&alice, back)["error"]["code"], -32602);
    }
}

#[test]
fn artifacts_are_ones_own_although_their_names_can_be_computed() {
    let (place, tokens, log) = keeping();
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let large = alice.call("lab__large", json!({ "text": "secret of alice " }));
    assert_eq!(text(&large).len(), 320_000);
    let listed = place.json(&["artifacts", "list", "--json"]);
    let handles = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["handle"].clone());
    let handles: Vec<_> = handles.collect();
    let take = |somebody: &Somebody<'_>, handle: &Value| {
        let answer = somebody.call("lab__take", json!({ "text": handle }));
        text(&answer).to_owned()
    };
    let own = handles
        .iter()
        .filter(|handle| take(&alice, handle) == "320000 characters");
    assert_eq!(own.count(), 1, "one of these is alice's: {listed}");
    let before = log.of("tools/call").len();
    for handle in &handles {
        let told = take(&bob, handle);
        assert!(
            told.starts_with("Not called: there is no artifact"),
            "{told}"
        );
    }
    assert_eq!(log.of("tools/call").len(), before);
}

#[test]
fn nobody_hears_of_what_somebody_else_does() {
    let (place, tokens, _) = keeping();
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let sessions = [alice.session(), bob.session()];
    let follow = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": "memo://kept" } });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    for (somebody, session) in [&alice, &bob].into_iter().zip(&sessions) {
        assert_eq!(somebody.within(session, &list).status, 200);
        assert_eq!(somebody.within(session, &follow).status, 200);
    }
    let mut hears = standing(&bob, &sessions[1]);
    let mut own = standing(&alice, &sessions[0]);
    let tell = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
        "name": "lab__tell", "arguments": { "text": "word of alice" }, "_meta": { "progressToken": 7 } } });
    let told = alice.within(&sessions[0], &tell).body;
    assert!(
        told.contains("notifications/progress") && told.contains("notifications/message"),
        "{told}"
    );
    alice.call("lab__keep", json!({ "text": "x" }));
    alice.call("lab__grow", json!({}));
    until_line(&mut own, "notifications/resources/updated");
    until_line(&mut own, "notifications/tools/list_changed");
    // What bob hears first is of his own doing.
    bob.call("lab__keep", json!({ "text": "y" }));
    let first = until_line(&mut hears, "notifications/resources/updated");
    // Of its own server it may hear that it has started.
    for word in [
        "word of alice",
        "tools/list_changed",
        "progress",
        "message\"",
    ] {
        assert!(!first.contains(word), "{first}");
    }
    assert_eq!(first.matches("notifications/resources/updated").count(), 1);
    assert!(!bob.names().iter().any(|name| name.contains("grown")));
    assert!(alice.names().iter().any(|name| name.contains("grown")));
}

/// A server behind HTTP. Dropped, it ends.
struct Remote(Child, String);

impl Remote {
    fn start(place: &Place) -> Self {
        let log = place.root.join("remote.log");
        let mut command = Command::new("python3");
        command
            .arg(fixture("keeping_server.py"))
            .arg(&log)
            .arg("http");
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        let file = place.root.join("remote.log.port");
        until("the server listens", || file.exists());
        let port = fs::read_to_string(file).unwrap();
        Self(child, format!("http://127.0.0.1:{port}/mcp"))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn sessions_and_credentials_of_an_address_are_ones_own() {
    let place = Place::new();
    let remote = Remote::start(&place);
    place.user(&format!(
        "[builtin]\ntime = false\nworkspace = false\n[servers.lab]\nurl = \"{}\"\nprotocol = \"legacy\"\n\
         headers.Authorization = \"Bearer ${{file:{}/secrets/${{principal}}}}\"",
        remote.1,
        place.root.display()
    ));
    let tokens = NAMES.map(|name| {
        place.write(
            &format!("secrets/{name}"),
            format!("upstream-secret-of-{name}\n"),
        );
        principal(&place, name, "")
    });
    let served = Served::start(&place, &["--allow", "*"]);
    let people = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    for (name, somebody) in NAMES.into_iter().zip(&people) {
        somebody.call("lab__keep", json!({ "text": name }));
    }
    for (name, somebody) in NAMES.into_iter().zip(&people) {
        assert_eq!(state(somebody)["kept"], json!([name]));
    }
    drop(served);
    // What clients show is shown to nobody else.
    let headers = fs::read_to_string(place.root.join("remote.log.headers")).unwrap();
    for (name, token) in NAMES.into_iter().zip(&tokens) {
        assert!(headers.contains(&format!("Bearer upstream-secret-of-{name}")));
        assert!(!headers.contains(token) && !headers.contains("ogt_"));
    }
}

#[test]
fn a_server_that_is_shared_keeps_its_callers_apart() {
    let place = Place::new();
    let log = place.root.join("keep.log");
    place.user("[builtin]\ntime = false\nworkspace = false");
    place.servers(&json!({ "lab": {
        "command": "python3",
        "args": [fixture("keeping_server.py"), log],
        "answers": ["elicitation"],
        "sharing": "shared",
    } }));
    let tokens = NAMES.map(|name| principal(&place, name, ""));
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    assert_eq!(state(&alice)["pid"], state(&bob)["pid"], "it is one");
    // A question goes to the one whose call it belongs to, and is nobody else's to answer.
    let asked = call_asked(&alice, json!({ "name": "lab__ask" }));
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let back =
        json!({ "name": "lab__ask", "inputResponses": {}, "requestState": result["requestState"] });
    assert_eq!(call_asked(&bob, back)["error"]["code"], -32602);
    let told = bob.call("lab__tell", json!({ "text": "word of bob" }));
    assert_eq!(text(&told), "told");
    drop(served);
    place.assert_nothing_runs();
    // Whose calls they were is in the run of each.
    let runs = place.json(&["runs", "list", "--json"]);
    let whose = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["principal"].as_str());
    let mut whose: Vec<_> = whose.map(Option::unwrap_or_default).collect();
    whose.sort_unstable();
    assert_eq!(whose, ["", "alice", "bob"], "{runs}");
}

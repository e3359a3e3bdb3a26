//! Calls that wait until a person decides, with another program.

mod fetches;

use serde_json::{Value, json};

use super::principals::{Somebody, principal};
use super::served::{Line, Served, modern_with};
use super::text;
use crate::place::{Place, Ran, until};
use crate::scripted::{Log, lab};

fn queue(ways: &str, more: &str) -> (Place, Log) {
    let (place, log) = lab();
    place.user(&format!("[gateway]\napprovals = [{ways}]\n{more}"));
    (place, log)
}

fn repeat(words: &str) -> Value {
    json!({ "name": "lab__repeat", "arguments": { "text": words } })
}

/// What waits, as soon as something does.
#[track_caller]
fn waiting(place: &Place) -> Value {
    let mut waiting = Value::Null;
    until("something waits", || {
        waiting = place.json(&["approvals", "list", "--json"])[0].clone();
        waiting.is_object()
    });
    waiting
}

fn id(waiting: &Value) -> &str {
    waiting["id"].as_str().unwrap()
}

/// A client that cannot be asked.
fn client(place: &Place) -> Line {
    let mut line = Line::start(place, &["serve"]);
    line.begin("2025-11-25", json!({}));
    line.ask("tools/list", json!({}));
    line
}

fn good(ran: Ran) -> String {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.err
}

#[test]
fn a_call_waits_until_a_person_lets_it_run() {
    let (place, log) = queue("'client', 'queue'", "");
    let mut line = client(&place);
    let mut call = repeat("a\u{202e}b");
    call["_meta"]["progressToken"] = "p".into();
    let sent = line.send("tools/call", call);
    let waits = waiting(&place);
    assert_eq!(log.of("tools/call").len(), 0, "nothing is sent before");
    let progress = line.hears("notifications/progress");
    let words = progress["params"]["message"].as_str().unwrap();
    assert!(words.contains(id(&waits)), "{progress}");

    let shown = place.run(&["approvals", "show", &id(&waits)[..4]]).out;
    let shown: Vec<_> = shown
        .lines()
        .filter(|line| !line.starts_with("since"))
        .collect();
    let (kept, state) = shown.split_at(shown.len() - 1);
    let kept = kept.join("\n").replace(id(&waits), "ID");
    let kept = kept.replace(waits["run"].as_str().unwrap(), "RUN");
    let kept = kept.replace(&waits["definition"].as_str().unwrap()[..16], "DIGEST");
    insta::assert_snapshot!(kept, @r#"
    approval   ID
    tool       mcp__lab__repeat (`repeat` of the server `lab`)
    arguments  text: "a\u{202e}b"
    asked by   the default of the policy
    call       1 of RUN, wanted by client
    definition DIGEST
    "#);
    assert!(state[0].starts_with("state      waits until "), "{state:?}");

    let approved = good(place.run(&["approvals", "approve", id(&waits)]));
    assert!(approved.contains("goes on"), "{approved}");
    let answer = line.wait(sent);
    assert_eq!(text(&answer), "a\u{202e}b");
    let again = place.run(&["approvals", "approve", id(&waits)]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(
        again.err.contains("cannot be decided any more: used"),
        "{again:?}"
    );
    assert_eq!(place.json(&["approvals", "list", "--json"]), json!([]));
    assert_eq!(
        place.json(&["approvals", "list", "-n", "1", "--json"])[0]["state"],
        "used"
    );
    assert_eq!(line.end(), 0);
    let run = place.last_run();
    assert!(
        run.contains(&format!("waits for a person as `{}`", id(&waits))),
        "{run}"
    );
    assert!(
        run.contains("allowed by a person with `outrigger approvals`"),
        "{run}"
    );
    // The time of a person is not the time of the call.
    assert!(place.events().contains(r#""by":"command""#));
}

#[test]
fn a_no_is_told_with_its_reason() {
    let (place, log) = queue("'queue'", "");
    let mut line = client(&place);
    let sent = line.send("tools/call", repeat("a"));
    let waits = waiting(&place);
    let words = [
        "approvals",
        "decline",
        id(&waits),
        "--reason",
        "not on Mondays",
    ];
    good(place.run(&words));
    let answer = line.wait(sent);
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("not on Mondays"), "{answer}");
    assert_eq!(log.of("tools/call").len(), 0);
    assert_eq!(line.end(), 0);
}

#[test]
fn what_is_remembered_is_not_asked_again() {
    let (place, log) = queue("'queue'", "");
    let mut line = client(&place);
    let first = line.send("tools/call", repeat("a"));
    let waits = waiting(&place);
    let bad = place.run(&["approvals", "approve", id(&waits), "--remember=path=*"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    assert!(
        bad.err
            .contains("the call has no argument `path`; it has `text`"),
        "{bad:?}"
    );
    let words = [
        "approvals",
        "approve",
        id(&waits),
        "--remember=text=a*",
        "--for",
        "1h",
    ];
    let approved = good(place.run(&words));
    assert!(approved.contains("are granted as `"), "{approved}");
    assert_eq!(text(&line.wait(first)), "a");
    assert_eq!(text(&line.ask("tools/call", repeat("ab"))), "ab");
    let other = line.send("tools/call", repeat("b"));
    let waits = waiting(&place);
    good(place.run(&["approvals", "decline", id(&waits)]));
    line.wait(other);
    assert_eq!(log.of("tools/call").len(), 2);
    let grants = place.run(&["grants"]).out;
    assert!(grants.contains("text~a*"), "{grants}");
    assert_eq!(line.end(), 0);
}

#[test]
fn who_waits_no_more_is_approved_no_more() {
    let (place, log) = queue("'client', 'queue'", "approval_timeout = '3s'");
    let mut line = client(&place);
    // Its client has given it up.
    let sent = line.send("tools/call", repeat("a"));
    let waits = waiting(&place);
    line.tell("notifications/cancelled", json!({ "requestId": sent }));
    let gone = || place.json(&["approvals", "show", id(&waits), "--json"])["state"] == "expired";
    until("it waits no more", gone);
    let late = place.run(&["approvals", "approve", id(&waits)]);
    assert_eq!(late.code, 1, "{late:?}");
    // Nobody has decided in time.
    let answer = line.ask("tools/call", repeat("b"));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(
        text(&answer).contains("nobody is there to give it"),
        "{answer}"
    );
    assert_eq!(log.of("tools/call").len(), 0);
    assert_eq!(line.end(), 0);
    let run = place.last_run();
    assert!(run.contains("nobody decided within 3 s"), "{run}");
}

#[test]
fn a_gateway_that_is_killed_waits_no_more() {
    let (place, log) = queue("'queue'", "");
    let mut line = client(&place);
    line.send("tools/call", repeat("a"));
    let waits = waiting(&place);
    line.signal("-KILL");
    let late = place.run(&["approvals", "approve", id(&waits)]);
    assert_eq!(late.code, 1, "{late:?}");
    assert!(
        late.err.contains("cannot be decided any more: expired"),
        "{late:?}"
    );
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn a_client_of_either_era_over_http_waits_and_is_let_go() {
    let (place, log) = queue("'client', 'queue'", "");
    let served = Served::start(&place, &[]);
    // It can be asked, and dismisses the question.
    let can = json!({ "elicitation": { "form": {} } });
    let asked = served.modern("tools/call", modern_with(repeat("a"), can.clone()));
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    let mut back = repeat("a");
    back["requestState"] = asked["result"]["requestState"].clone();
    back["inputResponses"] = json!({ questions.keys().next().unwrap(): { "action": "cancel" } });
    let body = modern_with(back, can);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body });
    let message = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: lab__repeat\r\nContent-Length: {}\r\n\r\n{message}",
        message.len()
    );
    let stream = served.open(head.as_bytes());
    let waits = waiting(&place);
    drop(stream);
    until("it waits no more", || {
        place.json(&["approvals", "show", id(&waits), "--json"])["state"] == "expired"
    });
    // One of the legacy era whose connection is gone cannot be answered either.
    let session = served.session(json!({}));
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": repeat("b") });
    let message = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: {session}\r\n\
         Content-Length: {}\r\n\r\n{message}",
        message.len()
    );
    let stream = served.open(head.as_bytes());
    let waits = waiting(&place);
    drop(stream);
    until("it waits no more", || {
        place.json(&["approvals", "show", id(&waits), "--json"])["state"] == "expired"
    });
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn each_principal_waits_under_its_own_name() {
    let (place, log) = queue("'queue'", "");
    let tokens = ["alice", "bob"].map(|name| principal(&place, name, ""));
    let served = Served::start(&place, &[]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let call = |somebody: &Somebody<'_>, words: &str| {
        let answer = somebody.call("lab__repeat", json!({ "text": words }));
        text(&answer).to_owned()
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| call(&alice, "of alice"));
        let second = scope.spawn(|| call(&bob, "of bob"));
        let mut all = Value::Null;
        until("both wait", || {
            all = place.json(&["approvals", "list", "--json"]);
            all.as_array().is_some_and(|all| all.len() == 2)
        });
        let of = |name: &str| {
            let mut waiting = all.as_array().unwrap().iter();
            let found = waiting.find(|waiting| waiting["principal"] == name);
            found.unwrap_or_else(|| panic!("nothing of {name}: {all}"))
        };
        let (of_alice, of_bob) = (of("alice"), of("bob"));
        // Both are the first of their runs.
        assert_eq!((&of_alice["call"], &of_bob["call"]), (&json!(1), &json!(1)));
        let metrics = served.request("GET", "/metrics", &[], b"").body;
        for line in [
            "outrigger_calls_in_flight 2",
            "outrigger_approvals_waiting 2",
            "outrigger_principals 2",
            "outrigger_server_state{server=\"lab\",state=\"ready\"} 2",
        ] {
            assert!(
                metrics.lines().any(|it| it == line),
                "no `{line}`: {metrics}"
            );
        }
        let status = served.request("GET", "/", &[], b"").body;
        for part in ["For alice", "For bob", id(of_alice), id(of_bob)] {
            assert!(status.contains(part), "no `{part}`: {status}");
        }
        // A proxy on this machine passes on what comes from elsewhere.
        let passed_on = [("X-Forwarded-For", "192.0.2.1")];
        for path in ["/", "/metrics", "/approvals"] {
            assert_eq!(served.request("GET", path, &passed_on, b"").status, 404);
        }
        assert_eq!(served.request("GET", "/ready", &passed_on, b"").status, 200);

        good(place.run(&["approvals", "approve", id(of_alice), "--remember"]));
        assert_eq!(first.join().unwrap(), "of alice");
        assert_eq!(log.of("tools/call").len(), 1, "bob's waits");
        good(place.run(&["approvals", "decline", id(of_bob)]));
        assert!(second.join().unwrap().starts_with("Not called"));
        // What was said with a yes is said for one of them.
        assert_eq!(call(&alice, "of alice"), "of alice");
        let again = scope.spawn(|| call(&bob, "of alice"));
        good(place.run(&["approvals", "decline", id(&waiting(&place))]));
        assert!(again.join().unwrap().starts_with("Not called"));
    });
    assert_eq!(log.of("tools/call").len(), 2);
}

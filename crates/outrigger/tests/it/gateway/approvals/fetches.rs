//! Prompts and resources that wait until a person decides, as calls do.

use outrigger_journal::{DecidedBy, Decision, Journal};
use rexpect::session::PtySession;
use serde_json::{Value, json};

use super::super::principals::{Somebody, principal};
use super::super::served::{Line, Served, modern};
use super::{good, id, waiting};
use crate::place::{Place, fixture, until};
use crate::scripted::Log;
use crate::terminal::at_terminal;

const NOTE: &str = "note:///a";

/// A gateway with a server that has prompts and resources.
fn shelf(settings: &str) -> (Place, Log) {
    let place = Place::new();
    let log = Log::at(place.root.join("shelf.log"));
    let entry = json!({
        "command": "python3", "args": [fixture("shelf_server.py"), log.0, "legacy"], "timeouts": { "idle": "1s" },
    });
    place.servers(&json!({ "shelf": entry }));
    place.user(&format!("[gateway]\n{settings}"));
    (place, log)
}

/// A client that cannot be asked, and has seen what there is.
fn client(place: &Place) -> Line {
    let mut line = Line::start(place, &["serve"]);
    line.begin("2025-11-25", json!({}));
    line.ask("prompts/list", json!({}));
    line.ask("resources/list", json!({}));
    line
}

fn greet() -> Value {
    json!({ "name": "shelf__greet", "arguments": { "who": "Ada\u{202e}" } })
}

/// What the run of the gateway has of this kind.
fn recorded(place: &Place, kind: &str) -> Vec<Value> {
    let events = place.events();
    let events = events.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["event"].take()
    });
    events.filter(|event| event["type"] == kind).collect()
}

fn is_over(place: &Place, waits: &Value) {
    until("it waits no more", || {
        place.json(&["approvals", "show", id(waits), "--json"])["state"] == "expired"
    });
}

#[test]
fn a_prompt_waits_until_a_person_lets_it_be_read() {
    let (place, log) = shelf("approvals = ['client', 'queue']");
    let mut line = client(&place);
    let mut wanted = greet();
    wanted["_meta"]["progressToken"] = "p".into();
    let sent = line.send("prompts/get", wanted);
    let waits = waiting(&place);
    assert_eq!(
        (&waits["kind"], waits.get("call")),
        (&json!("prompt"), None),
        "{waits}"
    );
    let progress = line.hears("notifications/progress");
    let words = progress["params"]["message"].as_str().unwrap();
    assert!(words.contains(id(&waits)), "{progress}");
    assert_eq!(log.of("prompts/get").len(), 0, "nothing is sent before");
    let approved = good(place.run(&["approvals", "approve", id(&waits)]));
    assert!(
        approved.contains("the prompt `greet` of shelf goes on"),
        "{approved}"
    );
    let got = line.wait(sent);
    let said = &got["result"]["messages"][0]["content"]["text"];
    assert_eq!(said, "Greet Ada\u{202e}.", "{got}");
    let again = place.run(&["approvals", "approve", id(&waits)]);
    assert_eq!(again.code, 1, "{again:?}");
    assert_eq!(log.of("prompts/get").len(), 1);
    assert_eq!(line.end(), 0);

    let fetched = recorded(&place, "prompt_fetched");
    assert_eq!(fetched.len(), 1, "one record of it: {fetched:?}");
    let of = |key: &str| fetched[0][key].as_str();
    assert_eq!(
        (of("by"), of("approval"), of("outcome")),
        (Some("command"), Some(id(&waits)), Some("completed")),
        "{fetched:?}"
    );
    let run = place.last_run();
    for words in [
        format!("prompt `greet` waits for a person as `{}`", id(&waits)),
        format!(
            "decided by a person with `outrigger approvals` as `{}`",
            id(&waits)
        ),
    ] {
        assert!(run.contains(&words), "no `{words}`: {run}");
    }
}

#[test]
fn what_waits_is_shown_and_nothing_is_said_about_those_to_come() {
    let (place, log) = shelf("approvals = ['queue']");
    let mut line = client(&place);
    let sent = line.send("prompts/get", greet());
    let waits = waiting(&place);
    let listed = place.run(&["approvals"]).out;
    assert!(
        listed.contains(r#"prompt `greet` of shelf {"who":"Ada\u{202e}"} waits"#),
        "{listed}"
    );
    let shown = place.run(&["approvals", "show", id(&waits)]).out;
    let shown = shown.replace(id(&waits), "ID");
    let shown = shown.replace(waits["run"].as_str().unwrap(), "RUN");
    let kept: Vec<_> = shown
        .lines()
        .filter(|line| !line.starts_with("since") && !line.starts_with("state"))
        .collect();
    insta::assert_snapshot!(kept.join("\n"), @r#"
    approval   ID
    prompt     `greet` of the server `shelf`
    arguments  who: "Ada\u{202e}"
    asked by   the default of the policy
    run        RUN, wanted by client
    "#);

    // What is said about calls to come is for calls.
    let more = place.run(&["approvals", "approve", id(&waits), "--remember=*"]);
    assert_eq!(more.code, 2, "{more:?}");
    assert!(
        more.err
            .contains("a prompt is allowed once: nothing can be said about those to come"),
        "{more:?}"
    );
    good(place.run(&["approvals", "decline", id(&waits)]));
    assert!(line.wait(sent)["error"].is_object());
    assert_eq!(log.of("prompts/get").len(), 0);
    assert_eq!(line.end(), 0);
}

#[test]
fn a_resource_that_is_declined_is_not_read() {
    let (place, log) = shelf("approvals = ['queue']");
    let mut line = client(&place);
    let sent = line.send("resources/read", json!({ "uri": NOTE }));
    let waits = waiting(&place);
    let listed = place.run(&["approvals"]).out;
    assert!(
        listed.contains("resource `note:///a` of shelf waits"),
        "{listed}"
    );
    let words = [
        "approvals",
        "decline",
        id(&waits),
        "--reason",
        "not on Mondays",
    ];
    good(place.run(&words));
    let refused = line.wait(sent);
    let words = refused["error"]["message"].as_str().unwrap();
    assert_eq!(
        words,
        "the resource `note:///a` of the server `shelf` was not fetched: a person declined it: not on Mondays"
    );
    assert_eq!(log.of("resources/read").len(), 0);
    assert_eq!(line.end(), 0);
    let read = recorded(&place, "resource_read");
    assert_eq!(read.len(), 1, "{read:?}");
    let of = |key: &str| read[0][key].as_str();
    assert_eq!(
        (of("by"), of("reason"), of("outcome")),
        (Some("command"), Some("not on Mondays"), Some("rejected")),
        "{read:?}"
    );
}

#[test]
fn what_its_client_gives_up_is_not_fetched() {
    let (place, log) = shelf("approvals = ['client', 'queue']");
    let mut line = client(&place);
    let sent = line.send("resources/read", json!({ "uri": NOTE }));
    let waits = waiting(&place);
    line.tell("notifications/cancelled", json!({ "requestId": sent }));
    is_over(&place, &waits);
    let late = place.run(&["approvals", "approve", id(&waits)]);
    assert_eq!(late.code, 1, "{late:?}");
    assert_eq!(log.of("resources/read").len(), 0);
    assert_eq!(line.end(), 0);
    let given_up = recorded(&place, "resource_read");
    let error = given_up[0]["error"].as_str().unwrap();
    assert!(
        error.contains("it was given up, and nothing was sent"),
        "{given_up:?}"
    );
}

#[test]
fn what_nobody_decides_about_in_time_is_not_fetched() {
    let (place, log) = shelf("approvals = ['client', 'queue']\napproval_timeout = '1s'");
    let mut line = client(&place);
    let refused = line.ask("prompts/get", greet());
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(
        words.contains("nobody is there to answer: nobody decided within 1 s")
            && words.contains("`gateway.approvals`"),
        "{words}"
    );
    assert_eq!(log.of("prompts/get").len(), 0);
    assert_eq!(line.end(), 0);
    let run = place.last_run();
    assert!(run.contains("nobody decided within 1 s"), "{run}");
}

#[test]
fn its_server_may_be_stopped_while_it_waits() {
    let (place, log) = shelf("approvals = ['queue']");
    let mut line = client(&place);
    let sent = line.send("resources/read", json!({ "uri": NOTE }));
    let waits = waiting(&place);
    until("its server is gone", || {
        !place
            .processes()
            .iter()
            .any(|line| line.contains("shelf_server"))
    });
    let before = log.of("initialize").len();
    good(place.run(&["approvals", "approve", id(&waits)]));
    let read = line.wait(sent);
    assert_eq!(
        read["result"]["contents"][0]["text"], "Milk, bread.\n",
        "{read}"
    );
    assert_eq!(log.of("initialize").len(), before + 1);
    assert_eq!(line.end(), 0);
}

#[test]
fn its_server_is_waited_for_after_a_yes() {
    let (place, log) = shelf("approvals = ['queue']");
    let mut line = client(&place);
    let wanted = [NOTE, "note:///escape"].map(|uri| {
        line.send("resources/read", json!({ "uri": uri }));
        let waits = || place.json(&["approvals", "list", "--json"]);
        let of = |waits: &Value| {
            let mut all = waits.as_array().unwrap().iter();
            all.find(|one| one["tool"] == uri).cloned()
        };
        until("it waits", || of(&waits()).is_some());
        of(&waits()).unwrap()
    });
    until("its server is gone", || {
        let mut all = place.processes().into_iter();
        !all.any(|line| line.contains("shelf_server"))
    });
    let queue = Journal::open(&place.journal()).unwrap().approvals();
    let decision = Decision {
        allowed: true,
        by: DecidedBy::Command,
        reason: None,
        remember: None,
    };
    // The second while the server is being started for the first, mostly.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for waits in &wanted {
        runtime
            .block_on(queue.decide(id(waits), decision.clone()))
            .unwrap();
    }
    // In whatever order they come.
    let mut answers: Vec<Value> = Vec::new();
    while answers.len() < wanted.len() {
        let message: Value = serde_json::from_str(&line.line()).unwrap();
        answers.extend(message.get("id").is_some().then_some(message));
    }
    for answer in &answers {
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(log.of("resources/read").len(), 2);
    assert_eq!(line.end(), 0);
}

#[test]
fn the_page_shows_it_and_decides_once() {
    let (place, log) = shelf("approvals = ['queue']");
    let served = Served::start(&place, &[]);
    served.names();
    let printed = place.run(&["approvals", "open", "--print"]).out;
    let address = served.place.strip_suffix("/mcp").unwrap().to_owned();
    let path = printed.trim().strip_prefix(&address).unwrap();
    let entered = served.request("GET", path, &[], b"");
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let waiting_now = || {
        let metrics = served.request("GET", "/metrics", &[], b"").body;
        let mut lines = metrics.lines();
        let line = lines.find_map(|line| line.strip_prefix("outrigger_approvals_waiting "));
        line.unwrap().to_owned()
    };
    std::thread::scope(|scope| {
        let wanted = scope.spawn(|| served.modern("prompts/get", modern(greet())));
        let waits = waiting(&place);
        assert_eq!(waiting_now(), "1");
        let show = || served.request("GET", "/approvals", &[("Cookie", cookie)], b"");
        let shown = show().body;
        for part in ["prompt <code>greet</code> of shelf", id(&waits), "Ada"] {
            assert!(shown.contains(part), "no `{part}`: {shown}");
        }
        assert!(!shown.contains("name=\"remember\""), "{shown}");
        let token = shown.split("name=\"token\" value=\"").nth(1).unwrap();
        let token = token.split('"').next().unwrap();
        let decide = |more: &str| {
            let headers = [
                ("Origin", address.as_str()),
                ("Cookie", cookie),
                ("Content-Type", "application/x-www-form-urlencoded"),
            ];
            let body = format!("id={}&decision=approve&token={token}{more}", id(&waits));
            let sent = served.request("POST", "/approvals/decide", &headers, body.as_bytes());
            assert_eq!(sent.status, 303, "{sent:?}");
            show().body
        };
        let told = decide("&remember=any");
        assert!(told.contains("a prompt is allowed once"), "{told}");
        assert_eq!(log.of("prompts/get").len(), 0, "nothing was decided");
        let told = decide("");
        assert!(told.contains("greet is approved"), "{told}");
        let got = wanted.join().unwrap();
        assert!(got["result"]["messages"].is_array(), "{got}");
        assert_eq!(waiting_now(), "0");
    });
    drop(served);
    assert_eq!(recorded(&place, "prompt_fetched")[0]["by"], "page");
}

#[test]
fn a_principal_sees_that_its_own_waits() {
    let (place, _) = shelf("approvals = ['queue']");
    let tokens = ["alice", "bob"].map(|name| principal(&place, name, ""));
    let served = Served::start(&place, &[]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    alice.heard("resources/list", json!({}));
    bob.heard("resources/list", json!({}));
    let reading = alice.begin("resources/read", json!({ "uri": NOTE }));
    let waits = waiting(&place);
    assert_eq!(waits["principal"], "alice");
    let own = |somebody: &Somebody<'_>| {
        let headers = [("Via", "1.1 proxy"), somebody.shown()];
        served.request("GET", "/", &headers, b"").body
    };
    let page = own(&alice);
    for part in ["resource <code>note:///a</code>", id(&waits)] {
        assert!(page.contains(part), "no `{part}`: {page}");
    }
    assert!(!own(&bob).contains(id(&waits)));
    // Who has gone waits no more.
    drop(reading);
    is_over(&place, &waits);
}

#[test]
fn whoever_watches_is_asked_for_yes_or_no() {
    let (place, _) = shelf("approvals = ['queue']");
    let mut line = client(&place);
    let mut session: PtySession = at_terminal(&place, &["approvals", "watch"]);
    let sent = line.send("resources/read", json!({ "uri": NOTE }));
    session
        .exp_string("A resource waits for approval:")
        .unwrap();
    session
        .exp_string("Let it be read? [y]es, [l]ater, [n]o")
        .unwrap();
    session.send_line("a").unwrap();
    session.exp_string("a resource is allowed once").unwrap();
    session.exp_string("Let it be read?").unwrap();
    session.send_line("y").unwrap();
    session
        .exp_string("the resource `note:///a` of shelf goes on")
        .unwrap();
    let read = line.wait(sent);
    assert!(read["result"].is_object(), "{read}");
    session.send_control('c').unwrap();
    assert_eq!(line.end(), 0);
}

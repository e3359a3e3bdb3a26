//! The governed catalog as other hosts meet it: both eras, over a pipe, over HTTP and over a socket, with
//! real servers behind and other people's SDKs before it.

mod approvals;
mod asks;
mod bounds;
mod browser;
mod changes;
mod followers;
mod hosts;
mod idle;
mod isolation;
mod let_in;
mod missing;
mod oauth;
mod offers;
mod parting;
mod principals;
mod raw;
mod reload;
mod sdks;
pub(crate) mod served;
mod starting;
mod strangers;
mod tasks;
mod web;

use std::fs;

use serde_json::{Value, json};

use crate::place::{Place, fixture};
use crate::scripted::lab;
use served::{Line, Served, modern};

/// The text of a tool's answer.
#[track_caller]
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {answer}"))
}

#[test]
fn both_eras_are_served_on_one_pipe() {
    let (place, log) = lab();
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    let found = line.ask("server/discover", modern(json!({})));
    assert_eq!(found["result"]["supportedVersions"], json!(["2026-07-28"]));
    // The probe is answered, and a handshake may follow it all the same.
    let begun = line.begin("2025-06-18", json!({}));
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(
        begun["result"]["capabilities"]["tools"]["listChanged"],
        true
    );

    let legacy = line.ask("tools/list", json!({}));
    let new = line.ask("tools/list", modern(json!({})));
    assert_eq!(legacy["result"]["tools"], new["result"]["tools"]);
    assert_eq!(new["result"]["resultType"], "complete");
    assert_eq!(legacy["result"].as_object().unwrap().len(), 1);
    let tools = legacy["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"lab__repeat") && names.contains(&"time__current_time"),
        "{names:?}"
    );

    let call = json!({ "name": "lab__repeat", "arguments": { "text": "Grüße" } });
    assert_eq!(text(&line.ask("tools/call", call.clone())), "Grüße");
    let answer = line.ask("tools/call", modern(call));
    assert_eq!(text(&answer), "Grüße");
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(log.of("tools/call").len(), 2);
    assert_eq!(line.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(line.ask("ping", modern(json!({})))["error"]["code"], -32601);
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
    let run = place.last_run();
    assert!(
        run.contains("serve") && run.contains("lab__repeat"),
        "{run}"
    );
}

#[test]
fn what_a_server_answered_goes_on_byte_for_byte() {
    let result = r#"{"content":[{"type":"text","text":"\u00e9\/","annotations":{"x":[1.50,123456789012345678901]}},{"type":"odd","n":1e400}],"_meta":{"k":null},"x-unknown":{"b":1,"a":2},"structuredContent":{"n":12345678901234567890.10}}"#;
    let place = Place::new();
    let answers = place.write("answers.json", result);
    place.servers(&json!({ "lab": {
        "command": "python3", "args": [fixture("verbatim_server.py"), answers]
    } }));
    let mut line = Line::start(&place, &["serve", "--allow", "*", "--server", "lab"]);
    line.begin("2025-11-25", json!({}));
    let listed = line.ask("tools/list", json!({}));
    assert_eq!(
        listed["result"]["tools"][0]["x-unknown"],
        json!({ "of": ["the", "definition"] })
    );
    assert_eq!(listed["result"]["tools"][0]["name"], "verbatim.result");
    let call = json!({ "name": "verbatim.result", "arguments": { "id": "big" } });
    let (id, raw) = line.ask_raw("tools/call", call.clone());
    assert_eq!(
        raw,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
    );
    let (id, raw) = line.ask_raw("tools/call", modern(call));
    let rest = result.strip_prefix('{').unwrap();
    assert_eq!(
        raw,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{rest}}}"#)
    );

    // An error of the protocol goes on as one.
    fs::write(
        &answers,
        r#"{"error":{"code":-32042,"message":"sign in","data":{"at":"x"}}}"#,
    )
    .unwrap();
    let call = json!({ "name": "verbatim.result", "arguments": {} });
    assert_eq!(
        line.ask("tools/call", call)["error"],
        json!({ "code": -32042, "message": "sign in", "data": { "at": "x" } })
    );
    assert_eq!(line.end(), 0);
}

#[test]
fn a_large_result_goes_through() {
    let place = Place::new();
    let big = "x".repeat(10 << 20);
    let result = format!(r#"{{"content":[{{"type":"text","text":"{big}"}}]}}"#);
    let answers = place.write("answers.json", &result);
    place.servers(&json!({ "lab": {
        "command": "python3", "args": [fixture("verbatim_server.py"), answers]
    } }));
    let served = Served::start(&place, &["--allow", "*"]);
    let call = json!({ "name": "lab__verbatim_result_d2ad0bf8", "arguments": {} });
    let name = served
        .names()
        .into_iter()
        .find(|name| name.starts_with("lab__verbatim"));
    let call = json!({ "name": name.unwrap(), "arguments": call["arguments"] });
    let answer = served.modern("tools/call", call);
    assert_eq!(text(&answer), big);
}

#[test]
fn what_did_not_come_to_a_result_says_so() {
    let (place, log) = lab();
    let mut line = Line::start(&place, &["serve", "--allow", "mcp__lab__[!k]*"]);
    line.begin("2025-11-25", json!({}));
    let listed = line.ask("tools/list", json!({}));
    assert!(listed["result"]["tools"].as_array().unwrap().len() > 7);
    let mut told = Vec::new();
    for (name, arguments) in [
        ("lab__repet", json!({})),
        ("lab__repeat", json!({ "text": 1 })),
        ("lab__keep", json!({})),
        ("lab__fail", json!({})),
        ("lab__break_contract", json!({})),
    ] {
        let answer = line.ask(
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        );
        let words = match answer.get("error") {
            Some(error) => format!(
                "error {}: {}",
                error["code"],
                error["message"].as_str().unwrap()
            ),
            None => format!(
                "{} {}: {}",
                answer["result"]["isError"],
                answer["result"]["_meta"],
                text(&answer)
            ),
        };
        told.push(words);
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    error -32602: Not called: there is no tool `lab__repet`.
    true {"outrigger/call":{"id":2,"outcome":"rejected","reason":"bad_arguments"}}: Not called: the arguments do not fit the tool's schema:
    - `/text`: 1 is not of type "string"
    true {"outrigger/call":{"id":3,"outcome":"rejected","reason":"nobody_to_ask"}}: Not called: it needs approval, and nobody is there to give it. This is not a decision of the user. The person who runs this gateway can allow it by a rule of its configuration or with `--allow`, or let such calls wait for them (`gateway.approvals`); a client that takes questions (elicitation) is asked.
    true null: the disk is on fire
    true {"outrigger/call":{"id":5,"outcome":"violated","reason":"contract"}}: The server `lab` answered the call of `break_contract`, but against its own contract: the structured content breaks the tool's output schema: `/n`: "seven" is not of type "integer". The answer is not shown. The call may have taken effect.
    "#);
    assert_eq!(log.of("tools/call").len(), 2, "only what may run is sent");
    assert_eq!(line.end(), 0);
}

#[test]
fn what_hooks_hide_stays_hidden() {
    let (place, _) = lab();
    for word in ["hide", "fail"] {
        let hook = fixture("hook.py");
        let log = place.root.join("hooks.log");
        place.write(
            "config/outrigger/outrigger.toml",
            format!(
                "[[hooks.after_call]]\ncommand = ['python3', '{hook}', '{}', '{word}']",
                log.display()
            ),
        );
        let mut line = Line::start(&place, &["serve", "--allow", "*"]);
        line.begin("2025-11-25", json!({}));
        let call = json!({ "name": "lab__repeat", "arguments": { "text": "the secret" } });
        let answer = line.ask("tools/call", call);
        assert!(!answer.to_string().contains("the secret"), "{answer}");
        assert!(!text(&answer).is_empty());
        assert_eq!(line.end(), 0);
    }
}

#[test]
fn a_call_that_is_cancelled_is_cancelled_at_its_server() {
    let (place, log) = lab();
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    line.begin("2025-11-25", json!({}));
    line.ask("tools/list", json!({}));
    let id = line.send(
        "tools/call",
        json!({ "name": "lab__answer_late", "arguments": {} }),
    );
    crate::place::until("the call arrives", || log.of("tools/call").len() == 1);
    // Ended and unknown ids are ignored.
    line.tell("notifications/cancelled", json!({ "requestId": 4711 }));
    line.tell("notifications/cancelled", json!({ "requestId": id }));
    crate::place::until("it is told", || {
        log.of("notifications/cancelled").len() == 1
    });
    let answer = line.ask("ping", json!({}));
    assert_eq!(
        answer["result"],
        json!({}),
        "a call that was given up is not answered"
    );
    assert_eq!(line.end(), 0);
    let run = place.last_run();
    assert!(run.contains("cancelled before the answer came"), "{run}");
}

#[test]
fn the_end_of_a_client_and_a_signal_end_it_in_order() {
    for signal in [None, Some("-TERM"), Some("-INT")] {
        let (place, log) = lab();
        let mut line = Line::start(&place, &["serve", "--allow", "*"]);
        line.begin("2025-11-25", json!({}));
        line.ask("tools/list", json!({}));
        line.send(
            "tools/call",
            json!({ "name": "lab__wait", "arguments": {} }),
        );
        crate::place::until("the call arrives", || log.of("tools/call").len() == 1);
        let code = match signal {
            Some(signal) => line.signal(signal),
            None => line.end(),
        };
        assert_eq!(code, 0, "{signal:?}");
        place.assert_nothing_runs();
        let run = place.last_run();
        assert!(run.contains("outcome unknown"), "{signal:?}: {run}");
    }
}

#[test]
fn who_is_asked_to_end_as_soon_as_it_serves_ends_in_order() {
    let place = Place::new();
    for _ in 0..20 {
        // Dropped, it is asked to end, and has to do so with success.
        drop(Served::start(&place, &[]));
    }
}

#[test]
fn a_socket_is_its_owners_and_is_served_once() {
    let (place, _) = lab();
    let path = place.root.join("gateway.sock");
    let socket = path.to_str().unwrap();
    let served = Served::socket(&place, socket);
    let mut client = Served::connect_socket(&path);
    let names = served::names_over(&mut client);
    assert!(names.contains(&"lab__repeat".to_owned()), "{names:?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let second = place.run(&["serve", "--socket", socket]);
    assert_eq!(second.code, 2, "{second:?}");
    assert!(
        second.err.contains("is served by another program"),
        "{second:?}"
    );
    drop(served);
    assert!(!path.exists());
    let wide = place.run(&["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(wide.code, 2);
    insta::assert_snapshot!(wide.err.trim(), @r"
    error: `0.0.0.0:0` is reached from other machines, and nobody would have to show who they are
    hint: `outrigger gateway token NAME` makes a token for each who may connect; `[gateway.oauth]` names an authorization server instead
    hint: or serve on 127.0.0.1, which other machines do not reach
    ");
}

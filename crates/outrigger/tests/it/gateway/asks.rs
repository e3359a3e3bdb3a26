//! What policy and servers ask, put to the client whose call it is: by a request, or in a result.

use serde_json::{Value, json};

use super::served::{Line, Served, modern_with};
use super::text;
use crate::place::{Place, fixture};
use crate::scripted::{Log, lab};

fn can() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} })
}

/// A place with a server that asks all there is to ask, and does.
fn asker(era: &[&str]) -> (Place, Log) {
    let place = Place::new();
    let log = place.root.join("lab.log");
    let mut args = vec![fixture("asking_server.py"), log.display().to_string()];
    args.extend(era.iter().map(|era| (*era).to_owned()));
    place.servers(&json!({ "lab": {
        "command": "python3", "args": args, "answers": ["elicitation", "sampling", "roots"]
    } }));
    (place, Log::at(log))
}

#[test]
fn policy_asks_the_client_of_the_legacy_era() {
    let (place, log) = lab();
    let mut line = Line::start(&place, &["serve"]);
    line.begin("2025-11-25", json!({ "elicitation": {} }));
    line.ask("tools/list", json!({}));
    let call = json!({ "name": "lab__repeat", "arguments": { "text": "a\u{202e}b" } });
    for (answer, ran) in [
        (
            json!({ "action": "accept", "content": { "decision": "approve" } }),
            true,
        ),
        (
            json!({ "action": "accept", "content": { "decision": "decline" } }),
            false,
        ),
        (json!({ "action": "decline" }), false),
        (json!({ "action": "cancel" }), false),
    ] {
        let before = log.of("tools/call").len();
        let id = line.send("tools/call", call.clone());
        let asked = line.wait(id);
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert_eq!(
            log.of("tools/call").len(),
            before,
            "nothing is sent before the answer"
        );
        if before == 0 {
            insta::assert_snapshot!(asked["params"]["message"].as_str().unwrap(), @r#"
            A call needs your approval: the tool `repeat` of the server `lab`.
            Arguments: {"text":"a\u{202e}b"}
            Rule: the default of the policy
            "#);
        }
        line.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
        let end = line.wait(id);
        assert_eq!(
            end["result"]["isError"].as_bool().unwrap_or(false),
            !ran,
            "{end}"
        );
        assert_eq!(log.of("tools/call").len(), before + usize::from(ran));
    }
    assert_eq!(line.end(), 0);
    let run = place.last_run();
    assert!(run.contains("declined"), "{run}");
}

#[test]
fn policy_asks_the_client_of_the_modern_era_in_a_result() {
    let (place, log) = lab();
    let served = Served::start(&place, &[]);
    let call = |more: Value| {
        let mut params = json!({ "name": "lab__repeat", "arguments": { "text": "a" } });
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        served
            .modern_heard("tools/call", modern_with(params, can()))
            .json()
    };
    let asked = call(json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    let (name, question) = questions.iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    let yes = json!({ "action": "accept", "content": { "decision": "approve" } });

    // Another state is none, another tool is not what was asked about, and no answer is asked for again.
    let bad = call(json!({ "requestState": "x", "inputResponses": { name: yes } }));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    let again = call(json!({ "requestState": state, "inputResponses": { "other": yes } }));
    assert_eq!(
        again["result"]["inputRequests"],
        asked["result"]["inputRequests"]
    );
    assert_eq!(log.of("tools/call").len(), 0);
    let next = again["result"]["requestState"].as_str().unwrap();
    assert_ne!(next, state);
    let end = call(json!({ "requestState": next, "inputResponses": { name: yes } }));
    assert_eq!(text(&end), "a");
    let used = call(json!({ "requestState": next, "inputResponses": { name: yes } }));
    assert_eq!(used["error"]["code"], -32602);
    assert_eq!(log.of("tools/call").len(), 1);
}

#[test]
fn a_client_that_cannot_be_asked_is_told_what_to_do() {
    let (place, log) = lab();
    let mut line = Line::start(&place, &["serve"]);
    line.begin("2025-11-25", json!({}));
    let answer = line.ask(
        "tools/call",
        json!({ "name": "lab__repeat", "arguments": { "text": "a" } }),
    );
    insta::assert_snapshot!(text(&answer), @"Not called: it needs approval, and nobody is there to give it. This is not a decision of the user. The person who runs this gateway can allow it by a rule of its configuration or with `--allow`, or let such calls wait for them (`gateway.approvals`); a client that takes questions (elicitation) is asked.");
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(log.of("tools/call").len(), 0);
    assert_eq!(line.end(), 0);
}

#[test]
fn servers_ask_the_client_whose_call_it_is_across_eras() {
    for era in [&[][..], &["modern"]] {
        let (place, _) = asker(era);
        let mut line = Line::start(&place, &["serve", "--allow", "*"]);
        line.begin("2025-11-25", can());
        line.ask("tools/list", json!({}));
        for (tool, method, answer) in [
            (
                "lab__form",
                "elicitation/create",
                json!({ "action": "accept", "content": { "name": "Ada", "view": "sea" } }),
            ),
            (
                "lab__visit",
                "elicitation/create",
                json!({ "action": "decline" }),
            ),
            (
                "lab__sample",
                "sampling/createMessage",
                json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Pike" } }),
            ),
            (
                "lab__roots",
                "roots/list",
                json!({ "roots": [{ "uri": "file:///x", "name": "X" }] }),
            ),
        ] {
            let id = line.send("tools/call", json!({ "name": tool, "arguments": {} }));
            let asked = line.wait(id);
            assert_eq!(asked["method"], method, "{era:?} {tool}: {asked}");
            line.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
            let end = line.wait(id);
            let heard: Value = serde_json::from_str(text(&end)).unwrap();
            assert_eq!(heard, answer, "{era:?} {tool}: {end}");
        }

        modern_ones_come_back(&mut line, era.is_empty());
        assert_eq!(line.end(), 0);
    }
}

/// The same of a modern client, which comes back with the answer, and of one that cannot be asked.
fn modern_ones_come_back(line: &mut Line, legacy: bool) {
    let params = json!({ "name": "lab__form", "arguments": {} });
    let asked = line.ask("tools/call", modern_with(params.clone(), can()));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    let name = questions.keys().next().unwrap();
    let answer = json!({ "action": "accept", "content": { "name": "Ada", "view": "sea" } });
    let mut params = params;
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({ name: answer });
    let end = line.ask("tools/call", modern_with(params, can()));
    assert_eq!(serde_json::from_str::<Value>(text(&end)).unwrap(), answer);

    // And of one that cannot be asked.
    let params = json!({ "name": "lab__sample", "arguments": {} });
    let end = line.ask("tools/call", modern_with(params, json!({})));
    if legacy {
        assert!(text(&end).contains("does not offer"), "{end}");
    } else {
        assert_eq!(end["error"]["code"], -32021, "{end}");
        assert_eq!(
            end["error"]["data"],
            json!({ "requiredCapabilities": { "sampling": {} } })
        );
    }
}

#[test]
fn a_question_that_may_be_anothers_is_put_to_nobody() {
    let (place, log) = asker(&[]);
    let _served = Served::socket(&place, place.root.join("s").to_str().unwrap());
    let path = place.root.join("s");
    let mut one = Served::connect_socket(&path);
    let mut two = Served::connect_socket(&path);
    for line in [&mut one, &mut two] {
        line.begin("2025-11-25", can());
        line.ask("tools/list", json!({}));
    }
    let yes = json!({ "action": "accept", "content": { "decision": "approve" } });
    let approve = |line: &mut Line, id| {
        let asked = line.wait(id);
        assert!(
            asked["params"]["message"]
                .as_str()
                .unwrap()
                .contains("needs your approval"),
            "{asked}"
        );
        line.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": yes }));
    };
    let first = one.send(
        "tools/call",
        json!({ "name": "lab__form", "arguments": {} }),
    );
    approve(&mut one, first);
    // One client's call is under way: the question is its.
    let asked = one.wait(first);
    assert_eq!(asked["method"], "elicitation/create");
    // With another's beside it, nobody can tell over a pipe.
    let second = two.send(
        "tools/call",
        json!({ "name": "lab__form", "arguments": {} }),
    );
    approve(&mut two, second);
    let end = two.wait(second);
    assert!(end["result"].is_object(), "{end}");
    assert!(text(&end).contains("not known to which client"), "{end}");
    one.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "cancel" } }));
    let end = one.wait(first);
    assert!(text(&end).contains("cancel"), "{end}");
    assert_eq!(log.of("tools/call").len(), 2);
}

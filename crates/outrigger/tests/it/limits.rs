//! Every limit of a run ends it with a message that says which one it was.

use outrigger_testkit::provider_server::{Delivery, Turn};
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, Ran};
use crate::scripted::lab;

/// A model that never stops calling, under one limit.
fn endless(limit: &str, calls: usize) -> (Place, Model, Ran) {
    let (place, _log) = lab();
    let model = Model::answering(move |_, _| {
        Turn::calls(vec![
            ("mcp__lab__repeat", json!({ "text": "again" }));
            calls
        ])
        .usage(500, 100, 50)
    });
    model.serves(&place);
    place.user(&format!("[limits]\n{limit}"));
    let ran = place.run(&["ask", "Go on for ever", "--allow", "*", "--json"]);
    place.assert_nothing_runs();
    (place, model, ran)
}

#[track_caller]
fn ended(ran: &Ran, error: &str) {
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(
        ran.err.contains(&format!("error: {error}\n")),
        "{}",
        ran.err
    );
    let document = ran.json();
    assert_eq!(
        (&document["status"], &document["reason"]),
        (&json!("limited"), &json!(error))
    );
}

#[test]
fn turns() {
    let (place, model, ran) = endless("max_turns = 3", 1);
    ended(&ran, "no answer within 3 turns (`limits.max_turns`)");
    assert_eq!(
        (model.requests().len(), ran.json()["turns"].as_u64()),
        (3, Some(3))
    );
    assert!(
        place
            .last_run()
            .contains("ended: limited: no answer within 3 turns")
    );
}

#[test]
fn calls() {
    let (_place, model, ran) = endless("max_calls = 5", 3);
    ended(&ran, "no answer within 5 tool calls (`limits.max_calls`)");
    assert_eq!(model.requests().len(), 2);
    assert_eq!(
        ran.json()["calls"].as_array().unwrap().len(),
        5,
        "those beyond the limit are not made"
    );
}

#[test]
fn tokens() {
    let (_place, model, ran) = endless("max_tokens = 1000", 1);
    ended(&ran, "no answer within 1000 tokens (`limits.max_tokens`)");
    assert_eq!(model.requests().len(), 2);
    assert_eq!(
        ran.json()["usage"],
        json!({ "input": 1000, "cached": 200, "output": 100 })
    );
}

#[test]
fn time_of_a_call() {
    let (place, log) = lab();
    let model = Model::turns([Turn::calls([("mcp__lab__wait", json!({}))])]);
    model.serves(&place);
    place.user("[limits]\nmax_time = '2s'");
    let ran = place.run(&["ask", "Wait", "--allow", "*", "--json"]);
    ended(&ran, "no answer within 2 s (`limits.max_time`)");
    assert_eq!(ran.json()["calls"][0]["outcome"], "unknown");
    assert_eq!(log.of("notifications/cancelled").len(), 1);
    place.assert_nothing_runs();
}

#[test]
fn time_of_the_model() {
    let (place, _log) = lab();
    let stalled = Delivery {
        stall_at: Some(40),
        ..Delivery::default()
    };
    let model = Model::turns([
        Turn::text("never to be finished, and long enough to be cut").delivered(stalled),
    ]);
    model.serves(&place);
    place.user("[limits]\nmax_time = '1s'");
    let ran = place.run(&["ask", "Think", "--json"]);
    ended(&ran, "no answer within 1 s (`limits.max_time`)");
}

#[test]
fn an_unknown_outcome_weighs_more_than_the_answer() {
    let (place, _log) = lab();
    let model = Model::turns([
        Turn::calls([("mcp__lab__wait", json!({}))]),
        Turn::text("I do not know."),
    ]);
    model.serves(&place);
    place.write("project/.mcp.json", {
        let text = std::fs::read_to_string(place.project().join(".mcp.json")).unwrap();
        text.replacen(
            "\"command\"",
            "\"timeouts\":{\"call\":\"300ms\"},\"command\"",
            1,
        )
    });
    let ran = place.run(&["ask", "Wait", "--allow", "*"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (5, "I do not know.\n"),
        "{ran:#?}"
    );
    assert!(
        ran.err.contains("error: the outcome of 1 call is unknown"),
        "{}",
        ran.err
    );
    insta::assert_snapshot!(model.last_results().join("\n"), @"Outcome unknown: the call was sent to the server `lab`, but no answer came within 0.3 s. It may or may not have taken effect. Do not simply repeat it. Tell the user what is not known.");
}

//! Interrupts and deadlines: the server is told, the ledger says `unknown`, a late answer is kept.

use std::process::{Command, Stdio};

use outrigger_testkit::provider_server::{Delivery, Turn};
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, Ran, until};
use crate::scripted::lab;

fn signal(pid: u32, name: &str) {
    assert!(
        Command::new("kill")
            .args([format!("-{name}"), pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_deadline_ends_a_call_as_unknown() {
    let (place, log) = lab();
    let ran = place.run(&[
        "call",
        "lab",
        "wait",
        "--allow",
        "*",
        "--timeout",
        "0.3",
        "--json",
    ]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert_eq!(ran.json()["outcome"], "unknown");
    insta::assert_snapshot!(ran.err.lines().filter(|line| !line.starts_with("lab ")).collect::<Vec<_>>().join("\n"), @"
    error: outcome unknown: no answer came within 0.3 s
    hint: it may have taken effect; look before you repeat it
    ");
    assert_eq!(log.of("notifications/cancelled").len(), 1);
    assert!(
        place.last_run().contains("call 1: unknown"),
        "{}",
        place.last_run()
    );
    place.assert_nothing_runs();
}

#[test]
fn an_answer_that_comes_late_is_kept() {
    let (place, log) = lab();
    // The server reads one message after the other: when it repeats, it has answered late.
    let model = Model::turns([
        Turn::calls([("mcp__lab__answer_late", json!({}))]),
        Turn::calls([("mcp__lab__repeat", json!({ "text": "still there" }))]),
        Turn::text("I do not know what came of it."),
    ]);
    model.serves(&place);
    let entry = std::fs::read_to_string(place.project().join(".mcp.json")).unwrap();
    place.write(
        "project/.mcp.json",
        entry.replacen(
            "\"command\"",
            "\"timeouts\":{\"call\":\"300ms\"},\"command\"",
            1,
        ),
    );
    let ran = place.run(&["ask", "Wait", "--allow", "*", "--json"]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert!(
        ran.err
            .contains("#1 ← outcome unknown: no answer came within 0.3 s"),
        "{}",
        ran.err
    );
    assert_eq!(
        ran.json()["calls"][0]["outcome"],
        "completed",
        "the ledger knows better now: {ran:#?}"
    );
    assert_eq!(log.of("notifications/cancelled").len(), 1);
    let told = place.last_run();
    assert!(
        told.contains("call 1: unknown in ")
            && told.contains("call 1: late answer: completed: done after all"),
        "{told}"
    );
    assert!(
        !model
            .requests()
            .iter()
            .any(|request| request.text.contains("done after all")),
        "its turn is over"
    );
}

#[test]
fn an_interrupted_call_tells_the_server_and_the_journal() {
    let (place, log) = lab();
    let mut command = place.command(&["call", "lab", "wait", "--allow", "*"]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the call reaches the server", || {
        !log.of("tools/call").is_empty()
    });
    signal(child.id(), "INT");
    let ran = Ran::of(child);
    assert_eq!(ran.code, 130, "{ran:#?}");
    assert!(
        ran.err.contains("outcome unknown: it was cancelled"),
        "{}",
        ran.err
    );
    assert_eq!(
        log.of("notifications/cancelled")[0]["params"]["requestId"],
        log.of("tools/call")[0]["id"]
    );
    let told = place.last_run();
    assert!(
        told.contains("call 1: unknown")
            && told.contains("it was cancelled before the answer came"),
        "{told}"
    );
    place.assert_nothing_runs();
}

#[test]
fn an_interrupted_question_cancels_the_call_and_is_not_an_answer() {
    let (place, log) = lab();
    let model = Model::turns([Turn::calls([("mcp__lab__wait", json!({}))])]);
    model.serves(&place);
    let mut command = place.command(&["ask", "Wait", "--allow", "*"]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the call reaches the server", || {
        !log.of("tools/call").is_empty()
    });
    signal(child.id(), "TERM");
    let ran = Ran::of(child);
    assert_eq!((ran.code, ran.out.as_str()), (130, ""), "{ran:#?}");
    assert_eq!(log.of("notifications/cancelled").len(), 1);
    let told = place.last_run();
    assert!(
        told.contains("call 1: unknown") && told.contains("ended: interrupted"),
        "{told}"
    );
    place.assert_nothing_runs();
}

#[test]
fn an_interrupt_while_the_model_thinks_ends_at_once() {
    let (place, _log) = lab();
    let stalled = Delivery {
        stall_at: Some(40),
        ..Delivery::default()
    };
    let model = Model::turns([
        Turn::text("never to be finished, and long enough to be cut").delivered(stalled),
    ]);
    model.serves(&place);
    let mut command = place.command(&["ask", "Think"]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the model is asked", || model.requests().len() == 1);
    signal(child.id(), "INT");
    let ran = Ran::of(child);
    assert_eq!(ran.code, 130, "{ran:#?}");
    assert!(place.last_run().contains("ended: interrupted"));
    place.assert_nothing_runs();
}

#[test]
fn a_killed_host_leaves_no_process_and_an_honest_ledger() {
    let (place, log) = lab();
    let mut command = place.command(&["call", "lab", "wait", "--allow", "*"]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the call reaches the server", || {
        !log.of("tools/call").is_empty()
    });
    signal(child.id(), "KILL");
    assert_eq!(Ran::of(child).code, -1);
    until("the server is gone", || place.processes().is_empty());
    let runs = place.json(&["runs", "list", "--json"]);
    assert_eq!(
        (&runs[0]["calls"], &runs[0]["unknown"], &runs[0]["status"]),
        (&json!(1), &json!(1), &json!(null))
    );
    assert!(
        place.last_run().contains("call 1: unknown"),
        "{}",
        place.last_run()
    );
}

#[test]
fn who_only_looks_can_be_interrupted_at_any_time() {
    for words in [&["tools"][..], &["doctor"], &["call", "silent", "x"]] {
        let silent = json!({ "command": "sh", "args": ["-c", "touch started; sleep 1000"] });
        let place = Place::with_servers(&json!({ "silent": silent }));
        let mut command = place.command(words);
        let pipe = Stdio::piped;
        let child = command
            .stdin(Stdio::null())
            .stdout(pipe())
            .stderr(pipe())
            .spawn()
            .unwrap();
        until("the server is started", || {
            place.project().join("started").exists()
        });
        signal(child.id(), "INT");
        let ran = Ran::of(child);
        assert_eq!(ran.code, 130, "{words:?}: {ran:#?}");
        place.assert_nothing_runs();
    }
}

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

/// What a person heard besides the servers, as if no machine were slow.
fn heard(ran: &Ran) -> String {
    let lines = ran.err.lines().filter(|line| !line.starts_with("lab "));
    lines
        .map(|line| match line.split_once("no answer came within ") {
            // However long it was on a busy machine.
            Some((before, rest)) => {
                let after = rest.trim_start_matches(|character: char| {
                    character.is_ascii_digit() || character == '.'
                });
                format!("{before}no answer came within 0.3{after}")
            }
            None => line.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_deadline_ends_a_call_as_unknown() {
    let (place, log) = lab();
    place.user("[timeouts]\nlate = '50ms'");
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
    insta::assert_snapshot!(heard(&ran), @"
    outcome unknown: no answer came within 0.3 s; waiting up to 50 ms for it to come late
    error: outcome unknown: no answer came within 0.3 s
    hint: it may have taken effect; look before you repeat it: `outrigger runs unknown` says how
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
    assert_eq!(ran.code, 0, "by what is known at the end: {ran:#?}");
    assert!(
        ran.err
            .contains("#1 ← outcome unknown: no answer came within 0."),
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
    assert!(told.contains("ended: done"), "{told}");
    let requests = model.requests();
    let notes = requests[2].body["messages"].as_array().unwrap();
    let notes: Vec<_> = notes
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["content"].to_string())
        .filter(|content| content.contains("done after all"))
        .collect();
    assert_eq!(notes.len(), 1, "told once: {notes:?}");
    assert!(
        notes[0].contains("[a note of this host, not of the user] The outcome of call 1 to `mcp__lab__answer_late` was unknown")
            && notes[0].contains("[data from lab]"),
        "{notes:?}"
    );
}

#[test]
fn one_call_waits_for_its_answer_to_come_late() {
    let (place, _log) = lab();
    let words = [
        "call",
        "lab",
        "answer_late",
        "--allow",
        "*",
        "--timeout",
        "0.3",
    ];
    let ran = place.run(&words);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "done after all\n"),
        "{ran:#?}"
    );
    // Which comes first is between the server and the screen, and who has the answer is not told to wait.
    let waiting =
        "outcome unknown: no answer came within 0.3 s; waiting up to 2.0 s for it to come late";
    let heard = heard(&ran);
    let lines = heard.lines().filter(|line| *line != waiting);
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["#1 ← late answer: done after all"]
    );
    place.assert_nothing_runs();
}

#[test]
fn the_same_call_is_not_made_again_unless_it_is_said_to_be() {
    let (place, log) = lab();
    place.user("[timeouts]\nlate = '50ms'");
    let call = |more: &[&str]| {
        let words = [
            "call",
            "lab",
            "wait",
            "n=1",
            "--allow",
            "*",
            "--timeout",
            "0.3",
        ];
        place.run(&[&words[..], more].concat())
    };
    assert_eq!(call(&[]).code, 5);
    let refused = call(&[]);
    assert_eq!(refused.code, 3, "{refused:#?}");
    insta::assert_snapshot!(place.tidy(refused.err.split_once('\n').unwrap().1), @"
    error: refused: the outcome of the same call (call 1 of the run RUN is unknown, and nobody is there to say that it may be made again
    hint: look what came of it: `outrigger runs unknown` says how
    hint: then say so: `outrigger runs settle RUN 1 --happened` (or `--did-not`); `--repeat` makes it all the same
    ");
    assert_eq!(log.of("tools/call").len(), 1);
    assert_eq!(call(&["--repeat"]).code, 5);
    assert_eq!(log.of("tools/call").len(), 2);
    let unknown = place.json(&["runs", "unknown", "--json"]);
    let unknown = unknown.as_array().unwrap();
    assert_eq!(unknown.len(), 2);
    for call in unknown {
        let run = call["run"].as_str().unwrap();
        let settled = place.run(&[
            "runs",
            "settle",
            run,
            "1",
            "--did-not",
            "--note",
            "I\u{1b}[2J looked",
        ]);
        assert_eq!(settled.code, 0, "{settled:#?}");
    }
    assert_eq!(place.json(&["runs", "unknown", "--json"]), json!([]));
    assert_eq!(
        place.json(&["runs", "list", "--json"])[1]["command"],
        "settle"
    );
    let run = unknown[0]["run"].as_str().unwrap();
    let shown = place.run(&["runs", "show", run]).out;
    assert!(
        shown.contains("call 1: unknown in ")
            && shown.contains("it did not take effect: I\\u{1b}[2J looked"),
        "{shown}"
    );
    assert_eq!(
        call(&[]).code,
        5,
        "now it may be made: nothing had happened"
    );
    assert_eq!(log.of("tools/call").len(), 3);
}

#[test]
fn only_what_is_unknown_is_settled() {
    let (place, _log) = lab();
    place.run(&["call", "lab", "keep", "--allow", "*"]);
    let runs = place.json(&["runs", "list", "--json"]);
    let run = runs[0]["id"].as_str().unwrap();
    let mut told = Vec::new();
    for words in [
        &["runs", "settle", run, "1", "--happened"][..],
        &["runs", "settle", run, "2", "--happened"],
        &["runs", "settle", "nothing", "1", "--happened"],
    ] {
        let ran = place.run(words);
        assert_eq!(ran.code, 2, "{ran:#?}");
        told.push(place.tidy(&ran.err));
    }
    insta::assert_snapshot!(told.join("\n"), @"
    error: call 1 of RUN is completed; only an unknown outcome can be settled
    error: the run RUN has no call 2
    hint: `outrigger runs show RUN lists them
    error: there is no run `nothing`
    hint: `outrigger runs` lists them
    ");
    assert_eq!(place.run(&["runs", "settle", run, "1"]).code, 2);
    assert_eq!(
        place
            .json(&["runs", "list", "--json"])
            .as_array()
            .unwrap()
            .len(),
        1
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

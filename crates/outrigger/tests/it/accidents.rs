//! A server commits a write, and then something goes wrong. In every case there is exactly one write,
//! the ledger says what is known, `runs unknown` lists what is not, and `resume` does not repeat it.

use serde_json::{Value, json};

use crate::bank::{Bank, Over};
use crate::place::{Place, Ran, fixture};
use crate::scripted::Log;

/// Enough for a server to be slow, and for a test not to be.
const TIMES: (&str, &str) = ("400ms", "10s");

/// Asks, and looks at what is known afterwards. `why`: of the unknown outcome.
fn unknown(over: Over, tool: &'static str, times: (&str, &str), why: &str) -> Bank {
    let bank = Bank::new(over, tool, times);
    let ran = bank.ask();
    let what = format!("{over:?} {tool}: {ran:#?}");
    assert_eq!(ran.code, 5, "{what}");
    assert_eq!(bank.payments(), [r#"["ada", 500, null]"#], "{what}");
    let calls = bank.unknown();
    assert_eq!(calls.len(), 1, "{what}: {calls:?}");
    let call = &calls[0];
    assert!(
        call["why"].as_str().unwrap().contains(why),
        "{what}: {call}"
    );
    assert_eq!(
        (&call["server"], &call["raw_tool"], &call["arguments"]),
        (
            &json!("bank"),
            &json!(tool),
            &json!(r#"{"to":"ada","cents":500}"#)
        )
    );
    assert_eq!(call["checks"], json!(["mcp__bank__payments"]), "{what}");
    bank
}

/// Goes on, with a model that pays again.
fn not_repeated(bank: &Bank) -> Ran {
    let run = bank.newest().unwrap();
    let ran = bank.resume(&run);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert!(
        ran.err.contains("Nobody knows what came of:") && ran.err.contains(&run),
        "the unknown is shown first: {}",
        ran.err
    );
    let document = ran.json();
    let outcomes: Vec<&Value> = document["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["outcome"])
        .collect();
    assert_eq!(outcomes, ["rejected"], "{document:#}");
    assert_eq!(bank.payments().len(), 1, "{ran:#?}");
    assert_eq!(bank.unknown().len(), 1, "it stays on the list");
    bank.place.assert_nothing_runs();
    ran
}

#[test]
fn the_connection_drops() {
    for over in [Over::Stdio, Over::Http] {
        let bank = unknown(over, "pay_and_hang_up", TIMES, "the connection ended");
        let ran = not_repeated(&bank);
        assert!(
            ran.err
                .contains("← refused: the outcome of the same call (call 1 of the run"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn the_server_never_answers() {
    for over in [Over::Stdio, Over::Http] {
        let times = ("400ms", "100ms");
        let bank = unknown(over, "pay_and_say_nothing", times, "no answer came within");
        not_repeated(&bank);
    }
}

#[test]
fn the_server_is_killed() {
    let bank = unknown(Over::Stdio, "pay_and_die", TIMES, "the connection ended");
    not_repeated(&bank);
}

#[test]
fn the_server_answers_after_the_deadline() {
    for over in [Over::Stdio, Over::Http] {
        let bank = Bank::new(over, "pay_and_answer_late", TIMES);
        let ran = bank.ask();
        assert_eq!(bank.payments().len(), 1, "{ran:#?}");
        assert_eq!(ran.code, 0, "exit by what is known at the end: {ran:#?}");
        assert!(
            ran.err
                .contains("#1 ← late answer: paid, if anybody still wants to know"),
            "{}",
            ran.err
        );
        assert_eq!(bank.unknown(), Vec::<Value>::new());
        let run = bank.newest().unwrap();
        let shown = bank.place.last_run();
        assert!(
            shown.contains("call 1: unknown in ")
                && shown.contains("call 1: late answer: completed"),
            "{shown}"
        );
        let resumed = bank.resume(&run);
        assert_eq!(resumed.code, 0, "{resumed:#?}");
        assert_eq!(bank.payments().len(), 1, "{resumed:#?}");
    }
}

/// However often a server is asked about its task, it is one call.
#[test]
fn a_task_is_one_call() {
    let place = Place::new();
    let log = Log::at(place.root.join("lab.log"));
    let entry = json!({
        "command": "python3", "args": [fixture("task_server.py"), log.0], "timeouts": { "call": "1s", "late": "50ms" },
    });
    place.servers(&json!({ "lab": entry }));
    let baked = place.run(&["call", "lab", "bake", "--allow", "*"]);
    assert_eq!(
        (baked.code, baked.out.as_str()),
        (0, "baked\n"),
        "{baked:#?}"
    );
    assert_eq!(log.of("tasks/get").len(), 3);
    let lost = place.run(&["call", "lab", "lose", "--allow", "*"]);
    assert_eq!(lost.code, 5, "{lost:#?}");
    assert_eq!(log.of("tasks/cancel").len(), 1);
    let runs = place.json(&["runs", "list", "--json"]);
    for run in [&runs[0], &runs[1]] {
        let run = run["id"].as_str().unwrap();
        let events = place.run(&["runs", "show", run, "--json"]).out;
        for step in ["proposed", "decided", "intent", "ended"] {
            let times = events.matches(&format!("\"call_{step}\"")).count();
            assert_eq!(times, 1, "{step}: {events}");
        }
    }
}

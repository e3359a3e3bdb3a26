//! The host is killed with `kill -9`, at many points of a run that makes one payment. Whatever the
//! point: at most one payment was made, the ledger does not claim what is not so, and going on makes no
//! second one.

use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outrigger_testkit::provider_server::Turn;

use crate::bank::{Bank, Over, QUESTION};
use crate::place::until;

/// Points in all.
const POINTS: usize = 50;
/// The beginning of the event.
const INTENT: &str = r#""type":"call_intent""#;
/// Runs at one time; more would only wait for each other.
const SIDE_BY_SIDE: usize = 2;

/// When the host is killed.
#[derive(Debug, Clone, Copy)]
enum Point {
    /// After this part of the time that a whole run takes, in thousandths.
    After(u32),
    /// The model has been asked for the first time.
    FirstTurn,
    /// The intent is on disk.
    Intent,
    /// The payment is in the server's book.
    Paid,
    /// The model has been given the result.
    SecondTurn,
}

fn start(bank: &Bank) -> Child {
    let mut command: Command = bank.place.command(&["ask", QUESTION, "--allow", "*"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Kills the host at the point, or finds that it has ended by itself; then nothing of it runs.
fn kill_at(bank: &Bank, point: Point, whole: Duration) {
    let began = Instant::now();
    let mut child = start(bank);
    match point {
        Point::After(thousandths) => {
            let delay = whole * thousandths / 1000;
            thread::sleep(delay.saturating_sub(began.elapsed()));
        }
        Point::FirstTurn => until("the model is asked", || !bank.model.requests().is_empty()),
        Point::Intent => until("the intent is on disk", || {
            let log = std::fs::read(bank.place.journal().with_extension("db-wal"));
            let written = String::from_utf8_lossy(&log.unwrap_or_default()).contains(INTENT);
            // A run that is over has taken the log into the file.
            written || child.try_wait().unwrap().is_some()
        }),
        Point::Paid => until("it is paid", || !bank.payments().is_empty()),
        Point::SecondTurn => until("the model is told", || bank.model.requests().len() > 1),
    }
    // One that is over cannot be killed any more.
    child.kill().ok();
    child.wait().unwrap();
    until("the server is gone", || bank.place.processes().is_empty());
}

/// What the ledger says, and that it is so.
fn truth(bank: &Bank, what: &str) -> &'static str {
    let paid = bank.payments().len();
    let Some(run) = bank.newest() else {
        assert_eq!(paid, 0, "{what}: paid without a run");
        return "no run";
    };
    let shown = bank.place.json(&["runs", "list", "--json"]);
    let unknown = bank.unknown();
    assert_eq!(
        shown[0]["unknown"].as_u64().unwrap(),
        unknown.len() as u64,
        "{what}"
    );
    let events = bank.place.run(&["runs", "show", &run, "--json"]).out;
    let ended = |outcome: &str| {
        events.contains(&format!(
            r#""type":"call_ended","call":1,"outcome":"{outcome}""#
        ))
    };
    let known = [
        (ended("completed"), "completed", 1..=1),
        (ended("not_sent"), "not sent", 0..=0),
        (ended("rejected"), "rejected", 0..=0),
        (ended("unknown"), "unknown", 0..=1),
        (!events.contains("call_ended"), "no call", 0..=0),
    ];
    let (_, word, payments) = known
        .into_iter()
        .find(|(is, ..)| *is)
        .unwrap_or_else(|| panic!("{what}: {events}"));
    assert!(
        payments.contains(&paid),
        "{what}: {word}, and {paid} payments: {events}"
    );
    assert_eq!(unknown.len(), usize::from(word == "unknown"), "{what}");
    word
}

/// Goes on; a model that may pay does, and one that may not tries to.
fn go_on(bank: &Bank, known: &str, what: &str) {
    let Some(run) = bank.newest() else { return };
    let before = bank.payments().len();
    let ran = bank.resume(&run);
    let after = bank.payments().len();
    let what = format!("{what}, {known}: {ran:#?}");
    match known {
        "unknown" => {
            assert_eq!(after, before, "{what}");
            assert_eq!(ran.code, 3, "refused: {what}");
        }
        "completed" => {
            assert_eq!((after, ran.code), (1, 0), "{what}");
        }
        _ => assert_eq!((after, ran.code), (1, 0), "now it is paid: {what}"),
    }
}

#[test]
fn a_host_that_is_killed_at_any_point_leaves_the_truth_behind() {
    let whole = {
        let bank = Bank::new(Over::Stdio, "pay", ("10s", "10ms"));
        let began = Instant::now();
        assert!(start(&bank).wait().unwrap().success());
        began.elapsed()
    };
    let steered = [
        Point::FirstTurn,
        Point::Intent,
        Point::Paid,
        Point::SecondTurn,
    ];
    let mut seed = u64::from(std::process::id());
    let mut random = || {
        // Knuth's MMIX generator; its low bits are poor.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(seed >> 33).unwrap_or(0)
    };
    let mut points: Vec<Point> = steered.into_iter().cycle().take(12).collect();
    // Most of them where something happens: from the first server to the end.
    points.extend((points.len()..POINTS).map(|_| Point::After(random() % 1050)));
    let (next, ends) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let bank = Bank::new(Over::Stdio, "pay", ("10s", "10ms"));
                    let what = format!("{point:?} of {whole:?}");
                    kill_at(&bank, *point, whole);
                    let known = truth(&bank, &what);
                    go_on(&bank, known, &what);
                    ends.lock().unwrap().push(known);
                }
            });
        }
    });
    let ends = ends.into_inner().unwrap();
    assert_eq!(ends.len(), POINTS);
    for wanted in ["unknown", "completed"] {
        assert!(ends.contains(&wanted), "no point hit `{wanted}`: {ends:?}");
    }
}

/// Going on is a run like any other, and may be killed too.
#[test]
fn going_on_that_is_killed_is_gone_on_with() {
    let bank = Bank::new(Over::Stdio, "pay_and_hang_up", ("10s", "10ms"));
    assert_eq!(bank.ask().code, 5);
    let mut run = bank.newest().unwrap();
    for thousandths in [50, 100, 200, 400, 800] {
        let words = ["resume", &run, "Go on", "--allow", "*"];
        let mut child = bank
            .place
            .command(&words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(thousandths));
        child.kill().unwrap();
        child.wait().unwrap();
        until("nothing runs", || bank.place.processes().is_empty());
        // One that did not come to say what it goes on with has nothing of its own.
        if bank.place.events().contains("\"run_resumed\"") {
            run = bank.newest().unwrap();
        }
    }
    let ran = bank.resume(&run);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert!(
        ran.err.contains("hint: no rule allows a repeat")
            && ran.err.contains("what came of the call they repeat")
            && !ran.err.contains("--allow"),
        "{ran:#?}"
    );
    assert_eq!(bank.payments().len(), 1);
    assert_eq!(bank.unknown().len(), 1);
    let requests = bank.model.requests();
    let last = &requests.last().unwrap().text;
    assert!(last.contains(QUESTION) && last.contains("Go on"), "{last}");
}

/// The calls of one turn, of which the second was never made.
#[test]
fn a_call_that_was_asked_for_and_not_made_is_told_as_such() {
    let mut bank = Bank::new(Over::Stdio, "pay", ("10s", "10ms"));
    let pay = |tool: &'static str| (tool, crate::bank::payment());
    bank.model = crate::model::Model::answering(move |number, _| match number {
        0 => Turn::calls([pay("mcp__bank__pay_and_say_nothing"), pay("mcp__bank__pay")]),
        _ => Turn::text("I see."),
    });
    bank.place.user(&format!(
        "[model.providers.other]\nkind = 'openai-chat'\nbase_url = '{}'",
        bank.model.base_url()
    ));
    let words = ["ask", QUESTION, "--allow", "*", "--model", "other:one"];
    let mut child = bank.place.command(&words).spawn().unwrap();
    until("it is paid", || !bank.payments().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    until("the server is gone", || bank.place.processes().is_empty());
    let run = bank.newest().unwrap();
    let ran = bank.place.run(&["resume", &run]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(bank.payments().len(), 1);
    let told = bank.model.last_results();
    assert!(
        told[0].starts_with("Outcome unknown: the call was sent to the server `bank`, but the host stopped before the answer came.")
            && told[0].contains(r#"Sent was: {"to":"ada","cents":500}."#)
            && told[0].contains("mcp__bank__payments"),
        "{told:?}"
    );
    assert_eq!(told[1], "Not called: the host stopped before it was made.");
}

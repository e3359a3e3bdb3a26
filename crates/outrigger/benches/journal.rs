//! What looking at a large journal costs: `runs list`, `runs show` and `audit verify` of the built
//! program, on a file with 300,000 lines, all of one run of 60,000 calls, and on one with a tenth.
//!
//! Prints times and ratios; nothing is judged here. A time that grows faster than the file shows in
//! the ratio of the two.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark: it reports to a person and stops at the first trouble"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use outrigger_journal::{
    DecidedBy, Event, Journal, OutcomeKind, Run, RunOptions, RunStatus, Tokens,
};
use serde_json::value::RawValue;

/// Lines of one call.
const LINES: u32 = 5;
const TIMES: usize = 5;

fn text(text: &str) -> String {
    text.to_owned()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn call(run: &Run, call: u32) {
    let events = [
        Event::CallProposed {
            call,
            turn: None,
            tool: text("mcp__files__read"),
            arguments: text(r#"{"path":"src/main.rs"}"#),
            client: None,
        },
        Event::CallPrepared {
            artifacts: Vec::new(),
            call,
            server: text("files"),
            raw_tool: text("read"),
            arguments: raw(r#"{"path":"src/main.rs"}"#),
            repairs: Vec::new(),
        },
        Event::CallDecided {
            call,
            allowed: true,
            rule: text("default"),
            by: DecidedBy::Policy,
            reason: None,
        },
        Event::CallIntent { call },
        Event::CallEnded {
            artifacts: Vec::new(),
            call,
            outcome: OutcomeKind::Completed,
            is_error: false,
            summary: text("1 text"),
            result: Some(raw(
                r#"{"content":[{"type":"text","text":"The quick brown fox jumps over the lazy dog."}]}"#,
            )),
            kept: None,
            tokens: 12,
            took_ms: 3,
        },
    ];
    for event in events {
        run.record(event);
    }
}

/// A journal in `state` with a run of so many lines; how long that took, in seconds.
async fn recorded(state: &Path, lines: u32) -> f64 {
    let journal = Journal::open(&state.join("journal.db")).unwrap();
    let started = Event::RunStarted {
        command: text("ask"),
        question: None,
        model: None,
        workspace: text("/w"),
        version: text("0"),
        principal: None,
    };
    let run = journal.begin(started, RunOptions::default()).await.unwrap();
    let clock = Instant::now();
    for number in 1..=lines / LINES {
        call(&run, number);
        if number % 1_000 == 0 {
            let note = Event::ServerWarned {
                server: text("files"),
                warning: text("so far"),
            };
            run.record_durable(note).await.unwrap();
        }
    }
    run.record(Event::RunEnded {
        status: RunStatus::Done,
        reason: None,
        answer: None,
        usage: Tokens::default(),
    });
    journal.close().await.unwrap();
    assert_eq!(run.trouble(), None);
    clock.elapsed().as_secs_f64()
}

/// Milliseconds that half of the times stayed within.
fn median(state: &Path, words: &[&str]) -> f64 {
    let mut took: Vec<_> = (0..TIMES)
        .map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
            command.args(words).arg("--state-dir").arg(state);
            let clock = Instant::now();
            let status = command.stdout(Stdio::null()).status().unwrap();
            assert!(status.success(), "{words:?}");
            clock.elapsed()
        })
        .collect();
    took.sort();
    took[TIMES / 2].as_secs_f64() * 1e3
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (small, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    recorded(small.path(), 30_000).await;
    let took = recorded(large.path(), 300_000).await;
    println!(
        "recording 300,000 lines: {took:.1} s, {:.0} a second",
        300_000.0 / took
    );
    let year = jiff::Timestamp::now().strftime("%Y").to_string();
    for words in [
        &["runs", "list"][..],
        &["runs", "show", &year],
        &["runs", "show", &year, "--json"],
        &["audit", "verify"],
        &["audit", "export", "--jsonl"],
    ] {
        let (few, many) = (median(small.path(), words), median(large.path(), words));
        println!(
            "{}: {many:.0} ms on 300,000 lines, {:.1} × on 30,000",
            words.join(" "),
            many / few
        );
    }
}

//! Memory stays bounded however fast events come.

use std::fs;

use outrigger_journal::{Journal, JournalError, RunOptions};

use crate::process::{self, Role, say};
use crate::setup::{Home, note, started};

const EVENTS: u64 = 10_000;
const MIB: u64 = 1 << 20;

/// Records 195 MiB, with a durable event now and then, and says how much memory that took.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn records_much() {
    let journal = Journal::open(&process::journal()).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let before = peak();
    for number in 0..EVENTS {
        let event = note(number, "x".repeat(20 << 10));
        if number % 100 == 0 {
            run.record_durable(event).await.unwrap();
        } else {
            run.record(event);
        }
    }
    assert_eq!(run.trouble(), None);
    journal.close().await.unwrap();
    say((peak() - before) / MIB);
}

/// Records as much while the file is locked by another process.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn records_much_into_a_locked_file() {
    let journal = Journal::open(&process::journal()).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let other = rusqlite::Connection::open(process::journal()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = peak();
    for number in 0..EVENTS {
        run.record(note(number, "x".repeat(20 << 10)));
    }
    let grown = (peak() - before) / MIB;
    assert!(
        run.trouble()
            .unwrap()
            .contains("events came faster than the disk")
    );
    assert!(matches!(
        run.record_durable(note("s", "more")).await,
        Err(JournalError::Overrun { .. })
    ));
    other.execute_batch("COMMIT").unwrap();
    journal.close().await.unwrap();
    let events = journal.events(run.id()).await.unwrap();
    assert!(events.len() > 1_000 && events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    say(grown);
}

/// Bytes of memory held at most so far.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn ten_thousand_events_take_bounded_memory() {
    let home = Home::new();
    for role in [
        "memory::records_much",
        "memory::records_much_into_a_locked_file",
    ] {
        let said = Role::start(role, &home.path()).finish();
        let grown: u64 = said[0].parse().unwrap();
        assert!(
            grown < 120,
            "{role} took {grown} MiB; the queue holds at most 64"
        );
    }
}

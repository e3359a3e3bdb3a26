//! Memory stays bounded however fast events come.

use std::fs;

use bytes::Bytes;
use outrigger_journal::{
    ArtifactOrigin, Artifacts, Journal, JournalError, NewArtifact, RunOptions,
};

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

/// Keeps 64 MiB as an artifact, twice, and exports it; says how much memory that took beside them.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn keeps_a_large_content() {
    let journal = Journal::open(&process::journal()).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let artifacts = Artifacts::open(&process::journal().with_file_name("artifacts"), &journal);
    let bytes = Bytes::from(vec![7; 64 << 20]);
    let before = peak();
    let mut exported = 0;
    for call in [1, 2] {
        let new = NewArtifact {
            bytes: bytes.clone(),
            media_type: "application/octet-stream".to_owned(),
            name: None,
            origin: ArtifactOrigin {
                run: run.id().clone(),
                call,
                server: "files".to_owned(),
                tool: "read".to_owned(),
                block: None,
            },
        };
        let kept = artifacts.put(new).await.unwrap();
        let take = |some: &[u8]| {
            exported += some.len();
            Ok(())
        };
        artifacts.export(&kept.digest, take).await.unwrap();
    }
    assert_eq!(exported, 2 * bytes.len());
    say((peak() - before) / MIB);
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
fn a_large_content_is_not_copied() {
    let home = Home::new();
    let said = Role::start("memory::keeps_a_large_content", home.path()).finish();
    let grown: u64 = said[0].parse().unwrap();
    assert!(grown < 16, "{grown} MiB more than the content itself");
}

#[test]
fn ten_thousand_events_take_bounded_memory() {
    let home = Home::new();
    for role in [
        "memory::records_much",
        "memory::records_much_into_a_locked_file",
    ] {
        let said = Role::start(role, home.path()).finish();
        let grown: u64 = said[0].parse().unwrap();
        assert!(
            grown < 120,
            "{role} took {grown} MiB; the queue holds at most 64"
        );
    }
}

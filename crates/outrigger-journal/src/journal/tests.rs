//! Limits that are too large to reach in a test as they are.

use std::time::Duration;

use super::*;
use crate::RunStatus;

fn started() -> Event {
    let text = String::new;
    Event::RunStarted {
        command: text(),
        question: None,
        model: None,
        workspace: text(),
        version: text(),
        principal: None,
    }
}

fn note(reason: String) -> Event {
    Event::ServerEnded {
        server: "s".to_owned(),
        reason,
    }
}

async fn run(settings: Settings) -> (tempfile::TempDir, Journal, Run) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open_with(&folder.path().join("journal.db"), &settings).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    (folder, journal, run)
}

#[tokio::test]
async fn a_full_disk_refuses_intents_and_ends_with_a_clear_error() {
    let settings = Settings {
        max_pages: Some(60),
        ..Settings::default()
    };
    let (_folder, journal, run) = run(settings).await;
    let error = loop {
        if let Err(error) = run.record_durable(note("x".repeat(10_000))).await {
            break error;
        }
    };
    assert!(matches!(error, JournalError::DiskFull { .. }), "{error}");
    assert_eq!(run.trouble(), Some(error.to_string()));
    run.record(note("x".repeat(10_000)));
    let error = journal.close().await.unwrap_err();
    assert!(matches!(error, JournalError::DiskFull { .. }), "{error}");
    let events = journal.events(run.id()).await.unwrap();
    assert!(events.len() > 5 && events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
}

#[tokio::test]
async fn a_locked_file_is_told_and_nothing_is_lost() {
    let settings = Settings {
        patience: Duration::from_millis(50),
        ..Settings::default()
    };
    let (_folder, journal, run) = run(settings).await;
    let other = rusqlite::Connection::open(journal.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = run
        .record_durable(note("first".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    run.record(note("second".to_owned()));
    let error = run
        .record_durable(note("third".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    other.execute_batch("COMMIT").unwrap();
    run.record_durable(note("fourth".to_owned())).await.unwrap();
    assert_eq!(journal.events(run.id()).await.unwrap().len(), 5);
}

#[test]
fn somebody_who_is_opening_for_ever_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let opening = Hosts::of(&path).opening(Duration::ZERO).unwrap();
    let settings = Settings {
        patience: Duration::from_millis(20),
        ..Settings::default()
    };
    let error = Journal::open_with(&path, &settings).unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    drop(opening);
    Journal::open_with(&path, &settings).unwrap();
}

#[tokio::test]
async fn durable_events_wait_for_room() {
    let settings = Settings {
        queue_limit: 10_000,
        ..Settings::default()
    };
    let (_folder, journal, run) = run(settings).await;
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..50 {
        let run = run.clone();
        let size = if number % 10 == 0 { 30_000 } else { 3_000 };
        waiting.spawn(async move { run.record_durable(note("x".repeat(size))).await });
    }
    assert!(waiting.join_all().await.iter().all(Result::is_ok));
    assert_eq!(journal.events(run.id()).await.unwrap().len(), 51);
}

#[tokio::test]
async fn a_queue_without_room_breaks_off_the_run_at_a_gapless_beginning() {
    let settings = Settings {
        queue_limit: 10_000,
        ..Settings::default()
    };
    let (_folder, journal, run) = run(settings).await;
    let other = rusqlite::Connection::open(journal.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..20 {
        run.record(note("x".repeat(3_000)));
    }
    other.execute_batch("COMMIT").unwrap();
    let usage = crate::Tokens::default();
    let end = Event::RunEnded {
        status: RunStatus::Done,
        reason: None,
        answer: None,
        usage,
    };
    let error = run.record_durable(end).await.unwrap_err();
    assert!(matches!(error, JournalError::Overrun { .. }), "{error}");
    journal.close().await.unwrap();
    let events = journal.events(run.id()).await.unwrap();
    assert!((2..=4).contains(&events.len()), "{}", events.len());
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
}

//! Order, numbers and times; grouping of commits; observers.

use std::sync::Arc;

use outrigger_journal::{Event, Journal, JournalError, Misplaced, Run, RunOptions, RunStatus};
use tokio::task::JoinSet;

use crate::setup::{Home, Seen, ended, json, note, over_stores, reason, started};

over_stores! {
    concurrent_recorders_get_one_order_without_gaps,
    those_who_come_one_by_one_get_a_commit_each,
    a_durable_event_takes_all_before_it_to_disk,
    a_run_begins_once_and_nothing_follows_its_end,
    a_closed_journal_says_so_and_can_be_read,
    reading_while_writing_sees_a_beginning_without_gaps,
}

async fn concurrent_recorders_get_one_order_without_gaps(home: Home) {
    let seen = Arc::new(Seen::default());
    let run = home
        .journal
        .begin(started(), seen.options(&[]))
        .await
        .unwrap();
    let mut recorders = JoinSet::new();
    for recorder in 0..8 {
        let run = run.clone();
        recorders.spawn(async move {
            for number in 0..200 {
                let event = note(recorder, number);
                if number % 20 == 0 {
                    run.record_durable(event).await.unwrap();
                } else {
                    run.record(event);
                }
            }
        });
    }
    recorders.join_all().await;
    run.record(ended(RunStatus::Done));
    home.journal.close().await.unwrap();
    let events = home.journal.events(run.id()).await.unwrap();
    assert_eq!(events.len(), 8 * 200 + 2);
    assert!(
        events
            .iter()
            .zip(1..)
            .all(|(event, seq)| event.seq == seq && event.run == *run.id())
    );
    assert!(events.is_sorted_by_key(|event| event.at));
    for recorder in 0..8 {
        let own = events.iter().filter(
            |event| matches!(&event.event, Event::ServerEnded { server, .. } if *server == recorder.to_string()),
        );
        let numbers = own.map(|event| reason(event).unwrap().parse::<u32>().unwrap());
        assert!(numbers.eq(0..200));
    }
    assert_eq!(seen.as_json(), events.iter().map(json).collect::<Vec<_>>());
    assert_eq!(run.trouble(), None);
}

#[tokio::test]
async fn those_who_wait_together_share_a_commit() {
    let home = Home::new();
    let run = home.run().await;
    let before = home.journal.commits();
    let other = home.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting = JoinSet::new();
    for number in 0..64 {
        let run = run.clone();
        waiting.spawn(async move { run.record_durable(note("s", number)).await });
    }
    // One thread: when this runs again, all of them have run once, and queued their event.
    tokio::task::yield_now().await;
    other.execute_batch("COMMIT").unwrap();
    assert!(waiting.join_all().await.iter().all(Result::is_ok));
    let commits = home.journal.commits() - before;
    assert!(
        (1..=2).contains(&commits),
        "{commits} commits: what came first, and the rest"
    );
}

async fn those_who_come_one_by_one_get_a_commit_each(home: Home) {
    let run = home.run().await;
    let before = home.journal.commits();
    for number in 0..5 {
        run.record_durable(note("s", number)).await.unwrap();
    }
    assert_eq!(home.journal.commits() - before, 5);
}

async fn a_durable_event_takes_all_before_it_to_disk(home: Home) {
    let run = home.run().await;
    for number in 0..100 {
        run.record(note("s", number));
    }
    run.record_durable(note("s", "last")).await.unwrap();
    assert_eq!(home.journal.events(run.id()).await.unwrap().len(), 102);
}

#[tokio::test]
async fn secrets_reach_neither_observers_nor_the_file() {
    let home = Home::new();
    let seen = Arc::new(Seen::default());
    let run = home
        .journal
        .begin(started(), seen.options(&["s3cr3t-value"]))
        .await
        .unwrap();
    run.record(note("s", "Bearer s3cr3t-value"));
    run.record_durable(note("s", "czNjcjN0LXZhbHVl"))
        .await
        .unwrap();
    home.journal.close().await.unwrap();
    let events = home.journal.events(run.id()).await.unwrap();
    assert_eq!(reason(&events[1]), Some("Bearer [redacted]"));
    assert_eq!(reason(&events[2]), Some("[redacted]"));
    assert_eq!(seen.as_json(), events.iter().map(json).collect::<Vec<_>>());
    let file = std::fs::read(home.path()).unwrap();
    assert!(!file.windows(12).any(|window| window == b"s3cr3t-value"));
}

#[tokio::test]
async fn a_run_that_is_only_watched_is_redacted_and_never_durable() {
    let seen = Arc::new(Seen::default());
    let run = Run::unrecorded(seen.options(&["s3cr3t-value"]));
    run.record(note("s", "Bearer s3cr3t-value"));
    let error = run.record_durable(note("s", "no")).await.unwrap_err();
    assert!(matches!(error, JournalError::NotRecorded), "{error}");
    let seen = seen.as_json();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].contains(r#""seq":1"#) && seen[0].contains("Bearer [redacted]"),
        "{}",
        seen[0]
    );
    assert_eq!(run.trouble(), None);
}

async fn a_run_begins_once_and_nothing_follows_its_end(home: Home) {
    let error = home
        .journal
        .begin(note("s", "no"), RunOptions::default())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            JournalError::Refused {
                reason: Misplaced::NotAStart,
                ..
            }
        ),
        "{error}"
    );
    let run = home.run().await;
    let error = run.record_durable(started()).await.unwrap_err();
    assert!(
        matches!(
            error,
            JournalError::Refused {
                reason: Misplaced::SecondStart,
                ..
            }
        ),
        "{error}"
    );
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
    let error = run.record_durable(note("s", "too late")).await.unwrap_err();
    assert!(
        matches!(
            error,
            JournalError::Refused {
                reason: Misplaced::AfterRunEnd,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(home.journal.events(run.id()).await.unwrap().len(), 2);
}

async fn a_closed_journal_says_so_and_can_be_read(home: Home) {
    let run = home.run().await;
    run.record(note("s", 1));
    let (first, second) = tokio::join!(home.journal.close(), home.journal.close());
    first.unwrap();
    second.unwrap();
    home.journal.close().await.unwrap();
    run.record(note("s", 2));
    assert!(
        run.trouble().unwrap().contains("is closed"),
        "{:?}",
        run.trouble()
    );
    let error = run.record_durable(note("s", 3)).await.unwrap_err();
    assert!(matches!(error, JournalError::Closed { .. }), "{error}");
    let error = home
        .journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, JournalError::Closed { .. }), "{error}");
    assert_eq!(home.journal.events(run.id()).await.unwrap().len(), 2);
}

async fn reading_while_writing_sees_a_beginning_without_gaps(home: Home) {
    let run = home.run().await;
    let writing = {
        let run = run.clone();
        async move {
            for number in 0..300 {
                run.record_durable(note("s", number)).await.unwrap();
            }
        }
    };
    let mut writing = JoinSet::from_iter([writing]);
    let mut longest = 0;
    while writing.try_join_next().is_none() {
        let events = home.journal.events(run.id()).await.unwrap();
        assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
        assert!(events.len() >= longest);
        longest = events.len();
    }
    assert_eq!(home.journal.events(run.id()).await.unwrap().len(), 301);
}

#[tokio::test]
async fn dropping_every_handle_still_writes_what_was_recorded() {
    let Home {
        folder, journal, ..
    } = Home::new();
    let path = folder.path().join("journal.db");
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let id = run.id().clone();
    for number in 0..50 {
        run.record(note("s", number));
    }
    drop((run, journal));
    // The writer lets go of its lock file when it has written everything.
    let hosts = folder.path().join("journal.db-hosts");
    while std::fs::read_dir(&hosts).unwrap().count() > 1 {
        std::thread::yield_now();
    }
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.events(&id).await.unwrap().len(), 51);
}

//! `kill -9` at random points.

use std::collections::BTreeMap;

use outrigger_journal::{Event, Journal, OutcomeKind, Place, RunOptions};
use tokio::task::JoinSet;

use crate::process::{self, Role, say, wait_for_parent};
use crate::setup::{
    Home, decided, end, intent, note, over_stores, prepared, proposed, reason, started,
};

over_stores! {
    every_acknowledged_event_survives_kill_9,
    a_stopped_host_leaves_unknown_ends,
    the_run_of_a_living_process_is_not_touched,
}

const ROUNDS: u64 = 20;

/// Records from eight tasks for ever and says what is durable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a role that another test plays in a process of its own"]
async fn writes_until_killed() {
    let journal = Journal::open_in(&process::place()).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    say(run.id());
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let run = run.clone();
        writers.spawn(async move {
            for number in 0_u64.. {
                run.record(note("quick", format!("{writer} {number}")));
                run.record_durable(note("durable", format!("{writer} {number}")))
                    .await
                    .unwrap();
                say(format_args!("{writer} {number}"));
            }
        });
    }
    writers.join_all().await;
}

async fn every_acknowledged_event_survives_kill_9(home: Home) {
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut role = Role::start("crash::writes_until_killed", &home.address);
        let id = role.said().unwrap().parse().unwrap();
        // Anywhere between the first event and some hundreds later, at a different phase each time.
        let patience = round * round * 2 + round % 3;
        let mut said = (0..patience)
            .map(|_| role.said().unwrap())
            .collect::<Vec<_>>();
        said.extend(role.kill());
        acknowledged += said.len();
        let journal = home.again();
        let events = journal.events(&id).await.unwrap();
        assert!(
            events.iter().zip(1..).all(|(event, seq)| event.seq == seq),
            "no gaps in round {round}"
        );
        let mut stored = BTreeMap::<&str, Vec<&str>>::new();
        for event in &events {
            if let Event::ServerEnded { server, .. } = &event.event {
                stored
                    .entry(server)
                    .or_default()
                    .push(reason(event).unwrap());
            }
        }
        for line in &said {
            for kind in ["durable", "quick"] {
                assert!(
                    stored[kind].contains(&line.as_str()),
                    "{kind} {line} of round {round} is lost"
                );
            }
        }
        journal.close().await.unwrap();
    }
    assert!(
        acknowledged > 1_000,
        "only {acknowledged} events were acknowledged"
    );
    if matches!(home.place, Place::Database(_)) {
        return;
    }
    let damage: String = home
        .connection()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(damage, "ok");
}

/// Leaves calls at every stage and waits.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn stands_in_the_middle_of_calls() {
    let journal = Journal::open_in(&process::place()).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    for event in [
        proposed(1),
        prepared(1),
        decided(1),
        intent(1),
        proposed(2),
        intent(2),
        end(2, OutcomeKind::Completed),
    ] {
        run.record(event);
    }
    run.record(proposed(3));
    run.record(prepared(3));
    run.record_durable(proposed(4)).await.unwrap();
    say(run.id());
    wait_for_parent();
    run.record_durable(end(1, OutcomeKind::Completed))
        .await
        .unwrap();
    journal.close().await.unwrap();
}

async fn a_stopped_host_leaves_unknown_ends(home: Home) {
    let mut role = Role::start("crash::stands_in_the_middle_of_calls", &home.address);
    let id = role.said().unwrap().parse().unwrap();
    role.kill();
    let journal = home.again();
    let lines = journal.calls(&id).await.unwrap();
    let ends = lines
        .iter()
        .map(|line| (line.sent, line.outcome.unwrap(), line.summary.as_str()));
    let stopped = "the host stopped before it was sent";
    assert_eq!(
        ends.collect::<Vec<_>>(),
        [
            (
                true,
                OutcomeKind::Unknown,
                "the host stopped before the answer came"
            ),
            (true, OutcomeKind::Completed, "wrote"),
            (false, OutcomeKind::NotSent, stopped),
            (false, OutcomeKind::NotSent, stopped),
        ]
    );
    let events = journal.events(&id).await.unwrap();
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    let ends = events
        .iter()
        .filter(|event| matches!(event.event, Event::CallEnded { .. }))
        .count();
    assert_eq!(ends, 4);
    let summary = journal.find(id.as_str()).await.unwrap().unwrap();
    assert_eq!(
        (summary.unknown, summary.stopped, summary.ended),
        (1, true, None)
    );
    // Once is enough.
    let again = home.again();
    assert_eq!(again.events(&id).await.unwrap().len(), events.len());
}

async fn the_run_of_a_living_process_is_not_touched(home: Home) {
    let mut role = Role::start("crash::stands_in_the_middle_of_calls", &home.address);
    let id = role.said().unwrap().parse().unwrap();
    // A second handle in this process, whose own run is alive too.
    let own = home.run().await;
    own.record(proposed(1));
    own.record_durable(intent(1)).await.unwrap();
    let journal = home.again();
    for run in [&id, own.id()] {
        assert_eq!(journal.calls(run).await.unwrap()[0].outcome, None);
        assert!(!journal.find(run.as_str()).await.unwrap().unwrap().stopped);
    }
    role.finish();
    assert_eq!(
        journal.calls(&id).await.unwrap()[0].outcome,
        Some(OutcomeKind::Completed)
    );
    own.record_durable(end(1, OutcomeKind::Completed))
        .await
        .unwrap();
}

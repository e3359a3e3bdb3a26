//! `kill -9` at random points of a load of calls with artifacts, some of them collected meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outrigger_journal::{
    ArtifactError, ArtifactOrigin, Artifacts, Audit, Digest, Event, GcRules, Journal, Kept,
    NewArtifact, OutcomeKind, Recorded, Run, RunId, RunOptions,
};
use tokio::task::JoinSet;

use crate::process::{self, Role, say};
use crate::setup::{decided, intent, prepared, proposed, started};

const ROUNDS: u64 = 40;
const CALLERS: u32 = 6;

fn folder(journal: &Path) -> PathBuf {
    journal.with_file_name("artifacts")
}

/// Each tells its length and content apart; every third is the same as in all other runs.
fn content(call: u32) -> Vec<u8> {
    let salt = if call.is_multiple_of(3) {
        0
    } else {
        std::process::id()
    };
    let length = 1 + (call as usize * 7_919) % 60_000;
    format!("{call} {salt} ")
        .bytes()
        .cycle()
        .take(length)
        .collect()
}

async fn one_call(run: &Run, artifacts: &Artifacts, call: u32) {
    for event in [proposed(call), prepared(call), decided(call)] {
        run.record(event);
    }
    run.record_durable(intent(call)).await.unwrap();
    say(format_args!("sent {call}"));
    let new = NewArtifact {
        bytes: content(call).into(),
        media_type: "application/json".to_owned(),
        name: None,
        origin: ArtifactOrigin {
            run: run.id().clone(),
            call,
            server: "files".to_owned(),
            tool: "write".to_owned(),
            block: None,
        },
    };
    let kept = artifacts.put(new).await.unwrap();
    let end = Event::CallEnded {
        call,
        outcome: OutcomeKind::Completed,
        is_error: false,
        summary: "wrote".to_owned(),
        result: None,
        kept: Some(Kept {
            digest: kept.digest,
            bytes: kept.bytes,
        }),
        artifacts: Vec::new(),
        tokens: 1,
        took_ms: 1,
    };
    if call.is_multiple_of(2) {
        run.record_durable(end).await.unwrap();
        say(format_args!("ended {call} {}", kept.digest));
    } else {
        run.record(end);
    }
}

/// Calls from several tasks for ever, and makes room now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a role that another test plays in a process of its own"]
async fn calls_until_killed() {
    let journal = Journal::open(&process::journal()).unwrap();
    let artifacts = Artifacts::open(&folder(&process::journal()), &journal);
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    say(run.id());
    let next = Arc::new(AtomicU32::new(1));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (run, artifacts, next) = (run.clone(), artifacts.clone(), Arc::clone(&next));
        callers.spawn(async move {
            loop {
                let call = next.fetch_add(1, Ordering::SeqCst);
                one_call(&run, &artifacts, call).await;
            }
        });
    }
    callers.spawn(async move {
        loop {
            let rules = GcRules {
                older_than: None,
                keep_bytes: Some(100_000),
            };
            artifacts.gc(rules, false).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    callers.join_all().await;
}

/// Whether a call was sent, and its ends.
type OfCall = (bool, Vec<(OutcomeKind, Option<Kept>)>);

/// What the journal says of the calls of a run.
fn of_calls(events: &[Recorded]) -> BTreeMap<u32, OfCall> {
    let mut calls = BTreeMap::<_, OfCall>::new();
    for recorded in events {
        match &recorded.event {
            Event::CallProposed { call, .. } => {
                calls.entry(*call).or_default();
            }
            Event::CallIntent { call } => calls.entry(*call).or_default().0 = true,
            Event::CallEnded {
                call,
                outcome,
                kept,
                ..
            } => {
                calls.entry(*call).or_default().1.push((*outcome, *kept));
            }
            _ => {}
        }
    }
    calls
}

async fn assert_whole(artifacts: &Artifacts, kept: &Kept) {
    let mut bytes = 0;
    let take = |some: &[u8]| {
        bytes += some.len() as u64;
        Ok(())
    };
    artifacts.export(&kept.digest, take).await.unwrap();
    assert_eq!(bytes, kept.bytes);
}

/// What one round left behind.
async fn check(journal: &Journal, artifacts: &Artifacts, id: &RunId, said: &[String]) {
    let events = journal.events(id).await.unwrap();
    assert!(
        events.iter().zip(1..).all(|(event, seq)| event.seq == seq),
        "no gaps"
    );
    let calls = of_calls(&events);
    for (call, (sent, ends)) in &calls {
        let [(outcome, kept)] = ends.as_slice() else {
            panic!("call {call} has ends {ends:?}");
        };
        let expected = match (kept, sent) {
            (Some(_), _) => OutcomeKind::Completed,
            (None, true) => OutcomeKind::Unknown,
            (None, false) => OutcomeKind::NotSent,
        };
        assert_eq!(*outcome, expected, "call {call}");
        if let Some(kept) = kept {
            assert_whole(artifacts, kept).await;
        }
    }
    for line in journal.calls(id).await.unwrap() {
        assert_eq!(
            line.outcome,
            Some(calls[&line.call].1[0].0),
            "the ledger agrees"
        );
    }
    // What was said to be on disk is.
    for line in said {
        let words: Vec<_> = line.split(' ').collect();
        let (sent, ends) = &calls[&words[1].parse().unwrap()];
        assert!(*sent, "`{line}` is lost");
        if let Some(digest) = words.get(2) {
            let digest: Digest = digest.parse().unwrap();
            assert_eq!(ends[0].1.unwrap().digest, digest, "`{line}` is lost");
        }
    }
}

/// The same numbers every time; when the process is killed within its work differs all the same.
fn scattered(round: u64) -> usize {
    let mixed = (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    usize::try_from(mixed % 120).unwrap()
}

#[tokio::test]
async fn nothing_acknowledged_and_no_artifact_is_lost_by_kill_9() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("journal.db");
    let (mut acknowledged, mut runs) = (0, Vec::new());
    for round in 0..ROUNDS {
        let mut role = Role::start("load::calls_until_killed", &path);
        let id: RunId = role.said().unwrap().parse().unwrap();
        let mut said: Vec<_> = (0..scattered(round))
            .map(|_| role.said().unwrap())
            .collect();
        said.extend(role.kill());
        acknowledged += said.len();
        let journal = Journal::open(&path).unwrap();
        let artifacts = Artifacts::open(&folder(&path), &journal);
        check(&journal, &artifacts, &id, &said).await;
        let report = Audit::open(&path).unwrap().verify(None).unwrap();
        assert_eq!(report.fault, None, "round {round}");
        journal.close().await.unwrap();
        runs.push(id);
    }
    assert!(
        acknowledged > 1_000,
        "only {acknowledged} lines were acknowledged"
    );
    // Whatever any run refers to is there, or it is told that it was removed.
    let journal = Journal::open(&path).unwrap();
    let artifacts = Artifacts::open(&folder(&path), &journal);
    let (mut there, mut removed) = (0, 0);
    for run in &runs {
        for (_, ends) in of_calls(&journal.events(run).await.unwrap()).values() {
            let Some(kept) = ends[0].1 else { continue };
            match artifacts.read(&kept.digest, 0..kept.bytes).await {
                Ok(bytes) => {
                    assert_eq!(Digest::of(&bytes), kept.digest);
                    there += 1;
                }
                Err(ArtifactError::Collected { .. }) => removed += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(
        there > 0 && removed > 0,
        "{there} are there, {removed} were removed"
    );
}

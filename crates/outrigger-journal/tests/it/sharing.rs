//! Several processes and handles with one journal.

use outrigger_journal::{Audit, Journal, OutcomeKind, RunOptions, RunStatus};
use tokio::task::JoinSet;

use crate::process::{self, Role, say, wait_for_parent};
use crate::setup::{Home, end, ended, intent, note, over_stores, place, proposed, started};

over_stores! {
    two_handles_in_one_process_are_two_hosts,
}

const RUNS: usize = 3;
const EVENTS: u64 = 100;

/// Waits for the others, then writes three runs at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a role that another test plays in a process of its own"]
async fn writes_three_runs() {
    say("ready");
    wait_for_parent();
    let journal = Journal::open_in(&process::place()).unwrap();
    let mut runs = JoinSet::new();
    for _ in 0..RUNS {
        let journal = journal.clone();
        runs.spawn(async move {
            let run = journal
                .begin(started(), RunOptions::default())
                .await
                .unwrap();
            for number in 0..EVENTS {
                run.record_durable(note("s", number)).await.unwrap();
            }
            run.record(proposed(1));
            run.record(intent(1));
            run.record(end(1, OutcomeKind::Completed));
            run.record_durable(ended(RunStatus::Done)).await.unwrap();
            assert_eq!(run.trouble(), None);
            say(run.id());
        });
    }
    runs.join_all().await;
    journal.close().await.unwrap();
}

#[tokio::test]
async fn processes_share_a_file_that_none_of_them_made_yet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("journal.db");
    processes_share(path.to_str().unwrap()).await;
    // Lock files go with their processes.
    let hosts = std::fs::read_dir(folder.path().join("new/journal.db-hosts"))
        .unwrap()
        .count();
    assert_eq!(hosts, 1, "`opening` alone");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn processes_share_a_database_that_is_empty() {
    let server = outrigger_testkit::postgres::server();
    let url = server.database();
    processes_share(&url).await;
    let hosts = server.sql(
        outrigger_testkit::postgres::name_of(&url),
        "SELECT count(*) FROM outrigger.hosts",
    );
    assert_eq!(hosts.unwrap(), "0", "hosts that are done are forgotten");
}

async fn processes_share(address: &str) {
    let mut roles = (0..3)
        .map(|_| Role::start("sharing::writes_three_runs", address))
        .collect::<Vec<_>>();
    for role in &mut roles {
        assert_eq!(role.said().unwrap(), "ready");
    }
    let finishing = roles
        .into_iter()
        .map(|role| std::thread::spawn(|| role.finish()))
        .collect::<Vec<_>>();
    let names = finishing
        .into_iter()
        .flat_map(|role| role.join().unwrap())
        .collect::<Vec<_>>();
    assert_eq!(names.len(), 3 * RUNS);
    let place = place(address);
    let journal = Journal::open_in(&place).unwrap();
    for name in names {
        let events = journal.events(&name.parse().unwrap()).await.unwrap();
        assert_eq!(events.len(), usize::try_from(EVENTS).unwrap() + 5);
        assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    }
    journal.close().await.unwrap();
    let report = Audit::open_in(&place).unwrap().verify(None).unwrap();
    assert_eq!((report.fault, report.lines), (None, 9 * (EVENTS + 5)));
}

async fn two_handles_in_one_process_are_two_hosts(home: Home) {
    let second = home.again();
    let (one, two) = tokio::join!(home.run(), second.begin(started(), RunOptions::default()));
    let two = two.unwrap();
    for number in 0..50 {
        let (one, two) = tokio::join!(
            one.record_durable(note("s", number)),
            two.record_durable(note("s", number))
        );
        one.unwrap();
        two.unwrap();
    }
    two.record(proposed(1));
    two.record_durable(intent(1)).await.unwrap();
    second.close().await.unwrap();
    // Closed without an end: the next who opens it knows that nobody will write one.
    home.again();
    assert_eq!(
        home.journal.calls(two.id()).await.unwrap()[0].outcome,
        Some(OutcomeKind::Unknown)
    );
    one.record_durable(note("s", "still alive")).await.unwrap();
}

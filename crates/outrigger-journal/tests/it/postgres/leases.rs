//! Leases, when the answer of the database is lost, and in a database of the version before.

use std::time::Duration;

use outrigger_journal::{Event, Journal, OutcomeKind, RunOptions, Taken};
use outrigger_testkit::postgres::{name_of, server};

use super::between::Between;
use super::{LONG, cut, place, sql, verified};
use crate::setup::{end, intent, proposed, started};

fn instead() -> Event {
    Event::ServerWarned {
        server: "lab".to_owned(),
        warning: "not sent".to_owned(),
    }
}

#[tokio::test]
async fn what_came_of_a_fence_is_known_when_the_answer_was_lost() {
    let url = server().database();
    let between = Between::start(&server().url(name_of(&url)));
    let place = place(&between.url(name_of(&url)), LONG);
    let journal = Journal::open_in(&place).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let leases = Journal::open_in(&super::place(&url, LONG))
        .unwrap()
        .leases();
    let Taken::Here(fence) = leases.take("lab", false).await.unwrap() else {
        panic!("nobody has it");
    };
    for call in 1..=2 {
        run.record_durable(proposed(call)).await.unwrap();
    }
    between.lose_next_commit();
    let stands = run.record_fenced(intent(1), &fence, instead()).await;
    assert!(stands.unwrap() && between.has_lost());
    // Somebody else has it by the time that this is tried again.
    between.lose_next_commit();
    leases.release(&fence, false).await.unwrap();
    let refused = run.record_fenced(intent(2), &fence, instead()).await;
    assert!(!refused.unwrap() && between.has_lost());
    run.record_durable(end(2, OutcomeKind::NotSent))
        .await
        .unwrap();
    let calls = journal.calls(run.id()).await.unwrap();
    assert_eq!((calls[0].sent, calls[1].sent), (true, false));
    assert_eq!(verified(&place).lines, 6);
}

#[tokio::test]
async fn a_lease_outlives_a_connection() {
    let url = server().database();
    let place = place(&url, LONG);
    let (one, two) = (
        Journal::open_in(&place).unwrap(),
        Journal::open_in(&place).unwrap(),
    );
    let (one, two) = (one.leases(), two.leases());
    let Taken::Here(fence) = one.take("lab", false).await.unwrap() else {
        panic!("nobody has it");
    };
    cut(&url);
    let other = two.take("lab", true).await.unwrap();
    assert!(
        matches!(&other, Taken::Elsewhere(Some(holder)) if holder.starts_with("replica a test, process ")),
        "{other:?}"
    );
    cut(&url);
    one.renew(&fence).await.unwrap();
    cut(&url);
    one.release(&fence, false).await.unwrap();
    assert!(matches!(two.take("lab", true).await.unwrap(), Taken::Here(fence) if fence.token == 2));
}

#[tokio::test]
async fn a_database_of_the_version_before_is_brought_up() {
    let url = server().database();
    let make = format!(
        "CREATE SCHEMA outrigger; CREATE TABLE outrigger.format (version INTEGER NOT NULL);
         INSERT INTO outrigger.format VALUES (2); SET search_path = outrigger; {} {}",
        include_str!("../../../src/postgres/schema/p1.sql"),
        include_str!("../../../src/postgres/schema/p2.sql"),
    );
    server().sql(name_of(&url), &make).unwrap();
    sql(
        &url,
        "INSERT INTO hosts (name, replica) VALUES ('00000000000000aa', 'old');
         INSERT INTO runs (name, host, started_at, command, workspace, version)
         VALUES ('20261130-094210-3f9a', '00000000000000aa', 1800000000000000, 'ask', '/w', '0.1.0')",
    );
    let place = place(&url, Duration::ZERO);
    let journal = Journal::open_in(&place).unwrap();
    assert_eq!(sql(&url, "SELECT version FROM format"), "3");
    assert_eq!(journal.runs(9).await.unwrap().len(), 1);
    let taken = journal.leases().take("lab", false).await.unwrap();
    assert!(matches!(taken, Taken::Here(_)), "{taken:?}");
}

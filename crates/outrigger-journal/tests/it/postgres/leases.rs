//! Leases, when the answer of the database is lost.

use outrigger_journal::{Event, Journal, OutcomeKind, RunOptions, Taken};
use outrigger_testkit::postgres::{name_of, server};

use super::between::Between;
use super::{LONG, cut, place, verified};
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

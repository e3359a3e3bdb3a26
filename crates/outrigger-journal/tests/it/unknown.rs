//! Calls whose outcome is unknown, over all runs, and what people say about them.

use outrigger_journal::{Event, JournalError, OutcomeKind, Run, RunId, RunStatus, UnknownCall};

use crate::setup::{Home, end, ended, intent, late, over_stores, prepared, proposed};

over_stores! {
    they_are_listed_over_all_runs_until_somebody_says_what_came_of_them,
    only_an_unknown_call_can_be_settled,
    a_call_is_made_again_only_after_it_was_sent,
}

/// A call that was sent and ended as unknown.
fn lose(run: &Run, call: u32) {
    run.record(proposed(call));
    run.record(prepared(call));
    run.record(Event::CallCheckable {
        call,
        tools: vec![format!("look_{call}")],
    });
    run.record(intent(call));
    run.record(end(call, OutcomeKind::Unknown));
}

async fn unknown(home: &Home) -> Vec<UnknownCall> {
    home.journal.unknown().await.unwrap()
}

fn names(calls: &[UnknownCall]) -> Vec<(&RunId, u32)> {
    calls.iter().map(|call| (&call.run, call.call)).collect()
}

async fn settle(home: &Home, of: &RunId, call: u32, happened: bool) -> Result<(), JournalError> {
    let run = home.run().await;
    let settled = run
        .record_durable(Event::CallSettled {
            of: of.clone(),
            call,
            happened,
            note: Some("looked".to_owned()),
        })
        .await;
    run.record(ended(RunStatus::Done));
    settled
}

async fn they_are_listed_over_all_runs_until_somebody_says_what_came_of_them(home: Home) {
    let (first, second) = (home.run().await, home.run().await);
    lose(&first, 1);
    lose(&second, 1);
    lose(&second, 12);
    lose(&second, 2);
    second.record(late(2, OutcomeKind::Completed));
    second.record(proposed(3));
    second.record(end(3, OutcomeKind::Rejected));
    second
        .record_durable(ended(RunStatus::Unknown))
        .await
        .unwrap();
    let listed = unknown(&home).await;
    let (a, b) = (first.id(), second.id());
    assert_eq!(names(&listed), [(a, 1), (b, 1), (b, 12)]);
    assert_eq!(listed[1].checks, ["look_1"], "not those of call 12");
    assert_eq!(listed[2].checks, ["look_12"]);
    assert_eq!(
        (listed[0].server.as_str(), listed[0].why.as_str()),
        ("files", "wrote")
    );

    settle(&home, b, 12, true).await.unwrap();
    settle(&home, b, 12, false).await.unwrap();
    assert_eq!(names(&unknown(&home).await), [(a, 1), (b, 1)]);
    let calls = home.journal.calls(b).await.unwrap();
    let line = calls.iter().find(|line| line.call == 12).unwrap();
    assert_eq!(line.outcome, Some(OutcomeKind::Unknown), "the ledger stays");
    let finding = line.settled.as_ref().unwrap();
    assert!(!finding.happened, "the last word counts");
    assert_eq!(finding.note.as_deref(), Some("looked"));
    let summary = home.journal.find(b.as_str()).await.unwrap().unwrap();
    assert_eq!((summary.calls, summary.unknown), (4, 1));
}

async fn only_an_unknown_call_can_be_settled(home: Home) {
    let run = home.run().await;
    run.record(proposed(1));
    run.record(intent(1));
    run.record_durable(end(1, OutcomeKind::Completed))
        .await
        .unwrap();
    for (of, call) in [
        (run.id().clone(), 1),
        (run.id().clone(), 2),
        ("20200101-000000-0000".parse().unwrap(), 1),
    ] {
        let refused = settle(&home, &of, call, true).await;
        assert!(
            matches!(refused, Err(JournalError::Refused { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(run.trouble(), None, "its own run is not touched by that");
}

async fn a_call_is_made_again_only_after_it_was_sent(home: Home) {
    let run = home.run().await;
    let again = |call| Event::CallRetried {
        call,
        attempt: 1,
        wait_ms: 500,
        reason: "lost".to_owned(),
    };
    run.record(proposed(1));
    let early = run.record_durable(again(1)).await.unwrap_err();
    assert!(
        early.to_string().contains("call 1 was not sent before"),
        "{early}"
    );
    run.record(intent(1));
    run.record_durable(again(1)).await.unwrap();
    run.record(end(1, OutcomeKind::Unknown));
    assert!(run.record_durable(again(1)).await.is_err(), "it has ended");
}

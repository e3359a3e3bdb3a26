//! The ledger: one line per call, one end per call.

use outrigger_journal::{Event, JournalError, Misplaced, OutcomeKind, Place, Run, RunStatus};

use crate::setup::{Home, decided, end, ended, intent, late, over_stores, prepared, proposed};

over_stores! {
    a_call_goes_through_its_stages,
    a_second_end_is_refused_and_told,
    the_database_itself_allows_one_end_and_only_more_events,
    what_the_database_refuses_breaks_off_that_run_alone,
    a_late_answer_upgrades_an_unknown_end_once,
    a_run_that_ends_gives_every_call_an_end,
    an_intent_that_led_to_nothing_was_not_sent,
}

async fn a_call_goes_through_its_stages(home: Home) {
    let run = home.run().await;
    run.record_durable(proposed(1)).await.unwrap();
    let line = home.journal.calls(run.id()).await.unwrap().remove(0);
    assert_eq!(
        (
            line.server,
            line.arguments.as_str(),
            line.sent,
            line.outcome
        ),
        (None, "{}", false, None)
    );
    for event in [prepared(1), decided(1), intent(1)] {
        run.record(event);
    }
    run.record_durable(proposed(2)).await.unwrap();
    let lines = home.journal.calls(run.id()).await.unwrap();
    assert_eq!(
        lines.iter().map(|line| line.call).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(lines[0].server.as_deref(), Some("files"));
    assert_eq!(lines[0].arguments, r#"{"n":1.50}"#);
    assert!(lines[0].sent && !lines[1].sent && lines[0].outcome.is_none());
    run.record(end(1, OutcomeKind::Completed));
    run.record_durable(end(2, OutcomeKind::Rejected))
        .await
        .unwrap();
    let lines = home.journal.calls(run.id()).await.unwrap();
    assert_eq!(lines[0].outcome, Some(OutcomeKind::Completed));
    assert_eq!((lines[0].took_ms, lines[0].summary.as_str()), (7, "wrote"));
    assert_eq!(lines[1].outcome, Some(OutcomeKind::Rejected));
    assert_eq!(run.trouble(), None);
}

/// Why this event is refused.
async fn refused(run: &Run, event: Event) -> Misplaced {
    match run.record_durable(event).await.unwrap_err() {
        JournalError::Refused { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

async fn a_second_end_is_refused_and_told(home: Home) {
    let run = home.run().await;
    for event in [proposed(1), intent(1), end(1, OutcomeKind::Completed)] {
        run.record(event);
    }
    run.record(end(1, OutcomeKind::Unknown));
    let trouble = run.trouble().unwrap();
    assert!(trouble.ends_with("refused an event: call 1 has already ended"));
    for event in [
        end(1, OutcomeKind::Violated),
        intent(1),
        decided(1),
        prepared(1),
    ] {
        assert_eq!(
            refused(&run, event).await,
            Misplaced::AlreadyEnded { call: 1 }
        );
    }
    assert_eq!(
        refused(&run, proposed(1)).await,
        Misplaced::ProposedTwice { call: 1 }
    );
    let never = refused(&run, end(2, OutcomeKind::Unknown)).await;
    assert_eq!(never, Misplaced::NotProposed { call: 2 });
    // The run goes on, and its numbers have no gap.
    run.record_durable(proposed(2)).await.unwrap();
    let events = home.journal.events(run.id()).await.unwrap();
    assert!(events.iter().map(|event| event.seq).eq(1..=5));
    let lines = home.journal.calls(run.id()).await.unwrap();
    assert_eq!(lines[0].outcome, Some(OutcomeKind::Completed));
}

async fn the_database_itself_allows_one_end_and_only_more_events(home: Home) {
    let run = home.run().await;
    run.record(proposed(1));
    run.record_durable(end(1, OutcomeKind::Completed))
        .await
        .unwrap();
    let (no_hash, unique) = match &home.place {
        Place::File(_) => ("part of the chain", "UNIQUE"),
        Place::Database(_) => ("not-null", "unique"),
    };
    for (sql, words) in [
        (
            "UPDATE calls SET outcome = 'unknown', ended_at = 1",
            "a call ends once",
        ),
        (
            "UPDATE calls SET outcome = 'unknown', ended_at = 1, late_at = 1",
            "late answer",
        ),
        (
            "UPDATE calls SET outcome = NULL, ended_at = NULL",
            "a call ends once",
        ),
        ("UPDATE calls SET late_at = 1", "late answer"),
        ("UPDATE calls SET intent_at = 1", "not sent"),
        (
            "INSERT INTO calls (run, call, tool, arguments, proposed_at) VALUES (1, 1, '', '', 1)",
            unique,
        ),
        ("UPDATE events SET body = '{}'", "never changed"),
        ("DELETE FROM events", "never deleted"),
        (
            "INSERT INTO events (line, run, seq, at, v, body, hash) SELECT 9, 1, 5, 1, 1, '{}', hash FROM events WHERE line = 1",
            "no gaps",
        ),
        (
            "INSERT INTO events (line, run, seq, at, v, body) VALUES (9, 1, 4, 1, 1, '{}')",
            no_hash,
        ),
    ] {
        let error = home.execute(sql).unwrap_err();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

async fn what_the_database_refuses_breaks_off_that_run_alone(home: Home) {
    let (run, bystander) = (home.run().await, home.run().await);
    run.record_durable(proposed(1)).await.unwrap();
    // Somebody else writes into the same run.
    home.execute("UPDATE calls SET outcome = 'completed', ended_at = 1 WHERE run = 1 AND call = 1")
        .unwrap();
    let refused = run.record_durable(end(1, OutcomeKind::Completed));
    let (refused, other) = tokio::join!(refused, bystander.record_durable(proposed(1)));
    let error = refused.unwrap_err();
    assert!(
        matches!(
            error,
            JournalError::Refused {
                reason: Misplaced::Elsewhere { .. },
                ..
            }
        ),
        "{error}"
    );
    other.unwrap();
    run.record_durable(proposed(2)).await.unwrap_err();
    assert!(
        run.trouble()
            .unwrap()
            .contains("another process has written into the same run")
    );
    assert_eq!(home.journal.events(run.id()).await.unwrap().len(), 2);
    assert_eq!(bystander.trouble(), None);
}

async fn a_late_answer_upgrades_an_unknown_end_once(home: Home) {
    let run = home.run().await;
    for event in [
        proposed(1),
        intent(1),
        proposed(2),
        end(2, OutcomeKind::Completed),
    ] {
        run.record(event);
    }
    for call in 1..=2 {
        let answer = late(call, OutcomeKind::Completed);
        assert_eq!(refused(&run, answer).await, Misplaced::NotLate { call });
    }
    run.record_durable(end(1, OutcomeKind::Unknown))
        .await
        .unwrap();
    let unknown = async || {
        home.journal
            .find(run.id().as_str())
            .await
            .unwrap()
            .unwrap()
            .unknown
    };
    assert_eq!(unknown().await, 1);
    let says_nothing = late(1, OutcomeKind::Unknown);
    assert_eq!(
        refused(&run, says_nothing).await,
        Misplaced::NotLate { call: 1 }
    );
    run.record_durable(late(1, OutcomeKind::Violated))
        .await
        .unwrap();
    let again = late(1, OutcomeKind::Completed);
    assert_eq!(refused(&run, again).await, Misplaced::NotLate { call: 1 });
    let line = home.journal.calls(run.id()).await.unwrap().remove(0);
    assert_eq!(line.outcome, Some(OutcomeKind::Violated));
    assert_eq!(line.summary, "came late");
    assert_eq!(unknown().await, 0);
}

async fn a_run_that_ends_gives_every_call_an_end(home: Home) {
    let run = home.run().await;
    for event in [
        proposed(1),
        intent(1),
        proposed(2),
        proposed(3),
        end(3, OutcomeKind::Rejected),
    ] {
        run.record(event);
    }
    run.record_durable(ended(RunStatus::Interrupted))
        .await
        .unwrap();
    let lines = home.journal.calls(run.id()).await.unwrap();
    let ends = lines
        .iter()
        .map(|line| (line.outcome.unwrap(), line.summary.as_str()))
        .collect::<Vec<_>>();
    assert_eq!(
        ends,
        [
            (OutcomeKind::Unknown, "the run ended before the answer came"),
            (OutcomeKind::NotSent, "the run ended before it was sent"),
            (OutcomeKind::Rejected, "wrote"),
        ]
    );
    let events = home.journal.events(run.id()).await.unwrap();
    assert!(matches!(
        events.last().unwrap().event,
        Event::RunEnded { .. }
    ));
}

async fn an_intent_that_led_to_nothing_was_not_sent(home: Home) {
    let run = home.run().await;
    for event in [proposed(1), intent(1), end(1, OutcomeKind::NotSent)] {
        run.record_durable(event).await.unwrap();
    }
    assert!(!home.journal.calls(run.id()).await.unwrap()[0].sent);
}

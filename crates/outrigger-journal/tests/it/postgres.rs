//! What only a database can do: lose the connection, go on without it, and be shared by hosts of which
//! one is away.

mod approvals;
mod between;
mod leases;
mod migration;

use std::time::Duration;

use outrigger_journal::{
    Audit, AuditReport, Database, Journal, JournalError, OutcomeKind, Place, RunOptions, RunStatus,
};
use outrigger_testkit::postgres::{Server, name_of, server};

use self::between::Between;
use crate::setup::{Home, end, ended, intent, note, proposed, reason, started};

const LONG: Duration = Duration::from_hours(1);

fn place(url: &str, grace: Duration) -> Place {
    let mut database = Database::new(url, "a test").unwrap();
    database.grace = grace;
    Place::Database(database)
}

fn sql(url: &str, sql: &str) -> String {
    let sql = format!("SET search_path = outrigger; {sql}");
    server().sql(name_of(url), &sql).unwrap()
}

/// Ends all connections of hosts, as a restart or a network does.
fn cut(url: &str) {
    sql(
        url,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'outrigger'",
    );
}

fn verified(place: &Place) -> AuditReport {
    let report = Audit::open_in(place).unwrap().verify(None).unwrap();
    assert_eq!(report.fault, None);
    report
}

#[tokio::test]
async fn a_host_that_comes_back_in_time_goes_on() {
    let url = server().database();
    let place = place(&url, LONG);
    let journal = Journal::open_in(&place).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    run.record(proposed(1));
    run.record_durable(intent(1)).await.unwrap();
    cut(&url);
    // Another one comes and finds its lock free, or not any more.
    let other = Journal::open_in(&place).unwrap();
    run.record_durable(end(1, OutcomeKind::Completed))
        .await
        .unwrap();
    cut(&url);
    let more = journal.begin(started(), RunOptions::default());
    more.await.unwrap();
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
    assert_eq!(run.trouble(), None);
    assert_eq!(other.events(run.id()).await.unwrap().len(), 5);
    assert_eq!(verified(&place).lines, 6);
    assert_eq!(
        sql(
            &url,
            "SELECT count(*) FROM hosts WHERE missed_at IS NOT NULL"
        ),
        "0"
    );
}

#[tokio::test]
async fn a_host_that_was_given_up_cannot_contradict_what_was_said_of_it() {
    let url = server().database();
    let journal = Journal::open_in(&place(&url, LONG)).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    run.record(proposed(1));
    run.record_durable(intent(1)).await.unwrap();
    cut(&url);
    let hasty = place(&url, Duration::ZERO);
    let other = Journal::open_in(&hasty).unwrap();
    let outcome = async || other.calls(run.id()).await.unwrap().remove(0).outcome;
    assert_eq!(outcome().await, Some(OutcomeKind::Unknown));
    let error = run
        .record_durable(end(1, OutcomeKind::Completed))
        .await
        .unwrap_err();
    assert!(matches!(error, JournalError::Refused { .. }), "{error}");
    let words = error.to_string();
    assert!(
        words.contains("another one has ended the calls of this run; start it anew"),
        "{words}"
    );
    run.broken_off().await;
    assert_eq!(outcome().await, Some(OutcomeKind::Unknown));
    assert_eq!(verified(&hasty).lines, 4);
    // What it begins from now on is its own again.
    let next = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    next.record_durable(ended(RunStatus::Done)).await.unwrap();
    assert_eq!(next.trouble(), None);
}

#[tokio::test]
async fn a_host_that_lives_sees_to_the_calls_of_one_that_is_gone() {
    let url = server().database();
    let living = Journal::open_in(&place(&url, Duration::from_millis(300))).unwrap();
    let gone = Journal::open_in(&place(&url, LONG)).unwrap();
    let run = gone.begin(started(), RunOptions::default()).await.unwrap();
    run.record(proposed(1));
    run.record_durable(intent(1)).await.unwrap();
    cut(&url);
    let mut patience = tokio::time::interval(Duration::from_millis(20));
    let ended = async {
        while living.calls(run.id()).await.unwrap()[0].outcome.is_none() {
            patience.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended)
        .await
        .expect("nobody ended the call");
    let summary = living.find(run.id().as_str()).await.unwrap().unwrap();
    assert!(summary.stopped && summary.unknown == 1);
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_is_not_written_twice() {
    let url = server().database();
    let between = Between::start(&server().url(name_of(&url)));
    let place = place(&between.url(name_of(&url)), LONG);
    let journal = Journal::open_in(&place).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    for number in 0..3 {
        between.lose_next_commit();
        run.record(note("s", number));
        run.record_durable(note("s", number)).await.unwrap();
        assert!(between.has_lost(), "the answer came all the same");
    }
    between.lose_next_commit();
    let second = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    assert!(between.has_lost());
    second.record_durable(note("s", 0)).await.unwrap();
    let events = journal.events(run.id()).await.unwrap();
    let notes: Vec<_> = events.iter().filter_map(reason).collect();
    assert_eq!(notes, ["0", "0", "1", "1", "2", "2"]);
    assert_eq!(journal.runs(9).await.unwrap().len(), 2);
    assert_eq!((run.trouble(), second.trouble()), (None, None));
    assert_eq!(verified(&place).lines, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_is_survived() {
    let server = Server::start();
    let place = place(&server.database(), LONG);
    let journal = Journal::open_in(&place).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    run.record_durable(note("s", 1)).await.unwrap();
    assert_eq!(journal.events(run.id()).await.unwrap().len(), 2);
    server.restart();
    run.record_durable(note("s", 2)).await.unwrap();
    assert_eq!(run.trouble(), None);
    assert_eq!(journal.events(run.id()).await.unwrap().len(), 3);
    assert_eq!(verified(&place).lines, 3);
}

#[tokio::test]
async fn whatever_is_changed_in_the_tables_is_noticed() {
    for (change, found) in [
        (
            "UPDATE events SET body = replace(body, 'between', 'Between') WHERE line = 2",
            "line 2: it was changed, or put where another line was",
        ),
        (
            "DELETE FROM events WHERE line = 2",
            "line 3: lines 2 to 2 before it were removed",
        ),
        (
            "DELETE FROM events WHERE line = 4",
            "line 3: the chain ends with line 4, and this is the last: lines at the end were removed or added",
        ),
        (
            "UPDATE calls SET outcome = 'completed'",
            "line 4: the ledger was changed: call 1 is `completed` there, and `rejected` by this line",
        ),
    ] {
        let home = Home::in_database();
        let run = home.run().await;
        for event in [
            note("s", "between"),
            proposed(1),
            end(1, OutcomeKind::Rejected),
        ] {
            run.record_durable(event).await.unwrap();
        }
        assert_eq!(verified(&home.place).lines, 4);
        let without =
            "ALTER TABLE events DISABLE TRIGGER USER; ALTER TABLE calls DISABLE TRIGGER USER";
        home.execute(&format!("{without}; {change}")).unwrap();
        let report = Audit::open_in(&home.place).unwrap().verify(None).unwrap();
        let fault = report.fault.unwrap();
        assert_eq!(
            format!("line {}: {}", fault.line.unwrap_or(0), fault.what),
            found
        );
    }
}

#[tokio::test]
async fn the_lines_can_be_checked_elsewhere() {
    let home = Home::in_database();
    let (one, two) = (home.run().await, home.run().await);
    for run in [&one, &two, &one] {
        run.record_durable(note("s", "x")).await.unwrap();
    }
    let audit = Audit::open_in(&home.place).unwrap();
    let lines = |run: Option<&str>| {
        let mut lines = Vec::new();
        audit
            .lines(run, |line| {
                lines.push(line);
                true
            })
            .unwrap();
        lines
    };
    let all = lines(None);
    assert_eq!(all.len(), 5);
    assert!(all.windows(2).all(|pair| pair[1].previous == pair[0].hash));
    let own: Vec<_> = all
        .into_iter()
        .filter(|line| line.run == one.id().as_str())
        .collect();
    assert_eq!(lines(Some(one.id().as_str())), own);
}

#[tokio::test]
async fn secrets_and_characters_that_a_database_does_not_take() {
    let home = Home::in_database();
    let options = RunOptions {
        secrets: vec!["s3cr3t-value".to_owned()],
        ..RunOptions::default()
    };
    let run = home.journal.begin(started(), options).await.unwrap();
    let mut strange = proposed(1);
    if let outrigger_journal::Event::CallProposed {
        tool, arguments, ..
    } = &mut strange
    {
        "a\0b \u{10FFFF}".clone_into(tool);
        "\0 s3cr3t-value".clone_into(arguments);
    }
    run.record_durable(strange).await.unwrap();
    let lines = home.journal.calls(run.id()).await.unwrap();
    assert_eq!(lines[0].tool, "a\u{FFFD}b \u{10FFFF}");
    let event = home.journal.events(run.id()).await.unwrap().remove(1);
    assert!(
        matches!(event.event, outrigger_journal::Event::CallProposed { tool, .. } if tool == "a\0b \u{10FFFF}")
    );
    let found = "SELECT (SELECT count(*) FROM events WHERE body LIKE '%s3cr3t%')
        + (SELECT count(*) FROM calls WHERE arguments LIKE '%s3cr3t%')";
    assert_eq!(sql(&home.address, found), "0");
    assert_eq!(run.trouble(), None);
}

#[tokio::test]
async fn what_cannot_be_reached_or_used_is_told_without_the_password() {
    let said = |place: &Place| Journal::open_in(place).unwrap_err().to_string();
    let nobody = said(&place(
        "postgres://out:s3cret@127.0.0.1:1/x?sslmode=disable",
        LONG,
    ));
    assert!(
        nobody.starts_with("the journal `postgres://127.0.0.1:1/x` cannot be used: ")
            && nobody.contains("refused")
            && !nobody.contains("s3cret"),
        "{nobody}"
    );
    let missing = said(&place(&server().url("nothing"), LONG));
    assert_eq!(
        missing,
        "the journal `postgres://localhost/nothing` cannot be used: database \"nothing\" does not exist"
    );
    let url = server().database();
    let empty = Audit::open_in(&place(&url, LONG))
        .err()
        .unwrap()
        .to_string();
    assert!(empty.contains("has no journal yet"), "{empty}");
    drop(Journal::open_in(&place(&url, LONG)).unwrap());
    sql(&url, "UPDATE format SET version = 99");
    let newer = said(&place(&url, LONG));
    assert!(newer.contains("has format 99"), "{newer}");
}

//! Lists of runs, and finding one by a part of its name.

use std::collections::HashSet;

use outrigger_journal::{Event, JournalError, RunOptions, RunStatus, Tokens};
use tokio::task::JoinSet;

use crate::setup::{Home, ended, over_stores, started};

over_stores! {
    summaries_say_how_runs_went,
    names_are_unique_within_a_second,
    a_run_is_found_by_a_beginning_or_by_its_last_part,
}

async fn summaries_say_how_runs_went(home: Home) {
    let first = home.run().await;
    let usage = Tokens {
        input: 5,
        cached: 1,
        output: 1,
    };
    for turn in 1..=2 {
        let answered = Event::ModelAnswered {
            turn,
            text: String::new(),
            calls: 0,
            usage,
            took_ms: 1,
            counted: None,
            found: Vec::new(),
        };
        first.record_durable(answered).await.unwrap();
    }
    let summary = home
        .journal
        .find(first.id().as_str())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        summary.usage,
        Tokens {
            input: 10,
            cached: 2,
            output: 2
        }
    );
    assert_eq!(
        (summary.ended, summary.status, summary.stopped),
        (None, None, false)
    );
    first
        .record_durable(ended(RunStatus::Limited))
        .await
        .unwrap();
    let second = home.run().await;
    let runs = home.journal.runs(10).await.unwrap();
    assert_eq!(
        runs.iter().map(|run| &run.id).collect::<Vec<_>>(),
        [second.id(), first.id()]
    );
    assert_eq!(runs[1].status, Some(RunStatus::Limited));
    assert_eq!(
        runs[1].usage,
        Tokens {
            input: 10,
            cached: 4,
            output: 2
        }
    );
    assert!(runs[1].ended.unwrap() >= runs[1].started);
    assert_eq!(runs[1].question.as_deref(), Some("when?"));
    assert_eq!(home.journal.runs(1).await.unwrap().len(), 1);
}

async fn names_are_unique_within_a_second(home: Home) {
    let mut beginning = JoinSet::new();
    // With 1,500 names of 65,536 in a second or two, some digits come up twice.
    for _ in 0..1_500 {
        let journal = home.journal.clone();
        beginning.spawn(async move {
            journal
                .begin(started(), RunOptions::default())
                .await
                .unwrap()
        });
    }
    let runs = beginning.join_all().await;
    assert_eq!(
        runs.iter()
            .map(|run| run.id().clone())
            .collect::<HashSet<_>>()
            .len(),
        1_500
    );
    assert_eq!(home.journal.runs(2_000).await.unwrap().len(), 1_500);
}

async fn a_run_is_found_by_a_beginning_or_by_its_last_part(home: Home) {
    home.run().await;
    for name in [
        "20200101-000000-00aa",
        "20200101-000000-00bb",
        "20200102-000000-2020",
    ] {
        let sql = "INSERT INTO runs (name, host, started_at, command, workspace, version) VALUES";
        home.execute(&format!("{sql} ('{name}', '', 0, '', '', '')"))
            .unwrap();
    }
    for (asked, found) in [
        ("20200101-000000-00aa", Some("20200101-000000-00aa")),
        ("20200102", Some("20200102-000000-2020")),
        (" 00BB ", Some("20200101-000000-00bb")),
        ("0bb", None),
        ("2019", None),
        ("", None),
    ] {
        let run = home.journal.find(asked).await.unwrap();
        assert_eq!(run.as_ref().map(|run| run.id.as_str()), found, "{asked}");
    }
    let error = home.journal.find("20200101").await.unwrap_err();
    assert!(matches!(error, JournalError::Ambiguous { .. }));
    let words = error.to_string();
    assert!(
        words.starts_with("`20200101` fits several runs in the journal"),
        "{words}"
    );
    assert!(
        words.ends_with(": 20200101-000000-00bb, 20200101-000000-00aa; write more of the name"),
        "{words}"
    );
    // Also where one fits by its beginning and another by its last part.
    assert!(matches!(
        home.journal.find("2020").await,
        Err(JournalError::Ambiguous { .. })
    ));
}

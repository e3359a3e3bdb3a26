//! The chain: whatever is changed in a file is noticed, and the lines can be checked elsewhere.

use outrigger_journal::{
    Audit, AuditLine, AuditReport, Digest, JournalError, OutcomeKind, RunStatus,
};
use rusqlite::Connection;

use crate::setup::{Home, decided, end, ended, intent, late, note, prepared, proposed};

/// Two runs, one after the other in part, and closed.
async fn recorded() -> Home {
    let home = Home::new();
    let (one, two) = (home.run().await, home.run().await);
    for event in [
        proposed(1),
        prepared(1),
        decided(1),
        intent(1),
        end(1, OutcomeKind::Unknown),
        proposed(2),
        end(2, OutcomeKind::Rejected),
    ] {
        one.record_durable(event).await.unwrap();
    }
    two.record_durable(note("s", "between\nlines"))
        .await
        .unwrap();
    one.record_durable(late(1, OutcomeKind::Completed))
        .await
        .unwrap();
    one.record_durable(ended(RunStatus::Done)).await.unwrap();
    two.record_durable(ended(RunStatus::Done)).await.unwrap();
    home.journal.close().await.unwrap();
    home
}

fn verified(home: &Home) -> AuditReport {
    Audit::open(&home.path()).unwrap().verify(None).unwrap()
}

fn lines(home: &Home, run: Option<&str>) -> Vec<AuditLine> {
    let mut lines = Vec::new();
    let audit = Audit::open(&home.path()).unwrap();
    audit
        .lines(run, |line| {
            lines.push(line);
            true
        })
        .unwrap();
    lines
}

/// As somebody who knows the file and can do as they like.
fn tampered(home: &Home, sql: &str) -> String {
    let connection = home.connection();
    connection
        .execute_batch("PRAGMA foreign_keys = OFF")
        .unwrap();
    let triggers: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for trigger in triggers {
        connection
            .execute_batch(&format!("DROP TRIGGER {trigger}"))
            .unwrap();
    }
    connection.execute_batch(sql).unwrap();
    drop(connection);
    match verified(home).fault {
        Some(fault) => {
            let line = fault
                .line
                .map(|line| format!("line {line}: "))
                .unwrap_or_default();
            format!("{line}{}", fault.what)
        }
        None => "nothing".to_owned(),
    }
}

#[tokio::test]
async fn an_untouched_file_is_right_and_says_where_it_ends() {
    let home = recorded().await;
    let report = verified(&home);
    assert_eq!(report.fault, None);
    assert_eq!((report.lines, report.last), (13, 13));
    assert_eq!(lines(&home, None).last().unwrap().hash, report.head);
}

/// What somebody does, and what is then found.
const LINES_CHANGED: &[(&str, &str)] = &[
    (
        "UPDATE events SET body = replace(body, 'wrote', 'Wrote') WHERE line = 7",
        "line 7: it was changed, or put where another line was",
    ),
    (
        "UPDATE events SET at = at + 1 WHERE line = 3",
        "line 3: it was changed, or put where another line was",
    ),
    (
        "UPDATE events SET v = 2 WHERE line = 1",
        "line 1: it was changed, or put where another line was",
    ),
    (
        "UPDATE events SET run = 2, seq = 9 WHERE line = 4",
        "line 4: it was changed, or put where another line was",
    ),
    (
        "UPDATE runs SET name = '20261130-094210-3f9a' WHERE key = 1",
        "line 1: it was changed, or put where another line was",
    ),
    (
        "UPDATE events SET hash = randomblob(32) WHERE line = 5",
        "line 5: it was changed, or put where another line was",
    ),
    (
        "DELETE FROM events WHERE line BETWEEN 4 AND 6",
        "line 7: lines 4 to 6 before it were removed",
    ),
    (
        "DELETE FROM events WHERE line = 1",
        "line 2: lines 1 to 1 before it were removed",
    ),
    (
        "DELETE FROM events WHERE line > 11",
        "line 11: the chain ends with line 13, and this is the last: lines at the end were removed or added",
    ),
    (
        "DELETE FROM events",
        "line 0: the chain ends with line 13, and this is the last: lines at the end were removed or added",
    ),
    (
        "UPDATE events SET line = -1 WHERE line = 8; UPDATE events SET line = 8 WHERE line = 9; UPDATE events SET line = 9 WHERE line = -1",
        "line 8: it was changed, or put where another line was",
    ),
    (
        "DELETE FROM runs WHERE key = 2",
        "line 2: the run that it belongs to was removed",
    ),
];

const TABLES_CHANGED: &[(&str, &str)] = &[
    (
        "UPDATE chain SET head = randomblob(32)",
        "line 13: the chain ends with line 13, and this is the last: lines at the end were removed or added",
    ),
    (
        "UPDATE calls SET outcome = 'rejected' WHERE call = 1",
        "line 11: the ledger was changed: call 1 is `rejected` there, and `completed` by this line",
    ),
    (
        "UPDATE calls SET outcome = NULL, ended_at = NULL WHERE call = 2",
        "line 9: the ledger was changed: call 2 is `open` there, and `rejected` by this line",
    ),
    (
        "DELETE FROM calls WHERE call = 2",
        "the ledger was changed: calls that ended are not in it",
    ),
    // What a chain in the same file cannot show: words that it does not cover.
    ("UPDATE calls SET summary = 'nothing happened'", "nothing"),
];

#[tokio::test]
async fn whatever_is_changed_is_noticed() {
    for (sql, expected) in LINES_CHANGED.iter().chain(TABLES_CHANGED) {
        assert_eq!(tampered(&recorded().await, sql), *expected, "{sql}");
    }
}

#[tokio::test]
async fn a_hash_kept_elsewhere_shows_a_file_that_was_written_anew() {
    let home = recorded().await;
    let audit = Audit::open(&home.path()).unwrap();
    let head = verified(&home).head;
    let fault = |expected| audit.verify(Some(expected)).unwrap().fault;
    assert_eq!(fault((13, head)), None);
    let other = fault((13, Digest::of(b"another"))).unwrap();
    assert_eq!(
        (other.line, other.what.as_str()),
        (
            Some(13),
            "it is another line than expected: the journal was written anew up to it"
        )
    );
    let later = fault((14, head)).unwrap();
    assert_eq!(
        (later.line, later.what.as_str()),
        (
            Some(13),
            "it is the last line, and a later one was expected"
        )
    );
}

/// Everything that whoever checks the lines elsewhere has to know.
fn hash_of(line: &AuditLine) -> Digest {
    let AuditLine {
        line,
        run,
        seq,
        at,
        v,
        body,
        previous,
        ..
    } = line;
    let content = format!("{line}\n{run}\n{seq}\n{at}\n{v}\n{body}");
    Digest::of(&[previous.as_bytes(), content.as_bytes()].concat())
}

#[tokio::test]
async fn exported_lines_can_be_checked_without_the_file() {
    let home = recorded().await;
    let all = lines(&home, None);
    assert_eq!(all.len(), 13);
    let mut previous = Digest::from([0; 32]);
    for line in &all {
        assert_eq!((line.previous, hash_of(line)), (previous, line.hash));
        previous = line.hash;
    }
    // Of one run: each line still proves itself.
    let run = &all[0].run;
    let own = lines(&home, Some(run));
    assert_eq!(
        own,
        all.iter()
            .filter(|line| line.run == *run)
            .cloned()
            .collect::<Vec<_>>()
    );
    assert!(own.len() < all.len() && own.iter().all(|line| hash_of(line) == line.hash));
}

#[tokio::test]
async fn nothing_is_written_after_lines_were_removed_from_the_end() {
    let home = recorded().await;
    assert_ne!(
        tampered(&home, "DELETE FROM events WHERE line = 13"),
        "nothing"
    );
    let journal = outrigger_journal::Journal::open(&home.path()).unwrap();
    let error = journal
        .begin(
            crate::setup::started(),
            outrigger_journal::RunOptions::default(),
        )
        .await
        .unwrap_err();
    let JournalError::Corrupt { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(
        reason,
        "another program has removed or added lines at its end: the chain ends at line 13, the file at line 12, and `outrigger audit verify` says more"
    );
}

#[tokio::test]
async fn looking_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    Audit::open(&path).err().unwrap();
    assert!(!path.exists());
    Connection::open(&path)
        .unwrap()
        .execute_batch(crate::migration::V1)
        .unwrap();
    let error = Audit::open(&path).err().unwrap();
    assert!(
        error
            .to_string()
            .ends_with("it has format 1, which the next run brings up"),
        "{error}"
    );
}

//! Files of earlier versions, brought up with everything in them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outrigger_journal::{
    ApprovalState, ApprovalSubject, Audit, Event, Journal, JournalError, OutcomeKind, RunId,
};
use rusqlite::{Connection, params};

use crate::process::{self, Role, say};

/// As version 1 made its files.
pub(crate) const V1: &str = concat!(
    "PRAGMA journal_mode = wal;\n",
    include_str!("../../src/schema/v1.sql"),
    "PRAGMA application_id = 0x4F757472;\nPRAGMA user_version = 1;\n"
);

const RUN: &str = "20261130-094210-3f9a";

fn event(connection: &Connection, run: i64, seq: i64, body: &str) {
    let sql = "INSERT INTO events (run, seq, at, v, body) VALUES (?1, ?2, ?3, 1, ?4)";
    connection
        .execute(
            sql,
            params![run, seq, 1_800_000_000_000_000_i64 + seq, body],
        )
        .unwrap();
}

/// A file that version 1 has written, with a run whose host was stopped in the middle of a call,
/// after so many other events.
fn old_file(path: &Path, events: i64) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(V1).unwrap();
    connection
        .execute(
            "INSERT INTO runs (name, host, started_at, command, workspace, version)
             VALUES (?1, '00000000000000aa', 1800000000000000, 'ask', '/w', '0.1.0')",
            [RUN],
        )
        .unwrap();
    connection.execute_batch("BEGIN").unwrap();
    event(
        &connection,
        1,
        1,
        r#"{"type":"run_started","command":"ask","workspace":"/w","version":"0.1.0"}"#,
    );
    for number in 0..events {
        let body = format!(
            r#"{{"type":"server_ended","server":"s","reason":"{number} {}"}}"#,
            "x".repeat(200)
        );
        event(&connection, 1, number + 2, &body);
    }
    event(
        &connection,
        1,
        events + 2,
        r#"{"type":"call_proposed","call":1,"tool":"t","arguments":"{\"n\": 1.50}"}"#,
    );
    event(
        &connection,
        1,
        events + 3,
        r#"{"type":"call_intent","call":1}"#,
    );
    connection
        .execute_batch(
            r#"INSERT INTO calls (run, call, tool, arguments, proposed_at, intent_at) VALUES (1, 1, 't', '{"n": 1.50}', 1, 2);
            COMMIT"#,
        )
        .unwrap();
}

fn backup(path: &Path) -> PathBuf {
    path.with_file_name("journal.db.v1-backup")
}

/// Of a file, without opening it as a journal.
fn bodies(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut bodies = connection
        .prepare("SELECT body FROM events ORDER BY line")
        .unwrap();
    let bodies = bodies.query_map([], |row| row.get(0)).unwrap();
    bodies.collect::<Result<_, _>>().unwrap()
}

fn version(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

async fn is_brought_up(path: &Path, journal: &Journal, events: usize) {
    let run: RunId = RUN.parse().unwrap();
    let found = journal.events(&run).await.unwrap();
    assert_eq!(
        found.len(),
        events + 4,
        "and the end of the call that was open"
    );
    assert!(matches!(
        found.last().unwrap().event,
        Event::CallEnded {
            call: 1,
            outcome: OutcomeKind::Unknown,
            ..
        }
    ));
    let report = Audit::open(path).unwrap().verify(None).unwrap();
    assert_eq!((report.fault, report.lines), (None, events as u64 + 4));
}

#[tokio::test]
async fn an_old_file_keeps_everything_and_gets_its_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    old_file(&path, 2_500);
    let before = bodies(&path);
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.backup(), Some(backup(&path).as_path()));
    is_brought_up(&path, &journal, 2_500).await;
    assert_eq!(bodies(&path)[..before.len()], before);
    // The copy is the old file, whole, for this user alone.
    assert_eq!(
        (version(&backup(&path)), bodies(&backup(&path))),
        (1, before)
    );
    assert_eq!(
        fs::metadata(backup(&path)).unwrap().permissions().mode() & 0o777,
        0o600
    );
    journal.close().await.unwrap();
    assert_eq!(Journal::open(&path).unwrap().backup(), None, "once");
}

#[tokio::test]
async fn a_file_in_use_by_the_older_version_is_not_brought_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    old_file(&path, 10);
    let hosts = folder.path().join("journal.db-hosts");
    fs::create_dir_all(&hosts).unwrap();
    let lock = fs::File::create(hosts.join("00000000000000aa")).unwrap();
    lock.lock().unwrap();
    let error = Journal::open(&path).unwrap_err();
    assert!(
        matches!(error, JournalError::OlderInUse { found: 1, .. }),
        "{error}"
    );
    assert_eq!((version(&path), backup(&path).exists()), (1, false));
    drop(lock);
    is_brought_up(&path, &Journal::open(&path).unwrap(), 10).await;
}

#[tokio::test]
async fn without_a_copy_nothing_is_brought_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    old_file(&path, 10);
    fs::create_dir(backup(&path)).unwrap();
    fs::write(backup(&path).join("in the way"), "").unwrap();
    let error = Journal::open(&path).unwrap_err().to_string();
    assert!(error.contains("journal.db.v1-backup"), "{error}");
    assert_eq!(version(&path), 1);
    assert!(!folder.path().join("journal.db.v1-backup.part").exists());
    fs::remove_dir_all(backup(&path)).unwrap();
    is_brought_up(&path, &Journal::open(&path).unwrap(), 10).await;
}

/// As each version before this one made its files, but for its modes.
const VERSIONS: [&str; 5] = [
    include_str!("../../src/schema/v1.sql"),
    include_str!("../../src/schema/v2.sql"),
    include_str!("../../src/schema/v3.sql"),
    include_str!("../../src/schema/v4.sql"),
    include_str!("../../src/schema/v5.sql"),
];

/// A run that has ended, with two calls, in either store.
pub(crate) fn begin_run() -> String {
    format!(
        "INSERT INTO runs (name, host, started_at, ended_at, command, workspace, version)
         VALUES ('{RUN}', '00000000000000aa', 1800000000000000, 1800000000000009, 'serve', '/w', '0.1.0');
         INSERT INTO calls (run, call, tool, arguments, proposed_at)
         VALUES (1, 1, 'mcp__s__t', '{{}}', 1), (1, 2, 'mcp__s__t', '{{}}', 2)"
    )
}

/// Changes of what was asked about a call, of each of its columns. None is to be had.
pub(crate) fn changes_of_what_was_asked() -> impl Iterator<Item = String> {
    let columns = "id run kind call asked_at until server identity tool raw_tool definition arguments rule principal remarks";
    columns
        .split(' ')
        .map(|column| format!("UPDATE approvals SET {column} = {column} WHERE call = 1"))
}

/// Two that were asked about before anything but calls was: one used and remembered, one declined.
pub(crate) fn approvals_before() -> String {
    "INSERT INTO approvals (id, run, call, asked_at, until, server, identity, tool, raw_tool, definition, arguments,
         rule, principal, remarks, state, decided_at, decided_by, reason, remember, lasts, closed_at, granted)
     VALUES
         ('0a1b2c3d', 1, 1, 11, 1000, 's', 's@1234', 'mcp__s__t', 't', 'ab', '{\"n\":1.50}', 'outrigger.toml:3',
          'alice', 'made before', 'used', 12, 'page', NULL, 'n=*', 3600, 13, 'a1b2c3'),
         ('1a1b2c3d', 1, 2, 21, 1000, 's', 's@1234', 'mcp__s__t', 't', 'ab', '{}', 'outrigger.toml:3',
          'alice', '', 'declined', 22, 'command', 'no', NULL, NULL, 23, NULL)"
        .to_owned()
}

/// What was asked about, the latest first, and that what [`approvals_before`] says of one is all there.
pub(crate) async fn asked_of(journal: &Journal) -> Vec<(ApprovalSubject, ApprovalState)> {
    let all = journal.approvals().list(9).await.unwrap();
    if let Some(used) = all.last() {
        let kept = format!(
            "{} {} {} {} {} {:?} {:?} {:?} {:?}",
            used.asked.identity,
            used.asked.tool,
            used.asked.definition,
            used.asked.arguments,
            used.asked.principal,
            used.asked.remarks,
            used.decision
                .as_ref()
                .map(|decision| (decision.by.as_str(), decision.remember.clone())),
            used.granted,
            used.closed.map(Timestamp::as_microsecond),
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(kept, @r#"s@1234 mcp__s__t ab {"n":1.50} alice ["made before"] Some(("page", Some(("n=*", 3600)))) Some("a1b2c3") Some(13)"#);
        }
    }
    let each = all.iter();
    each.map(|it| (it.asked.subject, it.state)).collect()
}

#[tokio::test]
async fn a_file_of_any_earlier_version_is_brought_up() {
    for found in 1..=VERSIONS.len() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let connection = Connection::open(&path).unwrap();
        let make = format!(
            "{} PRAGMA application_id = 0x4F757472; PRAGMA user_version = {found}; {};",
            VERSIONS[..found].concat(),
            begin_run()
        );
        connection.execute_batch(&make).unwrap();
        let waits = found >= 4;
        if waits {
            connection.execute_batch(&approvals_before()).unwrap();
        }
        let rules = |connection: &Connection| {
            let sql = "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema
                WHERE tbl_name LIKE 'approvals%' AND name NOT LIKE 'sqlite_%' ORDER BY name)";
            let read = |row: &rusqlite::Row<'_>| row.get::<_, Option<String>>(0);
            connection.query_row(sql, [], read).unwrap()
        };
        let before = rules(&connection);
        drop(connection);

        let journal = Journal::open(&path).unwrap();
        assert_eq!(version(&path), 6);
        let copy = path.with_file_name(format!("journal.db.v{found}-backup"));
        assert_eq!(journal.backup(), Some(copy.as_path()));
        assert_eq!(version(&copy), i64::try_from(found).unwrap());
        let taken = journal.leases().take("lab", false).await.unwrap();
        assert!(
            matches!(taken, outrigger_journal::Taken::Here(_)),
            "{taken:?}"
        );
        let call = ApprovalSubject::Call;
        let expected = [
            (call(2), ApprovalState::Declined),
            (call(1), ApprovalState::Used),
        ];
        let asked = asked_of(&journal).await;
        assert_eq!(asked, &expected[..if waits { 2 } else { 0 }]);
        let connection = Connection::open(&path).unwrap();
        if waits {
            assert_eq!(
                rules(&connection),
                before,
                "its rules, and no table of before"
            );
        }
        let others = [
            "UPDATE approvals SET state = 'approved' WHERE call = 2",
            "DELETE FROM approvals",
        ];
        let others = others.map(str::to_owned);
        for sql in changes_of_what_was_asked().chain(others) {
            assert_eq!(connection.execute(&sql, []).is_err(), waits, "{sql}");
        }
    }
}

/// Says that it begins, opens the file, says that it is open.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn brings_a_file_up() {
    say("begins");
    let journal = Journal::open(&process::journal()).unwrap();
    say(if journal.backup().is_some() {
        "brought up"
    } else {
        "found it"
    });
    journal.close().await.unwrap();
}

#[tokio::test]
async fn openers_at_the_same_time_bring_it_up_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    old_file(&path, 3_000);
    let roles: Vec<_> = (0..4)
        .map(|_| Role::start("migration::brings_a_file_up", &path))
        .collect();
    let mut said: Vec<_> = roles.into_iter().flat_map(Role::finish).collect();
    said.sort();
    assert_eq!(
        said[4..],
        ["brought up", "found it", "found it", "found it"]
    );
    is_brought_up(&path, &Journal::open(&path).unwrap(), 3_000).await;
}

#[tokio::test]
async fn a_migration_that_is_killed_leaves_a_file_to_begin_again_with() {
    let mut interrupted = 0;
    for round in 0_u64..12 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        old_file(&path, 4_000);
        let before = bodies(&path);
        let mut role = Role::start("migration::brings_a_file_up", &path);
        assert_eq!(role.said().unwrap(), "begins");
        // At a different step each time: the folder of locks, the copy, the migration.
        let step = match round % 3 {
            0 => "journal.db-hosts",
            1 => "journal.db.v1-backup.part",
            _ => "journal.db.v1-backup",
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !folder.path().join(step).exists() && version(&path) == 1 {
            assert!(std::time::Instant::now() < deadline, "never came to {step}");
        }
        for _ in 0..round * 2_000 {
            std::hint::spin_loop();
        }
        let finished = role.kill().contains(&"brought up".to_owned());
        interrupted += u32::from(!finished);
        if version(&path) == 1 {
            assert_eq!(bodies(&path), before);
        }
        let journal = Journal::open(&path).unwrap();
        is_brought_up(&path, &journal, 4_000).await;
        assert_eq!(bodies(&backup(&path)), before);
        journal.close().await.unwrap();
    }
    assert!(interrupted > 3, "only {interrupted} of 12 were interrupted");
}

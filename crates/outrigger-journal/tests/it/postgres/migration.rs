//! Databases of every earlier version, brought up with everything in them.

use std::time::Duration;

use outrigger_journal::{ApprovalState, ApprovalSubject, Journal, Taken};
use outrigger_testkit::postgres::{name_of, server};

use super::{place, sql};
use crate::migration::{approvals_before, asked_of, begin_run, changes_of_what_was_asked};

/// As their programs made them.
const VERSIONS: [&str; 3] = [
    include_str!("../../../src/postgres/schema/p1.sql"),
    include_str!("../../../src/postgres/schema/p2.sql"),
    include_str!("../../../src/postgres/schema/p3.sql"),
];

#[tokio::test]
async fn a_database_of_any_earlier_version_is_brought_up() {
    for version in 1..=VERSIONS.len() {
        let url = server().database();
        let make = format!(
            "CREATE SCHEMA outrigger; CREATE TABLE outrigger.format (version INTEGER NOT NULL);
             INSERT INTO outrigger.format VALUES ({version}); SET search_path = outrigger; {}",
            VERSIONS[..version].concat(),
        );
        server().sql(name_of(&url), &make).unwrap();
        sql(
            &url,
            "INSERT INTO hosts (name, replica) VALUES ('00000000000000aa', 'old')",
        );
        sql(&url, &begin_run());
        let waits = version >= 2;
        if waits {
            sql(&url, &approvals_before());
        }
        let journal = Journal::open_in(&place(&url, Duration::ZERO)).unwrap();
        assert_eq!(sql(&url, "SELECT version FROM format"), "4");
        assert_eq!(journal.runs(9).await.unwrap().len(), 1);
        let taken = journal.leases().take("lab", false).await.unwrap();
        assert!(matches!(taken, Taken::Here(_)), "{taken:?}");
        let found = asked_of(&journal).await;
        let call = ApprovalSubject::Call;
        let expected = [
            (call(2), ApprovalState::Declined),
            (call(1), ApprovalState::Used),
        ];
        assert_eq!(found, &expected[..if waits { 2 } else { 0 }]);
        if !waits {
            // A replica of the version before goes on, and lets calls wait.
            sql(&url, &approvals_before());
        }
        for change in changes_of_what_was_asked() {
            assert!(sql_fails(&url, &change), "{change}");
        }
    }
}

/// Whether a change is refused.
fn sql_fails(url: &str, sql: &str) -> bool {
    let sql = format!("SET search_path = outrigger; {sql}");
    server().sql(name_of(url), &sql).is_err()
}

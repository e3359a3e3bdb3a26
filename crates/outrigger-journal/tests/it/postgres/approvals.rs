//! What waits for a person, when the answer of the database is lost.

use jiff::{SignedDuration, Timestamp};
use outrigger_journal::{
    ApprovalState, ApprovalSubject, AskedApproval, DecidedBy, Decision, Journal, RunOptions,
};
use outrigger_testkit::postgres::{name_of, server};

use super::between::Between;
use super::{LONG, place};
use crate::setup::{proposed, started};

#[tokio::test]
async fn a_change_whose_answer_was_lost_counts_as_made() {
    let url = server().database();
    let between = Between::start(&server().url(name_of(&url)));
    let journal = Journal::open_in(&place(&between.url(name_of(&url)), LONG)).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    run.record_durable(proposed(1)).await.unwrap();
    let approvals = journal.approvals();
    let text = |text: &str| text.to_owned();
    let asked = AskedApproval {
        subject: ApprovalSubject::Call(1),
        until: Timestamp::now() + SignedDuration::from_mins(10),
        server: text("files"),
        identity: text("files@1234"),
        tool: text("mcp__files__write"),
        raw_tool: text("write"),
        definition: text("ab"),
        arguments: text("{}"),
        rule: text("outrigger.toml:3"),
        principal: text("client"),
        remarks: Vec::new(),
    };
    between.lose_next_commit();
    let id = approvals.ask(&run, asked).await.unwrap();
    assert!(between.has_lost(), "the answer came all the same");
    let decision = |by| Decision {
        allowed: true,
        by,
        reason: None,
        remember: None,
    };
    between.lose_next_commit();
    let decided = approvals.decide(&id, decision(DecidedBy::Page)).await;
    assert!(decided.unwrap() && between.has_lost());
    between.lose_next_commit();
    let late = approvals.decide(&id, decision(DecidedBy::Command)).await;
    assert!(
        !late.unwrap() && between.has_lost(),
        "somebody else was first"
    );
    between.lose_next_commit();
    let granted = Some(text("a1b2c3"));
    assert!(approvals.take(&id, granted.clone()).await.unwrap() && between.has_lost());
    assert!(!approvals.take(&id, None).await.unwrap(), "once");
    let all = approvals.list(9).await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(
        (all[0].state, &all[0].granted),
        (ApprovalState::Used, &granted)
    );
}

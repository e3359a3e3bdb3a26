//! Calls and fetches that wait for a person: decided once, used once, and over when nobody waits any more.

use jiff::{SignedDuration, Timestamp};
use outrigger_journal::{
    Approval, ApprovalState, ApprovalSubject, AskedApproval, DecidedBy, Decision, Journal,
    JournalError, Run, RunOptions,
};
use tokio::task::JoinSet;

use crate::process::{self, Role, say, wait_for_parent};
use crate::setup::{Home, over_stores, proposed, started};

over_stores! {
    what_waits_is_decided_and_used_once,
    what_is_no_call_waits_like_one_and_is_never_remembered,
    json_tells_what_it_is_about,
    of_many_who_decide_one_wins,
    a_late_yes_approves_nothing,
    who_gives_up_while_it_is_written_waits_no_more,
    the_store_keeps_its_rules_whoever_writes,
    secrets_are_not_in_it,
    it_ends_with_a_program_that_is_killed,
}

fn asked(call: u32) -> AskedApproval {
    AskedApproval {
        subject: ApprovalSubject::Call(call),
        until: soon(),
        server: "files".to_owned(),
        identity: "files@1234".to_owned(),
        tool: "mcp__files__write".to_owned(),
        raw_tool: "write".to_owned(),
        definition: "ab".to_owned(),
        arguments: r#"{"path":"a","n":1.50}"#.to_owned(),
        rule: "outrigger.toml:3".to_owned(),
        principal: "client".to_owned(),
        remarks: vec!["made before".to_owned(), "sends a.txt".to_owned()],
    }
}

/// The same about a prompt or a resource.
fn fetch(subject: ApprovalSubject, name: &str) -> AskedApproval {
    AskedApproval {
        subject,
        tool: name.to_owned(),
        raw_tool: name.to_owned(),
        definition: String::new(),
        arguments: "{}".to_owned(),
        remarks: Vec::new(),
        ..asked(0)
    }
}

fn soon() -> Timestamp {
    let soon = Timestamp::now() + SignedDuration::from_mins(10);
    Timestamp::from_microsecond(soon.as_microsecond()).unwrap()
}

fn decision(allowed: bool, by: DecidedBy) -> Decision {
    Decision {
        allowed,
        by,
        reason: None,
        remember: None,
    }
}

fn yes() -> Decision {
    decision(true, DecidedBy::Command)
}

async fn waits(journal: &Journal, run: &Run, call: u32) -> String {
    run.record(proposed(call));
    journal.approvals().ask(run, asked(call)).await.unwrap()
}

async fn found(journal: &Journal, id: &str) -> Approval {
    journal.approvals().find(id).await.unwrap().unwrap()
}

async fn what_waits_is_decided_and_used_once(home: Home) {
    let run = home.run().await;
    let id = waits(&home.journal, &run, 1).await;
    // Another program.
    let there = home.again();
    let listed = there.approvals().list(0).await.unwrap();
    assert_eq!(listed.len(), 1);
    let mut expected = asked(1);
    expected.until = listed[0].asked.until;
    assert_eq!((&listed[0].id, &listed[0].asked), (&id, &expected));
    assert_eq!(
        (&listed[0].run, listed[0].state),
        (run.id(), ApprovalState::Waiting)
    );

    let approvals = home.journal.approvals();
    assert!(!approvals.take(&id, None).await.unwrap(), "nobody said yes");
    let decided = Decision {
        reason: Some("fine".to_owned()),
        remember: Some(("path=*".to_owned(), 3600)),
        ..yes()
    };
    assert!(
        there
            .approvals()
            .decide(&id, decided.clone())
            .await
            .unwrap()
    );
    let heard = approvals.decided(run.id()).await.unwrap();
    assert_eq!(
        (heard.len(), heard[0].decision.as_ref()),
        (1, Some(&decided))
    );
    let grant = Some("a1b2c3".to_owned());
    assert!(approvals.take(&id, grant.clone()).await.unwrap());
    assert!(!approvals.take(&id, None).await.unwrap(), "once");
    let used = found(&there, &id[..4]).await;
    assert_eq!(
        (used.state, used.granted.clone()),
        (ApprovalState::Used, grant)
    );
    assert!(
        used.closed >= used.decided && used.decided >= Some(used.at),
        "{used:?}"
    );
    assert_eq!(approvals.decided(run.id()).await.unwrap(), []);
    assert_eq!(approvals.list(0).await.unwrap(), []);
    assert_eq!(approvals.list(5).await.unwrap(), [used]);
}

async fn what_is_no_call_waits_like_one_and_is_never_remembered(home: Home) {
    let run = home.run().await;
    let approvals = home.journal.approvals();
    // As many of a run as are wanted, and the same one twice.
    let mut ids = Vec::new();
    for (subject, name) in [
        (ApprovalSubject::Prompt, "greet"),
        (ApprovalSubject::Resource, "note:1"),
        (ApprovalSubject::Resource, "note:1"),
    ] {
        let wanted = fetch(subject, name);
        let id = approvals.ask(&run, wanted.clone()).await.unwrap();
        let kept = found(&home.again(), &id).await.asked;
        let until = kept.until;
        assert_eq!(kept, AskedApproval { until, ..wanted });
        ids.push(id);
    }
    let remembered = Decision {
        remember: Some(("*".to_owned(), 3600)),
        ..yes()
    };
    let refused = approvals.decide(&ids[0], remembered).await;
    assert!(
        matches!(refused, Err(JournalError::Refused { .. })),
        "{refused:?}"
    );
    assert!(approvals.decide(&ids[0], yes()).await.unwrap());
    let granted = approvals.take(&ids[0], Some("a1b2c3".to_owned())).await;
    assert!(
        matches!(granted, Err(JournalError::Refused { .. })),
        "{granted:?}"
    );
    assert!(approvals.take(&ids[0], None).await.unwrap());
    assert!(!approvals.take(&ids[0], None).await.unwrap(), "once");
    approvals.close(&ids[1]);
    assert!(!approvals.decide(&ids[1], yes()).await.unwrap());
    let waiting = approvals.list(0).await.unwrap();
    assert_eq!((waiting.len(), &waiting[0].id), (1, &ids[2]));
    for sql in [
        "UPDATE approvals SET kind = 'prompt'",
        "UPDATE approvals SET call = 1",
        "DELETE FROM approvals",
    ] {
        home.execute(sql).expect_err(sql);
    }
}

async fn json_tells_what_it_is_about(home: Home) {
    let run = home.run().await;
    let call = waits(&home.journal, &run, 1).await;
    let prompt = fetch(ApprovalSubject::Prompt, "greet");
    let prompt = home.journal.approvals().ask(&run, prompt).await.unwrap();
    let json = async |id: &str| {
        let approval = found(&home.journal, id).await;
        let json = serde_json::to_string(&approval).unwrap();
        let (id, run) = (&approval.id, approval.run.as_str());
        let until = approval.asked.until.to_string();
        let json = json.replace(&until, "UNTIL").replace(run, "RUN");
        json.replace(id, "ID")
            .replace(&approval.at.to_string(), "AT")
    };
    let both = format!("{}\n{}", json(&call).await, json(&prompt).await);
    // Programs read it.
    insta::allow_duplicates! {
        insta::assert_snapshot!(both, @r#"
        {"id":"ID","run":"RUN","call":1,"until":"UNTIL","server":"files","identity":"files@1234","tool":"mcp__files__write","raw_tool":"write","definition":"ab","arguments":"{\"path\":\"a\",\"n\":1.50}","rule":"outrigger.toml:3","principal":"client","remarks":["made before","sends a.txt"],"at":"AT","state":"waiting"}
        {"id":"ID","run":"RUN","kind":"prompt","until":"UNTIL","server":"files","identity":"files@1234","tool":"greet","raw_tool":"greet","definition":"","arguments":"{}","rule":"outrigger.toml:3","principal":"client","remarks":[],"at":"AT","state":"waiting"}
        "#);
    }
}

async fn of_many_who_decide_one_wins(home: Home) {
    let run = home.run().await;
    let id = waits(&home.journal, &run, 1).await;
    let mut deciders = JoinSet::new();
    for number in 0..8 {
        let journal = home.again();
        let id = id.clone();
        deciders.spawn(async move {
            let decision = decision(number % 2 == 0, DecidedBy::Page);
            journal.approvals().decide(&id, decision).await.unwrap()
        });
    }
    let won = deciders.join_all().await;
    assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
}

async fn a_late_yes_approves_nothing(home: Home) {
    let run = home.run().await;
    let approvals = home.journal.approvals();
    // Nobody waits any more.
    let gone = waits(&home.journal, &run, 1).await;
    approvals.close(&gone);
    assert!(!approvals.decide(&gone, yes()).await.unwrap());
    assert_eq!(
        found(&home.journal, &gone).await.state,
        ApprovalState::Expired
    );
    // Between the yes and its use.
    let between = waits(&home.journal, &run, 2).await;
    assert!(approvals.decide(&between, yes()).await.unwrap());
    approvals.close(&between);
    assert!(!approvals.take(&between, None).await.unwrap());
    let expired = found(&home.journal, &between).await;
    assert_eq!(expired.state, ApprovalState::Expired);
    assert!(expired.decision.unwrap().allowed, "what was said stays");
    // Its time is over.
    run.record(proposed(3));
    let mut over = asked(3);
    over.until = Timestamp::now();
    let over = approvals.ask(&run, over).await.unwrap();
    assert!(!found(&home.journal, &over).await.waits(Timestamp::now()));
    assert!(!approvals.decide(&over, yes()).await.unwrap());
    // A no stays one.
    let no = waits(&home.journal, &run, 4).await;
    let decided = decision(false, DecidedBy::Page);
    assert!(approvals.decide(&no, decided.clone()).await.unwrap());
    assert!(!approvals.take(&no, None).await.unwrap());
    approvals.close(&no);
    assert!(!approvals.decide(&no, yes()).await.unwrap());
    let no = found(&home.journal, &no).await;
    assert_eq!(
        (no.state, no.decision),
        (ApprovalState::Declined, Some(decided))
    );
    assert!(no.closed.is_some());
}

async fn who_gives_up_while_it_is_written_waits_no_more(home: Home) {
    let run = home.run().await;
    let approvals = home.journal.approvals();
    let mut asking = Box::pin(approvals.ask(&run, fetch(ApprovalSubject::Prompt, "greet")));
    // Begun, and dropped before it has been answered.
    let begun = std::future::poll_fn(|context| {
        std::task::Poll::Ready(asking.as_mut().poll(context).is_pending())
    });
    assert!(begun.await);
    drop(asking);
    // After all that was sent before.
    let later = waits(&home.journal, &run, 1).await;
    approvals.close(&later);
    assert!(!approvals.take(&later, None).await.unwrap());
    let all = approvals.list(9).await.unwrap();
    let states: Vec<_> = all.iter().map(|approval| approval.state).collect();
    assert_eq!(states, [ApprovalState::Expired; 2]);
}

async fn the_store_keeps_its_rules_whoever_writes(home: Home) {
    let run = home.run().await;
    let id = waits(&home.journal, &run, 1).await;
    let again = home.journal.approvals().ask(&run, asked(1)).await;
    assert!(
        matches!(again, Err(JournalError::Refused { .. })),
        "{again:?}"
    );
    let unknown = home.journal.approvals().ask(&run, asked(7)).await;
    assert!(
        matches!(unknown, Err(JournalError::Refused { .. })),
        "{unknown:?}"
    );
    for sql in [
        "UPDATE approvals SET arguments = '{}'",
        "UPDATE approvals SET state = 'used', closed_at = 1, decided_at = 1, decided_by = 'page'",
        "UPDATE approvals SET state = 'approved'",
        "UPDATE approvals SET state = 'expired'",
        "DELETE FROM approvals",
    ] {
        home.execute(sql).expect_err(sql);
    }
    assert!(home.journal.approvals().decide(&id, yes()).await.unwrap());
    home.execute("UPDATE approvals SET state = 'waiting'")
        .unwrap_err();
}

async fn secrets_are_not_in_it(home: Home) {
    let options = RunOptions {
        secrets: vec!["hunter2-long".to_owned()],
        ..RunOptions::default()
    };
    let run = home.journal.begin(started(), options).await.unwrap();
    run.record(proposed(1));
    let mut with = asked(1);
    r#"{"key":"hunter2-long","n":1.50}"#.clone_into(&mut with.arguments);
    with.remarks = vec!["says hunter2-long".to_owned()];
    let id = home.journal.approvals().ask(&run, with).await.unwrap();
    let kept = found(&home.journal, &id).await.asked;
    assert_eq!(kept.arguments, r#"{"key":"[redacted]","n":1.50}"#);
    assert_eq!(kept.remarks, ["says [redacted]"]);
}

/// Waits for a person until it is killed.
#[tokio::test]
#[ignore = "a role that another test plays in a process of its own"]
async fn waits_until_killed() {
    let journal = Journal::open_in(&process::place()).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let (open, approved) = (
        waits(&journal, &run, 1).await,
        waits(&journal, &run, 2).await,
    );
    assert!(journal.approvals().decide(&approved, yes()).await.unwrap());
    say(open);
    say(approved);
    wait_for_parent();
}

async fn it_ends_with_a_program_that_is_killed(home: Home) {
    let mut role = Role::start("approvals::waits_until_killed", &home.address);
    let ids = [role.said().unwrap(), role.said().unwrap()];
    assert_eq!(
        found(&home.journal, &ids[0]).await.state,
        ApprovalState::Waiting
    );
    role.kill();
    // Whoever comes next finds out.
    let next = home.again();
    for id in ids {
        let approval = found(&next, &id).await;
        assert_eq!(approval.state, ApprovalState::Expired, "{approval:?}");
        assert!(!next.approvals().decide(&id, yes()).await.unwrap());
    }
}

//! Who has what may be in one place at a time, and what is recorded under that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outrigger_journal::{Event, Fence, Leases, OutcomeKind, Renewed, RunOptions, RunStatus, Taken};

use crate::setup::{Home, Seen, end, ended, intent, json, over_stores, proposed, started};

const TERM: Duration = Duration::from_secs(1);
const HELD: Renewed = Renewed::Held { wanted: false };

over_stores! {
    one_has_it_and_the_token_grows,
    who_does_not_renew_it_loses_it,
    one_that_rests_is_there_for_whoever_wants_it,
    who_wants_it_is_next,
    many_never_have_it_at_a_time,
    what_is_recorded_under_a_lease_that_is_lost_has_not_happened,
    an_intent_that_is_refused_leaves_a_call_that_was_not_sent,
    a_token_never_shrinks,
}

fn leases(home: &Home) -> Leases {
    home.again().leases().lasting(TERM)
}

#[track_caller]
fn here(taken: &Taken) -> Fence {
    match taken {
        Taken::Here(fence) => fence.clone(),
        other @ Taken::Elsewhere(_) => panic!("{other:?}"),
    }
}

async fn take(leases: &Leases, wanted: bool) -> Taken {
    leases.take("lab", wanted).await.unwrap()
}

async fn one_has_it_and_the_token_grows(home: Home) {
    let (one, two) = (leases(&home), leases(&home));
    let first = here(&take(&one, false).await);
    assert_eq!((&*first.name, first.token, first.term), ("lab", 1, TERM));
    let Taken::Elsewhere(Some(holder)) = take(&two, false).await else {
        panic!("it is held");
    };
    let process = format!("process {}", std::process::id());
    assert!(holder.ends_with(&process), "{holder}");
    // Another name is another lease.
    let other = two.take("other", false).await.unwrap();
    assert_eq!(here(&other).token, 1);
    assert_eq!(one.renew(&first).await.unwrap(), HELD);
    one.release(&first, false).await.unwrap();
    assert_eq!(one.renew(&first).await.unwrap(), Renewed::Lost);
    let second = here(&take(&two, false).await);
    assert_eq!(second.token, 2);
    // What comes late from the one before changes nothing.
    one.release(&first, false).await.unwrap();
    assert_eq!(one.renew(&first).await.unwrap(), Renewed::Lost);
    assert_eq!(two.renew(&second).await.unwrap(), HELD);
}

async fn who_does_not_renew_it_loses_it(home: Home) {
    let (one, two) = (leases(&home), leases(&home));
    let begun = Instant::now();
    let first = here(&take(&one, false).await);
    let second = loop {
        if let Taken::Here(fence) = take(&two, false).await {
            break fence;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(begun.elapsed() >= TERM, "{:?}", begun.elapsed());
    assert_eq!(second.token, 2);
    assert_eq!(one.renew(&first).await.unwrap(), Renewed::Lost);
}

async fn one_that_rests_is_there_for_whoever_wants_it(home: Home) {
    let (one, two) = (leases(&home), leases(&home));
    let first = here(&take(&one, false).await);
    one.release(&first, true).await.unwrap();
    assert_eq!(take(&two, false).await, Taken::Elsewhere(None));
    let second = here(&take(&two, true).await);
    // Not because nobody used it: others take it at once.
    two.release(&second, false).await.unwrap();
    assert_eq!(here(&take(&one, false).await).token, 3);
}

async fn who_wants_it_is_next(home: Home) {
    let (one, two, three) = (leases(&home), leases(&home), leases(&home));
    let looking = leases(&home).without_wishes();
    let first = here(&take(&one, false).await);
    assert!(matches!(
        take(&looking, true).await,
        Taken::Elsewhere(Some(_))
    ));
    assert_eq!(one.renew(&first).await.unwrap(), HELD);
    assert!(matches!(take(&two, true).await, Taken::Elsewhere(Some(_))));
    let wanted = Renewed::Held { wanted: true };
    assert_eq!(one.renew(&first).await.unwrap(), wanted);
    one.release(&first, false).await.unwrap();
    for other in [&three, &one, &looking] {
        assert_eq!(take(other, true).await, Taken::Elsewhere(None));
    }
    let second = here(&take(&two, true).await);
    assert_eq!(second.token, 2);
    assert_eq!(
        two.renew(&second).await.unwrap(),
        HELD,
        "it has what it wanted"
    );
    // A wish that is not repeated is none.
    assert!(matches!(
        take(&three, true).await,
        Taken::Elsewhere(Some(_))
    ));
    two.release(&second, false).await.unwrap();
    let begun = Instant::now();
    while let Taken::Elsewhere(holder) = take(&one, true).await {
        assert_eq!(holder, None);
        assert!(begun.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn many_never_have_it_at_a_time(home: Home) {
    let having = Arc::new(AtomicUsize::new(0));
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (leases, having) = (home.again().leases(), Arc::clone(&having));
        all.spawn(async move {
            let mut tokens = Vec::new();
            while tokens.len() < 5 {
                let Taken::Here(fence) = take(&leases, true).await else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                assert_eq!(having.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                having.fetch_sub(1, Ordering::SeqCst);
                tokens.push(fence.token);
                leases.release(&fence, false).await.unwrap();
            }
            tokens
        });
    }
    let mut tokens: Vec<_> = all.join_all().await.into_iter().flatten().collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (1..=30).collect::<Vec<_>>());
}

fn instead(call: u32) -> Event {
    Event::ServerWarned {
        server: "lab".to_owned(),
        warning: format!("call {call} was not sent"),
    }
}

async fn what_is_recorded_under_a_lease_that_is_lost_has_not_happened(home: Home) {
    let seen = Arc::new(Seen::default());
    let run = home.journal.begin(started(), seen.options(&[])).await;
    let run = run.unwrap();
    let (one, two) = (home.journal.leases().lasting(TERM), leases(&home));
    let fence = here(&take(&one, false).await);
    let stale = Fence {
        token: fence.token,
        ..fence.clone()
    };
    for call in 1..=3 {
        run.record(proposed(call));
    }
    assert!(
        run.record_fenced(intent(1), &fence, instead(1))
            .await
            .unwrap()
    );
    run.record(end(1, OutcomeKind::Completed));
    one.release(&fence, false).await.unwrap();
    let fence = here(&take(&two, false).await);
    let refused = run.record_fenced(intent(2), &stale, instead(2)).await;
    assert!(!refused.unwrap());
    // The run goes on, without a gap, and what stands is recorded beside what does not.
    let (refused, stands) = tokio::join!(
        run.record_fenced(intent(2), &stale, instead(2)),
        run.record_fenced(intent(3), &fence, instead(3)),
    );
    assert_eq!((refused.unwrap(), stands.unwrap()), (false, true));
    run.record(end(2, OutcomeKind::NotSent));
    run.record(end(3, OutcomeKind::Completed));
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
    assert_eq!(run.trouble(), None);
    let calls = home.journal.calls(run.id()).await.unwrap();
    let sent: Vec<_> = calls.iter().map(|line| (line.call, line.sent)).collect();
    assert_eq!(sent, [(1, true), (2, false), (3, true)]);
    let events = home.journal.events(run.id()).await.unwrap();
    let of = |wanted: &Event| {
        let wanted = serde_json::to_string(wanted).unwrap();
        let is_it = |event: &&str| **event == wanted;
        let all: Vec<_> = events
            .iter()
            .map(|recorded| serde_json::to_string(&recorded.event).unwrap())
            .collect();
        all.iter().map(String::as_str).filter(is_it).count()
    };
    assert_eq!([of(&intent(1)), of(&intent(2)), of(&intent(3))], [1, 0, 1]);
    assert_eq!([of(&instead(1)), of(&instead(2))], [0, 2]);
    // What was observed is what is recorded; under a fence it is observed once that is known.
    let mut observed = seen.as_json();
    let mut recorded: Vec<_> = events.iter().map(json).collect();
    observed.sort();
    recorded.sort();
    assert_eq!(observed, recorded);
}

async fn an_intent_that_is_refused_leaves_a_call_that_was_not_sent(home: Home) {
    let run = home.journal.begin(started(), RunOptions::default()).await;
    let run = run.unwrap();
    let leases = leases(&home);
    let stale = here(&take(&leases, false).await);
    leases.release(&stale, false).await.unwrap();
    let fence = here(&take(&leases, false).await);
    for (call, under, stands) in [(1, &stale, false), (2, &fence, true)] {
        run.record(proposed(call));
        let recorded = run.record_fenced(intent(call), under, instead(call)).await;
        assert_eq!(recorded.unwrap(), stands);
    }
    // The run ends before the calls do.
    run.record_durable(ended(RunStatus::Done)).await.unwrap();
    assert_eq!(run.trouble(), None);
    let calls = home.journal.calls(run.id()).await.unwrap();
    let ends: Vec<_> = calls.iter().map(|line| (line.call, line.outcome)).collect();
    let (not_sent, unknown) = (OutcomeKind::NotSent, OutcomeKind::Unknown);
    assert_eq!(ends, [(1, Some(not_sent)), (2, Some(unknown))]);
}

async fn a_token_never_shrinks(home: Home) {
    let one = leases(&home);
    here(&take(&one, false).await);
    home.execute("UPDATE leases SET token = 7").unwrap();
    for (sql, words) in [
        ("UPDATE leases SET token = 6", "only grows"),
        ("DELETE FROM leases", "never removed"),
    ] {
        let refused = home.execute(sql).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}

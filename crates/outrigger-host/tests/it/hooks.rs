//! What hooks may do to a call, and what they may not.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use outrigger_host::CallContext;
use outrigger_host::approve::Answer;
use outrigger_host::config::HookSettings;
use outrigger_host::hooks::{Heard, HookRunner};
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_journal::{DecidedBy, Event, HookSaid, OutcomeKind};
use serde_json::Value;

use crate::lab::{Lab, Plan, words};

/// Answers by the name of the program that the hook is configured with: the name is the answer.
#[derive(Default)]
struct Echo {
    heard: Mutex<Vec<Value>>,
}

#[async_trait]
impl HookRunner for Echo {
    async fn run(&self, hook: &HookSettings, input: &str) -> Result<Heard, String> {
        self.heard
            .lock()
            .unwrap()
            .push(serde_json::from_str(input).unwrap());
        let outrigger_connect::TransportSpec::Stdio(spec) = &hook.reach else {
            panic!("{hook:?}")
        };
        match spec.command.as_str() {
            "hang" => std::future::pending().await,
            "fail" => Err("ended with exit status 1".to_owned()),
            "block" => Ok(Heard::Blocked("not on a Monday\n".to_owned())),
            "quiet" => Ok(Heard::Said(String::new())),
            answer => Ok(Heard::Said(answer.to_owned())),
        }
    }
}

/// A lab with these hooks, each `(event, answer)`.
async fn lab(hooks: &[(&str, &str)], plan: Plan) -> (Lab, Arc<Echo>) {
    let tables = hooks.iter().map(|(event, answer)| {
        format!("[[hooks.{event}]]\ncommand = ['{answer}']\ntimeout = '200ms'")
    });
    let user = std::iter::once(plan.user.clone()).chain(tables);
    let user = user.collect::<Vec<_>>().join("\n");
    let echo = Arc::new(Echo::default());
    let plan = Plan {
        user,
        runner: Some(echo.clone()),
        ..plan
    };
    (Lab::new(plan).await, echo)
}

fn open() -> Plan {
    Plan {
        allow: vec!["*".to_owned()],
        ..Plan::default()
    }
}

/// What was decided about the first call, and by whom.
async fn decided(lab: &Lab) -> Vec<(bool, DecidedBy)> {
    let events = lab.events().await;
    let decided = events.iter().filter_map(|recorded| match recorded.event {
        Event::CallDecided { allowed, by, .. } => Some((allowed, by)),
        _ => None,
    });
    decided.collect()
}

async fn said(lab: &Lab) -> Vec<(HookSaid, bool)> {
    let events = lab.events().await;
    let said = events.iter().filter_map(|recorded| match recorded.event {
        Event::HookRan { said, changed, .. } => Some((said, changed)),
        _ => None,
    });
    said.collect()
}

#[tokio::test]
async fn an_allow_answers_an_ask() {
    let (lab, echo) = lab(
        &[("before_call", r#"{"decision":"allow"}"#)],
        Plan::default(),
    )
    .await;
    let report = lab.call("keep", r#"{"n":1}"#).await;
    assert_eq!(report.outcome.kind(), OutcomeKind::Completed);
    assert_eq!(lab.person.asked.lock().unwrap().len(), 0);
    assert_eq!(decided(&lab).await, [(true, DecidedBy::Hook)]);
    let heard = echo.heard.lock().unwrap();
    assert_eq!(heard[0]["event"], "before_call");
    assert_eq!(heard[0]["tool"], "mcp__lab__keep");
    assert_eq!(heard[0]["server"], "lab");
    assert_eq!(heard[0]["arguments"]["n"], 1);
}

#[tokio::test]
async fn an_allow_never_lifts_a_deny() {
    let hooks = [("before_call", r#"{"decision":"allow"}"#)];
    let (open, _) = lab(&hooks, open()).await;
    let toolset = open.host.toolset();
    assert!(toolset.get("mcp__lab__keep").is_some());
    let denied = Plan {
        user: "[policy.tools]\n'mcp__lab__keep' = 'deny'".to_owned(),
        ..Plan::default()
    };
    let (denied, echo) = lab(&hooks, denied).await;
    // The toolset of the other lab still has the tool, as a turn has that began before.
    let report = denied
        .call_with(&toolset, "keep", "{}", CallContext::default())
        .await;
    assert!(
        matches!(
            &report.outcome,
            CallOutcome::Rejected(Rejection::Denied { .. })
        ),
        "{report:?}"
    );
    assert_eq!(echo.heard.lock().unwrap().len(), 1);
    assert_eq!(denied.server.of("tools/call").len(), 0);
}

#[tokio::test]
async fn an_ask_asks_whatever_was_allowed_before() {
    let plan = Plan {
        answers: vec![Answer::Session, Answer::No { reason: None }],
        ..open()
    };
    let (lab, _) = lab(&[("before_call", r#"{"decision":"ask"}"#)], plan).await;
    assert_eq!(
        lab.call("keep", "{}").await.outcome.kind(),
        OutcomeKind::Completed
    );
    assert_eq!(
        lab.call("keep", "{}").await.outcome.kind(),
        OutcomeKind::Rejected
    );
    assert_eq!(lab.person.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn whatever_is_no_clear_answer_denies() {
    for (answer, said_so, why) in [
        (
            r#"{"decision":"deny","reason":"too late"}"#,
            HookSaid::Deny,
            "too late",
        ),
        (
            r#"{"decision":"deny"}"#,
            HookSaid::Deny,
            "it gave no reason",
        ),
        ("block", HookSaid::Deny, "not on a Monday"),
        (
            "fail",
            HookSaid::Failed,
            "the hook ended with exit status 1",
        ),
        (
            "hang",
            HookSaid::Failed,
            "the hook gave no answer within 0.2 s",
        ),
        ("garbage", HookSaid::Failed, "no JSON object: `garbage`"),
        (
            r#"{"permissionDecision":"allow"}"#,
            HookSaid::Failed,
            "unknown field `permissionDecision`",
        ),
        (
            r#"{"arguments":{"n":"x"}}"#,
            HookSaid::Nothing,
            "it changed the arguments to what the tool does not take",
        ),
        (
            r#"{"arguments":[1]}"#,
            HookSaid::Nothing,
            "must be one JSON object",
        ),
    ] {
        let (lab, _) = lab(&[("before_call", answer), ("before_call", "quiet")], open()).await;
        let report = lab.call("keep", "{}").await;
        let CallOutcome::Rejected(rejection @ Rejection::Hook { hook, reason }) = &report.outcome
        else {
            panic!("{answer}: {report:?}")
        };
        assert!(reason.contains(why), "{answer}: {reason}");
        assert!(
            hook.contains("the before_call hook at") && rejection.is_refusal(),
            "{hook}"
        );
        assert!(words(&report).contains(why), "{}", words(&report));
        assert_eq!(lab.server.of("tools/call").len(), 0, "{answer}");
        assert_eq!(decided(&lab).await, [(false, DecidedBy::Hook)], "{answer}");
        assert_eq!(said(&lab).await[0].0, said_so, "{answer}");
    }
}

#[tokio::test]
async fn changed_arguments_are_checked_decided_about_and_sent() {
    let hooks = [
        ("before_call", r#"{"arguments":{"n":41}}"#),
        ("before_call", "quiet"),
        (
            "before_call",
            r#"{"decision":"allow","arguments":{"n":12345678901234567890123}}"#,
        ),
    ];
    let plan = Plan {
        answers: vec![Answer::Once],
        ..Plan::default()
    };
    let (lab, echo) = lab(&hooks, plan).await;
    let report = lab.call("keep", r#"{"n":1}"#).await;
    assert_eq!(report.outcome.kind(), OutcomeKind::Completed, "{report:?}");
    let heard = echo.heard.lock().unwrap().clone();
    let seen: Vec<_> = heard
        .iter()
        .map(|input| input["arguments"].to_string())
        .collect();
    assert_eq!(seen[..2], [r#"{"n":1}"#, r#"{"n":41}"#]);
    let sent = lab.server.heard.lock().unwrap().join("\n");
    assert!(
        sent.contains(r#""arguments":{"n":12345678901234567890123}"#),
        "{sent}"
    );
    let calls = lab.journal.calls(lab.run.id()).await.unwrap();
    assert_eq!(calls[0].arguments, r#"{"n":12345678901234567890123}"#);
    assert_eq!(
        said(&lab).await,
        [
            (HookSaid::Nothing, true),
            (HookSaid::Nothing, false),
            (HookSaid::Allow, true)
        ]
    );
}

#[tokio::test]
async fn what_the_model_reads_may_be_changed_and_the_journal_may_not() {
    let hooks = [
        (
            "after_call",
            r#"{"redact":["kep"],"context":"mind the gap"}"#,
        ),
        ("after_call", r#"{"context":"twice"}"#),
    ];
    let (lab, echo) = lab(&hooks, open()).await;
    let report = lab.call("keep", "{}").await;
    assert_eq!(
        words(&report),
        "mind the gap\ntwice\n[data from lab]\n[redacted]t"
    );
    {
        let heard = echo.heard.lock().unwrap();
        assert_eq!(
            (&heard[0]["text"], &heard[0]["outcome"]),
            (&"kept".into(), &"completed".into())
        );
        assert_eq!(heard[1]["text"], "[redacted]t");
    }
    let events = lab.events().await;
    let kept = events.iter().any(|recorded| matches!(&recorded.event, Event::CallEnded { result: Some(result), .. } if result.get().contains("kept")));
    assert!(kept, "{events:?}");
}

#[tokio::test]
async fn a_result_is_kept_back_by_a_hook_that_fails() {
    for answer in ["fail", "hang", "garbage", "block", r#"{"decision":"deny"}"#] {
        let (lab, _) = lab(&[("after_call", answer)], open()).await;
        let report = lab.call("keep", "{}").await;
        assert_eq!(report.outcome.kind(), OutcomeKind::Completed);
        let words = words(&report);
        assert!(
            words.starts_with("The call was made, and its result is kept back"),
            "{words}"
        );
        assert!(!words.contains("kept\n"), "{words}");
        assert_eq!(lab.ends(1).await, [OutcomeKind::Completed]);
    }
}

#[tokio::test]
async fn hooks_hear_of_what_they_ask_for_only() {
    let user = r#"
[[hooks.before_call]]
command = ["fail"]
tool = "mcp__lab__wait"
[[hooks.before_call]]
command = ["fail"]
server = "other"
[[hooks.before_call]]
command = ["quiet"]
server = "l*"
tool = "*keep"
[[hooks.after_call]]
command = ["quiet"]
"#;
    let plan = Plan {
        user: user.to_owned(),
        ..open()
    };
    let (lab, echo) = lab(&[], plan).await;
    assert_eq!(
        lab.call("keep", "{}").await.outcome.kind(),
        OutcomeKind::Completed
    );
    assert_eq!(echo.heard.lock().unwrap().len(), 2);
    // What was never sent has no after.
    lab.call("wait", "{}").await;
    assert_eq!(echo.heard.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_hook_cannot_tell_a_secret_to_the_model() {
    let hooks = [("after_call", r#"{"context":"it is tok-very-secret-1"}"#)];
    let (lab, echo) = lab(&hooks, open()).await;
    let report = lab.call("tell", "{}").await;
    assert!(
        !words(&report).contains("tok-very-secret-1"),
        "{}",
        words(&report)
    );
    let heard = echo.heard.lock().unwrap()[0].to_string();
    assert!(!heard.contains("tok-very-secret-1"), "{heard}");
}

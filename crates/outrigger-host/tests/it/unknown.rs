//! What becomes of calls whose outcome is unknown: which are made again by themselves, what a late
//! answer changes, who is asked before the same call is made once more, and what another run is told.

use std::time::Duration;

use outrigger_host::approve::{Answer, Repeat, RepeatKey};
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::words::Words;
use outrigger_host::{CallContext, CallReport, KeptCall};
use outrigger_journal::{CallRef, Event, OutcomeKind, UnknownCall};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::lab::{Lab, Plan, until, words};

const SERVER: &str = "[servers.lab]\ncommand = 'x'\nenv.TOKEN = '${LAB_TOKEN}'\n";

/// The server is the person's own, so that what is said about it counts.
fn plan(said: &str) -> Plan {
    Plan {
        project: String::new(),
        user: format!("{SERVER}{said}"),
        allow: vec!["*".to_owned()],
        ..Plan::default()
    }
}

fn soon() -> CallContext {
    CallContext {
        deadline: Some(Duration::from_millis(60)),
        ..CallContext::default()
    }
}

async fn call(lab: &Lab, tool: &str, arguments: &str) -> CallReport {
    lab.call_with(&lab.host.toolset(), tool, arguments, soon())
        .await
}

/// The events about a call, by name.
async fn steps(lab: &Lab, call: u32) -> Vec<String> {
    let of_call = |event: &Value| {
        let name = event["type"].as_str()?.strip_prefix("call_")?;
        (event["call"] == call).then(|| name.to_owned())
    };
    let events = lab.events().await;
    let events = events
        .iter()
        .map(|recorded| serde_json::to_value(&recorded.event).unwrap());
    events.filter_map(|event| of_call(&event)).collect()
}

/// The arguments of all calls that the server heard of.
fn sent(lab: &Lab) -> Vec<Value> {
    let calls = lab.server.of("tools/call");
    calls
        .iter()
        .map(|call| call["params"]["arguments"].clone())
        .collect()
}

#[tokio::test]
async fn only_what_may_be_made_twice_is_made_again_and_stays_one_call() {
    for (said, times) in [
        ("", 1),
        ("idempotent = true", 2),
        ("read_only = true\nretries = 2", 3),
        ("read_only = true\nretries = 0", 1),
        ("tools.'w*'.idempotent = true", 2),
        ("tools.keep.idempotent = true", 1),
        ("idempotent = true\ntools.wait.idempotent = false", 1),
        ("tools.wait.idempotency_key = 'n'", 1),
    ] {
        let lab = Lab::new(plan(said)).await;
        let report = call(&lab, "wait", r#"{"n":1}"#).await;
        assert_eq!(report.outcome.kind(), OutcomeKind::Unknown, "{said}");
        assert_eq!(sent(&lab), vec![json!({ "n": 1 }); times], "{said}");
        let mut wanted = vec!["proposed", "prepared", "decided", "intent"];
        wanted.extend(vec!["retried"; times - 1]);
        wanted.push("ended");
        let steps = steps(&lab, 1).await;
        assert_eq!(steps, wanted, "{said}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_waited_for() {
    let lab = Lab::new(plan("idempotent = true\nretries = 1")).await;
    let report = lab.call("leave", "{}").await;
    assert_eq!(report.outcome.kind(), OutcomeKind::Unknown);
    assert_eq!(lab.server.of("tools/call").len(), 2);
    let events = lab.events().await;
    let retried = events.iter().find_map(|recorded| match &recorded.event {
        Event::CallRetried {
            attempt,
            wait_ms,
            reason,
            ..
        } => Some((*attempt, *wait_ms, reason.clone())),
        _ => None,
    });
    let (attempt, wait_ms, reason) = retried.unwrap();
    assert_eq!((attempt, wait_ms), (1, 500));
    assert!(reason.contains("the server ended"), "{reason}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_is_not_made_again() {
    let lab = Lab::new(plan("idempotent = true")).await;
    let context = CallContext::default();
    let cancel = context.cancel.clone();
    let toolset = lab.host.toolset();
    let stop = async {
        until(|| !lab.server.of("tools/call").is_empty()).await;
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(lab.call_with(&toolset, "wait", "{}", context), stop);
    assert_eq!(report.outcome.kind(), OutcomeKind::Unknown);
    assert_eq!(lab.server.of("tools/call").len(), 1);
}

/// Answers the last call that the server heard of.
fn answer(lab: &Lab, text: &str) {
    let id = lab.server.of("tools/call").last().unwrap()["id"].clone();
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    lab.server
        .say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
}

fn text(words: &[Words]) -> String {
    let texts = words.iter().map(|words| match words {
        Words::Text(text) => text.as_str(),
        Words::Image { .. } => "an image",
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_late_answer_makes_it_known_to_the_ledger_and_once_to_the_model() {
    let lab = Lab::open().await;
    assert_eq!(lab.host.late_patience(), None, "nothing can come");
    let report = call(&lab, "wait", r#"{"n":1}"#).await;
    assert_eq!(report.outcome.kind(), OutcomeKind::Unknown);
    assert_eq!(lab.host.unknown_calls(), 1);
    assert_eq!(lab.host.late_patience(), Some(Duration::from_secs(2)));
    assert!(lab.host.late_notes().await.is_empty());

    answer(&lab, "the token is tok-very-secret-1");
    lab.host.await_late().await;
    assert_eq!(lab.host.unknown_calls(), 0);
    assert_eq!(lab.host.late_patience(), None);
    let notes = lab.host.late_notes().await;
    assert_eq!(notes.len(), 1);
    insta::assert_snapshot!(text(&notes[0].words), @r"
    [a note of this host, not of the user] The outcome of call 1 to `mcp__lab__wait` was unknown. It has answered after all:
    [data from lab]
    the token is [redacted]
    ");
    assert_eq!(notes[0].of.call, 1);
    assert_eq!(lab.host.origins().servers().collect::<Vec<_>>(), ["lab"]);
    assert!(lab.host.late_notes().await.is_empty(), "told once");
    lab.events().await;
    let line = &lab.journal.calls(lab.run.id()).await.unwrap()[0];
    assert_eq!(line.outcome, Some(OutcomeKind::Completed));
    assert_eq!(line.summary, "the token is [redacted]");
    let again = call(&lab, "wait", r#"{"n":1}"#).await;
    assert_eq!(again.outcome.kind(), OutcomeKind::Unknown, "made, unasked");
}

#[tokio::test]
async fn a_late_answer_against_the_contract_is_a_violation() {
    let lab = Lab::open().await;
    let shown = lab.host.toolset();
    lab.server.change(|tools| {
        let wait = tools
            .iter_mut()
            .find(|tool| tool["name"] == "wait")
            .unwrap();
        wait["outputSchema"] = json!({ "type": "object", "required": ["n"] });
    });
    lab.changed_from(&shown).await;
    call(&lab, "wait", "{}").await;
    answer(&lab, "without structure");
    lab.host.await_late().await;
    let told = text(&lab.host.late_notes().await[0].words);
    assert!(
        told.contains("against its own contract") && !told.contains("without structure"),
        "{told}"
    );
    lab.events().await;
    let line = &lab.journal.calls(lab.run.id()).await.unwrap()[0];
    assert_eq!(line.outcome, Some(OutcomeKind::Violated));
}

/// What was asked about calls that repeat another.
fn asked(lab: &Lab) -> Vec<Option<(u32, RepeatKey)>> {
    let repeats = lab.person.repeats.lock().unwrap();
    let told = |repeat: &Option<Repeat>| {
        let repeat = repeat.as_ref()?;
        Some((repeat.of.call, repeat.key.clone()))
    };
    repeats.iter().map(told).collect()
}

#[tokio::test]
async fn the_same_call_is_not_made_again_unasked() {
    let lab = Lab::new(Plan {
        answers: vec![Answer::Nobody, Answer::Session, Answer::Once],
        ..plan("")
    })
    .await;
    call(&lab, "wait", r#"{"n":1}"#).await;
    call(&lab, "wait", r#"{"n":2}"#).await;
    assert_eq!(asked(&lab), [], "another call");
    let refused = call(&lab, "wait", r#"{ "n": 1 }"#).await;
    let CallOutcome::Rejected(Rejection::Repeats(repeat)) = &refused.outcome else {
        panic!("{refused:?}")
    };
    assert!(repeat.here && repeat.why.contains("no answer came within"));
    insta::assert_snapshot!(format!("{}\n{}", words(&refused), refused.summary), @"
    Not called: the same call was sent before (call 1), and its outcome is unknown. Making it again needs approval, and nobody is there to give it. Look what came of it, or tell the user what is not known.
    refused: the outcome of the same call (call 1) is unknown, and nobody is there to say that it may be made again
    ");
    assert_eq!(
        steps(&lab, 3).await,
        ["proposed", "prepared", "decided", "ended"]
    );
    // A yes for the session is for this one call.
    for _ in 0..2 {
        let made = call(&lab, "wait", r#"{"n":1}"#).await;
        assert_eq!(made.outcome.kind(), OutcomeKind::Unknown);
    }
    assert_eq!(
        asked(&lab),
        [1, 1, 4].map(|call| Some((call, RepeatKey::None)))
    );
    assert_eq!(sent(&lab), [1, 2, 1, 1].map(|n| json!({ "n": n })));
}

#[tokio::test]
async fn what_may_be_made_twice_is_repeated_unasked() {
    let lab = Lab::new(plan("idempotent = true\nretries = 0")).await;
    for _ in 0..2 {
        call(&lab, "wait", "{}").await;
    }
    assert_eq!((asked(&lab).len(), sent(&lab).len()), (0, 2));
}

/// A lab whose tool `wait` takes a key.
async fn with_key(answers: Vec<Answer>) -> Lab {
    let lab = Lab::new(Plan {
        answers,
        ..plan("tools.wait.idempotency_key = 'request_id'")
    })
    .await;
    let shown = lab.host.toolset();
    lab.server.change(|tools| {
        let wait = tools
            .iter_mut()
            .find(|tool| tool["name"] == "wait")
            .unwrap();
        wait["inputSchema"]["properties"]["request_id"] = json!({ "type": "string" });
        wait["inputSchema"]["required"] = json!(["request_id"]);
    });
    lab.changed_from(&shown).await;
    lab
}

#[tokio::test]
async fn a_repetition_that_a_person_allows_carries_the_same_key() {
    let lab = with_key(vec![Answer::Once, Answer::Once]).await;
    call(&lab, "wait", r#"{"n":1}"#).await;
    call(&lab, "wait", r#"{"n":1,"request_id":""}"#).await;
    call(&lab, "wait", r#"{"n":1,"request_id":"mine"}"#).await;
    call(&lab, "wait", r#"{"n":2}"#).await;
    let keys: Vec<String> = sent(&lab)
        .iter()
        .map(|arguments| arguments["request_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys[0], keys[1], "the same for the repetition");
    assert_eq!(keys[2], "mine", "what the model wrote stays");
    assert_ne!(keys[0], keys[3], "another call has another");
    assert_eq!(
        (keys[0].len(), &keys[0][14..15]),
        (36, "4"),
        "a random UUID"
    );
    let key = || "request_id".to_owned();
    assert_eq!(
        asked(&lab),
        [
            Some((1, RepeatKey::Same(key()))),
            Some((2, RepeatKey::Other(key())))
        ]
    );
    let repairs = lab
        .events()
        .await
        .into_iter()
        .find_map(|recorded| match recorded.event {
            Event::CallPrepared { repairs, .. } => Some(repairs),
            _ => None,
        });
    assert_eq!(
        repairs.unwrap(),
        ["`request_id`, left empty, was filled in by the host: an idempotency key"]
    );
}

#[tokio::test]
async fn a_key_that_no_argument_holds_is_pointed_out() {
    let lab = Lab::new(plan(
        "tools.wait.idempotency_key = 'request_id'\ntools.'k*'.idempotency_key = 'n'",
    ))
    .await;
    let events = lab.events().await;
    let warned: Vec<_> = events
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::ServerWarned { warning, .. } => Some(warning.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        warned,
        [
            "none of its tools that are called `wait` takes an argument `request_id`, which `idempotency_key` names for them"
        ]
    );
    call(&lab, "wait", r#"{"n":1}"#).await;
    assert_eq!(sent(&lab), [json!({ "n": 1 })]);
}

#[tokio::test]
async fn what_an_earlier_run_does_not_know_is_not_repeated_either() {
    let lab = Lab::new(plan("")).await;
    lab.host.remember_unknown([UnknownCall {
        run: "20261130-094210-3f9a".parse().unwrap(),
        call: 3,
        at: jiff::Timestamp::UNIX_EPOCH,
        workspace: String::new(),
        server: "lab".to_owned(),
        tool: "mcp__lab__keep".to_owned(),
        raw_tool: "keep".to_owned(),
        arguments: r#"{"n":1}"#.to_owned(),
        why: "the host stopped before the answer came".to_owned(),
        checks: Vec::new(),
    }]);
    let refused = lab.call("keep", r#"{"n":1}"#).await;
    assert!(
        refused
            .summary
            .contains("(call 3 of the run 20261130-094210-3f9a) is unknown"),
        "{}",
        refused.summary
    );
    assert_eq!(lab.host.unknown_calls(), 0, "of this run");
    assert_eq!(
        lab.call("keep", r#"{"n":2}"#).await.outcome.kind(),
        OutcomeKind::Completed
    );
}

#[tokio::test]
async fn tools_that_could_be_used_to_look_are_written_down_before_the_intent() {
    let said =
        "[[policy.rule]]\nraw = 'tell'\nserver = 'lab'\ndecision = 'allow'\nread_only = true";
    let lab = Lab::new(plan(said)).await;
    lab.call("keep", "{}").await;
    assert_eq!(
        steps(&lab, 1).await,
        [
            "proposed",
            "prepared",
            "decided",
            "checkable",
            "intent",
            "ended"
        ]
    );
    lab.call("tell", "{}").await;
    assert_eq!(
        steps(&lab, 2).await,
        ["proposed", "prepared", "decided", "intent", "ended"],
        "nothing that only reads needs it"
    );
    let lost = call(&lab, "wait", r#"{"n":7}"#).await;
    assert!(
        words(&lost).ends_with(r#"Do not simply repeat it. Sent was: {"n":7}. Check first, for example with `mcp__lab__tell`."#),
        "{}",
        words(&lost)
    );
}

fn kept(outcome: OutcomeKind, summary: &str, result: Option<&str>) -> KeptCall {
    KeptCall {
        of: CallRef {
            run: "20261130-103302-1a2b".parse().unwrap(),
            call: 1,
        },
        kept: None,
        tool: "mcp__lab__keep".to_owned(),
        server: Some("lab".to_owned()),
        arguments: r#"{"n":1}"#.to_owned(),
        outcome,
        summary: summary.to_owned(),
        result: result.map(|json| RawValue::from_string(json.to_owned()).unwrap()),
    }
}

#[tokio::test]
async fn another_run_is_told_what_the_ledger_has() {
    let lab = Lab::open().await;
    let mut all = Vec::new();
    for kept in [
        kept(
            OutcomeKind::Completed,
            "kept",
            Some(r#"{"content":[{"type":"text","text":"kept"}]}"#),
        ),
        kept(
            OutcomeKind::Completed,
            "error: not today",
            Some(r#"{"error":{"code":-32000,"message":"not today"}}"#),
        ),
        kept(
            OutcomeKind::Unknown,
            "the host stopped before the answer came",
            None,
        ),
        kept(
            OutcomeKind::Unknown,
            "outcome unknown: no answer came within 0.3 s",
            None,
        ),
        kept(
            OutcomeKind::NotSent,
            "the host stopped before it was sent",
            None,
        ),
        kept(OutcomeKind::Rejected, "denied by a rule", None),
        kept(
            OutcomeKind::Rejected,
            "Not called: the user declined.",
            None,
        ),
        kept(
            OutcomeKind::Violated,
            "contract broken by `keep` of `lab`: `/n` is missing",
            Some("{}"),
        ),
    ] {
        let told = lab.host.retell(&lab.host.toolset(), &kept).await;
        let origin = told.origin.map_or("ours".to_owned(), |it| it.to_string());
        let (error, words) = (told.is_error, text(&told.words));
        all.push(format!("{origin}, error {error}: {words}"));
    }
    insta::assert_snapshot!(all.join("\n"), @r#"
    lab, error false: [data from lab]
    kept
    lab, error true: [data from lab: an error]
    error -32000: not today
    lab, error true: Outcome unknown: the call was sent to the server `lab`, but the host stopped before the answer came. It may or may not have taken effect. Do not simply repeat it. Sent was: {"n":1}. Tell the user what is not known.
    lab, error true: Outcome unknown: the call was sent to the server `lab`, but no answer came within 0.3 s. It may or may not have taken effect. Do not simply repeat it. Sent was: {"n":1}. Tell the user what is not known.
    lab, error true: Not called: nothing was sent to the server `lab` (the host stopped before it was sent).
    ours, error true: Not called: denied by a rule.
    ours, error true: Not called: the user declined.
    lab, error true: The server `lab` answered the call of `mcp__lab__keep`, but against its own contract: `/n` is missing. The answer is not shown. The call may have taken effect.
    "#);
    assert_eq!(sent(&lab), Vec::<Value>::new(), "nothing is sent");
}

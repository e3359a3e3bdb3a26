//! The life of a call: every proposed call has exactly one end, and the words say what is known.

use std::time::Duration;

use outrigger_host::approve::Answer;
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::{CallContext, CallReport};
use outrigger_journal::{Event, OutcomeKind};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, Plan, proposed, until, words};

fn within(millis: u64) -> CallContext {
    CallContext {
        deadline: Some(Duration::from_millis(millis)),
        ..CallContext::default()
    }
}

/// How a call ended and what the model reads, after a look at the journal.
async fn told(lab: &Lab, what: &str, report: &CallReport) -> String {
    let kind = report.outcome.kind();
    assert_eq!(lab.ends(report.call).await, [kind], "{what}");
    format!("{what}: {}: {}", kind.as_str(), words(report))
}

#[tokio::test]
async fn each_outcome_is_told_and_written_once() {
    let lab = Lab::open().await;
    let mut all = Vec::new();
    for (tool, arguments) in [
        ("keep", "{}"),
        ("fail", "{}"),
        ("refuse", "{}"),
        ("kep", "{}"),
        ("keep", r#"{"n":"x"}"#),
        ("keep", "[1]"),
        ("keep", r#"{"n":1,"n":2}"#),
        ("break", "{}"),
        ("garble", "{}"),
    ] {
        let report = lab.call(tool, arguments).await;
        all.push(told(&lab, &format!("{tool} {arguments}"), &report).await);
    }
    let toolset = lab.host.toolset();
    for tool in ["wait", "leave", "keep"] {
        let report = lab.call_with(&toolset, tool, "{}", within(100)).await;
        if tool == "leave" {
            until(|| lab.host.toolset().tools().is_empty()).await;
        }
        all.push(told(&lab, tool, &report).await);
    }
    insta::assert_snapshot!(all.join("\n"), @r#"
    keep {}: completed: [data from lab]
    kept
    fail {}: completed: [data from lab: an error]
    no such row
    refuse {}: completed: [data from lab: an error]
    error -32000: not today
    kep {}: rejected: Not called: there is no tool `mcp__lab__kep`. Did you mean `mcp__lab__keep`?
    keep {"n":"x"}: rejected: Not called: the arguments do not fit the tool's schema:
    - `/n`: "x" is not of type "integer"
    keep [1]: rejected: Not called: the arguments must be one JSON object; they are `[1]`.
    keep {"n":1,"n":2}: rejected: Not called: the arguments must be one JSON object; they are not JSON: the key `n` is there twice at line 1 column 13.
    break {}: violated: The server `lab` answered the call of `break`, but against its own contract: the structured content breaks the tool's output schema: `/n`: "seven" is not of type "integer". The answer is not shown. The call may have taken effect.
    garble {}: violated: The server `lab` answered the call of `garble`, but against its own contract: the answer is not a tool result: invalid type: integer `1`, expected a sequence at line 1 column 2. The answer is not shown. The call may have taken effect.
    wait: unknown: Outcome unknown: the call was sent to the server `lab`, but no answer came within 0.1 s. It may or may not have taken effect. Do not simply repeat it. Tell the user what is not known.
    leave: unknown: Outcome unknown: the call was sent to the server `lab`, but the connection ended before the answer (the server ended). It may or may not have taken effect. Do not simply repeat it. Tell the user what is not known.
    keep: not_sent: Not called: nothing was sent to the server `lab` (the connection ended: the server ended; it is being started again).
    "#);
    let sent: Vec<_> = lab
        .server
        .of("tools/call")
        .iter()
        .map(|call| call["params"]["name"].clone())
        .collect();
    assert_eq!(
        sent,
        ["keep", "fail", "refuse", "break", "garble", "wait", "leave"]
    );
}

#[tokio::test]
async fn a_caller_that_stops_waiting_leaves_an_end_behind() {
    let lab = Lab::open().await;
    let toolset = lab.host.toolset();
    let call = lab
        .host
        .call(&toolset, proposed("wait", "{}"), CallContext::default());
    tokio::select! {
        report = call => panic!("it ended: {report:?}"),
        () = until(|| !lab.server.of("tools/call").is_empty()) => {}
    }
    assert_eq!(lab.ends(1).await, [OutcomeKind::Unknown]);

    let asking = Lab::new(Plan {
        gate: 0,
        ..Plan::default()
    })
    .await;
    let toolset = asking.host.toolset();
    let call = asking
        .host
        .call(&toolset, proposed("keep", "{}"), CallContext::default());
    tokio::select! {
        report = call => panic!("it ended: {report:?}"),
        () = until(|| !asking.person.asked.lock().unwrap().is_empty()) => {}
    }
    assert_eq!(asking.ends(1).await, [OutcomeKind::Rejected]);
    assert_eq!(asking.server.of("tools/call").len(), 0);
    // The question that nobody waits for any more holds up no other.
    asking.person.gate.add_permits(1);
    let report = asking.call("keep", "{}").await;
    assert!(
        matches!(
            report.outcome,
            CallOutcome::Rejected(Rejection::NobodyToAsk { .. })
        ),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_on_its_server() {
    let lab = Lab::open().await;
    let cancel = CancellationToken::new();
    let context = CallContext {
        cancel: cancel.clone(),
        ..CallContext::default()
    };
    let toolset = lab.host.toolset();
    let call = lab.call_with(&toolset, "wait", "{}", context.clone());
    let stop = async {
        until(|| !lab.server.of("tools/call").is_empty()).await;
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(call, stop);
    assert_eq!(report.outcome.kind(), OutcomeKind::Unknown);
    until(|| !lab.server.of("notifications/cancelled").is_empty()).await;
    let (sent, told) = (
        lab.server.of("tools/call"),
        lab.server.of("notifications/cancelled"),
    );
    assert_eq!(told[0]["params"]["requestId"], sent[0]["id"]);

    let after = lab.call_with(&toolset, "keep", "{}", context).await;
    assert!(
        matches!(after.outcome, CallOutcome::Rejected(Rejection::Cancelled)),
        "{after:?}"
    );
    assert_eq!((lab.ends(1).await.len(), lab.ends(2).await.len()), (1, 1));
    assert_eq!(lab.server.of("tools/call").len(), 1);
}

#[tokio::test]
async fn what_is_not_recorded_is_not_sent() {
    let plan = Plan {
        allow: vec!["*".to_owned()],
        recorded: false,
        ..Plan::default()
    };
    let lab = Lab::new(plan).await;
    let report = lab.call("keep", "{}").await;
    assert!(
        matches!(
            report.outcome,
            CallOutcome::Rejected(Rejection::NotRecorded { .. })
        ),
        "{report:?}"
    );
    insta::assert_snapshot!(words(&report), @"Not called: the call could not be recorded, and unrecorded calls are not made (this run is not recorded, so nothing in it can be made durable).");
    assert_eq!(lab.server.of("tools/call").len(), 0);
}

#[tokio::test]
async fn the_intent_is_written_before_the_call_leaves() {
    let lab = Lab::open().await;
    lab.call("keep", r#"{"n": 1}"#).await;
    let steps: Vec<_> = lab
        .events()
        .await
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::CallProposed { .. } => Some("proposed"),
            Event::CallPrepared { .. } => Some("prepared"),
            Event::CallDecided { .. } => Some("decided"),
            Event::CallIntent { .. } => Some("intent"),
            Event::CallEnded { .. } => Some("ended"),
            _ => None,
        })
        .collect();
    assert_eq!(
        steps,
        ["proposed", "prepared", "decided", "intent", "ended"]
    );
}

#[tokio::test]
async fn arguments_reach_the_server_byte_for_byte() {
    let lab = Lab::open().await;
    let written = r#"{"n":123456789012345678901234567890, "x":1.50e+3,"t":"\u0061"}"#;
    assert_eq!(
        lab.call("keep", written).await.outcome.kind(),
        OutcomeKind::Completed
    );
    let heard = lab.server.heard.lock().unwrap().last().unwrap().clone();
    assert!(
        heard.contains(&format!("\"arguments\":{written}")),
        "{heard}"
    );
}

#[tokio::test]
async fn a_changed_definition_is_not_called() {
    let lab = Lab::open().await;
    let shown = lab.host.toolset();
    lab.server.change(|tools| {
        tools[0]["description"] = json!("Now deletes everything");
        tools.retain(|tool| tool["name"] != "fail");
    });
    lab.changed_from(&shown).await;
    let report = lab
        .call_with(&shown, "keep", "{}", CallContext::default())
        .await;
    assert!(
        matches!(report.outcome, CallOutcome::Rejected(Rejection::Changed)),
        "{report:?}"
    );
    insta::assert_snapshot!(words(&report), @"Not called: the server has changed this tool's definition since it was shown. The new definition comes with the next turn.");
    let gone = lab
        .call_with(&shown, "fail", "{}", CallContext::default())
        .await;
    insta::assert_snapshot!(words(&gone), @"Not called: nothing was sent to the server `lab` (it no longer offers this tool).");
    let untouched = lab
        .call_with(&shown, "refuse", "{}", CallContext::default())
        .await;
    assert_eq!(untouched.outcome.kind(), OutcomeKind::Completed);
    let again = lab.call("keep", "{}").await;
    assert_eq!(again.outcome.kind(), OutcomeKind::Completed);
    assert_eq!(lab.server.of("tools/call").len(), 2);
}

#[tokio::test]
async fn the_toolset_of_a_turn_does_not_change() {
    let lab = Lab::open().await;
    let shown = lab.host.toolset();
    let before: Vec<_> = shown
        .tools()
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    lab.server.change(|tools| tools.truncate(1));
    lab.changed_from(&shown).await;
    let after: Vec<_> = shown
        .tools()
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(before, after);
    assert_eq!(lab.host.toolset().tools().len(), 1);
}

#[tokio::test]
async fn a_result_against_the_output_schema_is_shown_to_nobody() {
    let lab = Lab::open().await;
    let report = lab.call("break", "{}").await;
    assert_eq!(report.outcome.kind(), OutcomeKind::Violated);
    let all = format!("{} {}", words(&report), report.summary);
    assert!(!all.contains("beside it"), "{all}");
    let kept = lab
        .events()
        .await
        .into_iter()
        .find_map(|recorded| match recorded.event {
            Event::CallEnded { result, .. } => result,
            _ => None,
        });
    assert!(
        kept.unwrap().get().contains("beside it"),
        "the journal has the answer as it came"
    );
}

#[tokio::test]
async fn a_server_that_tells_its_secret_tells_nobody() {
    let lab = Lab::open().await;
    let report = lab.call("tell", "{}").await;
    assert_eq!(words(&report), "[data from lab]\nthe token is [redacted]");
    let CallOutcome::Completed(result) = &report.outcome else {
        panic!("{report:?}")
    };
    assert!(
        !result
            .raw
            .here()
            .unwrap()
            .get()
            .contains("tok-very-secret-1")
            && !report.summary.contains("tok-very-secret-1")
    );
    assert!(!format!("{report:?} {:?}", lab.events().await).contains("tok-very-secret-1"));
}

#[tokio::test]
async fn a_report_says_whose_data_the_model_reads() {
    let lab = Lab::open().await;
    let mut origins = Vec::new();
    for (tool, arguments) in [
        ("keep", "{}"),
        ("fail", "{}"),
        ("refuse", "{}"),
        ("break", "{}"),
        ("keep", "[]"),
        ("no_such", "{}"),
    ] {
        let report = lab.call(tool, arguments).await;
        let origin = report.origins.servers().next();
        origins.push(format!("{tool} {arguments}: {}", origin.unwrap_or("ours")));
    }
    insta::assert_snapshot!(origins.join("\n"), @"
    keep {}: lab
    fail {}: lab
    refuse {}: lab
    break {}: lab
    keep []: ours
    no_such {}: ours
    ");
}

#[tokio::test]
async fn a_person_is_asked_one_question_at_a_time() {
    let lab = Lab::new(Plan {
        answers: vec![Answer::Once, Answer::No { reason: None }, Answer::Once],
        gate: 0,
        ..Plan::default()
    })
    .await;
    let toolset = lab.host.toolset();
    let call = |tool: &'static str| lab.call_with(&toolset, tool, "{}", within(1000));
    let release = async {
        for count in 1..=3 {
            until(|| lab.person.asked.lock().unwrap().len() == count).await;
            // The clock of a call does not run while somebody thinks.
            tokio::time::sleep(Duration::from_millis(400)).await;
            lab.person.gate.add_permits(1);
        }
    };
    let (a, b, c, ()) = tokio::join!(call("keep"), call("fail"), call("refuse"), release);
    assert_eq!(
        lab.person
            .most_open
            .load(std::sync::atomic::Ordering::SeqCst),
        1
    );
    let kinds = [a, b, c].map(|report| report.outcome.kind());
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == OutcomeKind::Rejected)
            .count(),
        1,
        "{kinds:?}"
    );
    assert_eq!(lab.server.of("tools/call").len(), 2);
    assert!(lab.host.waited_for_person() >= Duration::from_millis(1200));
}

#[tokio::test]
async fn a_session_is_for_a_tool_as_it_was() {
    let lab = Lab::asking([Answer::Session, Answer::Once]).await;
    let asked = || lab.person.asked.lock().unwrap().clone();
    for n in 0..3 {
        let report = lab.call("keep", &format!(r#"{{"n":{n}}}"#)).await;
        assert_eq!(report.outcome.kind(), OutcomeKind::Completed, "{report:?}");
    }
    assert_eq!(asked(), [r#"keep {"n":0}"#], "once for the session");
    let shown = lab.host.toolset();
    lab.server
        .change(|tools| tools[0]["description"] = json!("Keeps, and tells others"));
    lab.changed_from(&shown).await;
    lab.call("keep", "{}").await;
    assert_eq!(asked().len(), 2, "another definition is another question");
    let denied = lab.call("fail", "{}").await;
    assert_eq!(
        denied.outcome.kind(),
        OutcomeKind::Rejected,
        "another tool is another question"
    );
    assert_eq!(asked().len(), 3);
}

#[tokio::test]
async fn a_no_and_its_reason_are_the_persons_words() {
    let reason = Some("use the copy".to_owned());
    let lab = Lab::asking([
        Answer::No { reason },
        Answer::No { reason: None },
        Answer::Nobody,
    ])
    .await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let report = lab.call("keep", "{}").await;
        told.push(format!("{} / {}", words(&report), report.summary));
    }
    insta::assert_snapshot!(told.join("\n"), @"
    Not called: the user declined: use the copy / Not called: the user declined: use the copy
    Not called: the user declined. / Not called: the user declined.
    Not called: it needs approval, and nobody is there to give it. This is not a decision of the user. / refused: the default of the policy asks, and nobody is there to answer
    ");
    assert_eq!(lab.server.of("tools/call").len(), 0);
}

#[tokio::test]
async fn a_server_that_ends_is_started_again_and_the_model_is_told_once() {
    let lab = Lab::open().await;
    let before = lab.host.toolset();
    let lost = lab.call_with(&before, "leave", "{}", within(5000)).await;
    assert_eq!(
        lost.outcome.kind(),
        OutcomeKind::Unknown,
        "{}",
        lost.summary
    );

    until(|| lab.host.toolset().tools().is_empty()).await;
    until(|| !lab.host.toolset().tools().is_empty()).await;
    let told = words(&lab.call("keep", "{}").await);
    assert!(told.contains("was started again"), "{told}");
    assert!(
        told.ends_with("[data from lab]\nkept"),
        "our remark stands before the data: {told}"
    );
    assert_eq!(
        words(&lab.call("keep", "{}").await),
        "[data from lab]\nkept"
    );
    assert_eq!(
        lab.server.of("tools/call").len(),
        3,
        "the lost call was not sent again"
    );
}

#[tokio::test]
async fn a_flood_is_one_warning_and_holds_up_nothing() {
    let lab = Lab::new(Plan {
        user: "[limits]\nnotifications_per_second = 10".to_owned(),
        allow: vec!["*".to_owned()],
        ..Plan::default()
    })
    .await;
    let line = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "again" } });
    for round in 0..3 {
        lab.server.say(&format!("{line}\n").repeat(5_000));
        let report = lab.call("keep", "{}").await;
        assert_eq!(words(&report), "[data from lab]\nkept", "{round}");
    }
    let warnings = async || {
        let events = lab.events().await;
        let warnings = events.iter().filter_map(|recorded| match &recorded.event {
            Event::ServerWarned { server, warning } => Some(format!("{server}: {warning}")),
            _ => None,
        });
        warnings.collect::<Vec<_>>()
    };
    while warnings().await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        warnings().await,
        [
            "lab: it sends more than 10 notifications a second; those beyond are dropped (notifications_per_second)"
        ]
    );
}

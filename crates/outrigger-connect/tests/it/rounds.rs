//! Servers of the modern era that want input, make tasks of calls, or tell of changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outrigger_connect::{CallError, CallOptions, Connection, Handlers};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::peer::{Act, Peer, call, call_within, connect, error, result, until};
use crate::questions::{Manner, People, asks, connect_with};

/// A good modern server; `script` is asked first.
pub(crate) fn modern(script: impl Fn(&Value) -> Option<Act> + Send + Sync + 'static) -> Peer {
    Peer::new(move |message| {
        script(message).unwrap_or_else(|| match message["method"].as_str() {
            Some("server/discover") => result(
                message,
                &json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
            ),
            Some("tools/list") => result(message, &json!({ "tools": [] })),
            Some("tools/call") => result(message, &json!({ "content": [] })),
            Some(_) if message.get("id").is_some() => error(message, -32601, "Method not found"),
            _ => Act::Nothing,
        })
    })
}

fn wants(state: &Value) -> Value {
    let schema = json!({ "properties": { "ok": { "type": "boolean", "default": true } } });
    let params = json!({ "message": "Sure?", "requestedSchema": schema });
    let question = json!({ "method": "elicitation/create", "params": params });
    json!({ "resultType": "input_required", "inputRequests": { "sure": question }, "requestState": state })
}

/// The parameters of all calls that a server has had.
fn calls(peer: &Peer) -> Vec<Value> {
    let heard = peer.heard.lock().unwrap();
    let calls = heard
        .iter()
        .filter(|message| message["method"] == "tools/call");
    calls.cloned().collect()
}

fn unfinished(outcome: Result<Box<RawValue>, CallError>) -> String {
    match outcome {
        Err(CallError::Unfinished(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_is_answered_and_the_call_sent_again_with_it() {
    let peer = modern(|message| {
        let again = message["params"].get("inputResponses").is_some();
        let asks = message["method"] == "tools/call" && !again;
        asks.then(|| result(message, &wants(&json!("s-1"))))
    });
    let people = People::new(Manner::Agree);
    let connection = connect_with(&peer, asks(&people)).await;
    let answer = call(&connection).await.unwrap();
    assert_eq!(answer.get(), r#"{"content":[]}"#);
    let calls = calls(&peer);
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_eq!(calls[1]["params"]["requestState"], "s-1");
    assert_eq!(
        calls[1]["params"]["inputResponses"],
        json!({ "sure": { "action": "accept", "content": { "ok": true } } })
    );
    assert_eq!(calls[1]["params"]["name"], "echo");
    let declared = &calls[0]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["elicitation"], json!({ "form": {}, "url": {} }));
    assert_eq!(
        people.asked.lock().unwrap()[0].0.tool.as_deref(),
        Some("echo")
    );
}

#[tokio::test]
async fn input_that_nobody_gives_is_named() {
    let always = || {
        modern(|message| {
            (message["method"] == "tools/call").then(|| result(message, &wants(&json!("s"))))
        })
    };
    let peer = always();
    let connection = connect_with(&peer, Handlers::default()).await;
    assert_eq!(
        unfinished(call(&connection).await),
        "the server wants input that is not given here: `elicitation/create`: Sure?"
    );
    let connection = connect_with(&always(), asks(&People::new(Manner::Refuse))).await;
    assert_eq!(
        unfinished(call(&connection).await),
        "the server wants input (`elicitation/create`: Sure?), and nobody is there"
    );
    let people = People::new(Manner::Agree);
    let peer = always();
    let connection = connect_with(&peer, asks(&people)).await;
    assert_eq!(
        unfinished(call(&connection).await),
        "the server still asks for input after 8 rounds"
    );
    assert_eq!((people.count(), calls(&peer).len()), (8, 9));
}

#[tokio::test]
async fn a_round_is_cancelled_with_its_call() {
    let peer = modern(|message| {
        (message["method"] == "tools/call").then(|| result(message, &wants(&json!("s"))))
    });
    let people = People::new(Manner::Think);
    let connection = connect_with(&peer, asks(&people)).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let call = connection.call_tool("echo", RawValue::NULL, options);
    let (outcome, ()) = tokio::join!(call, async {
        until(|| people.count() == 1).await;
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(CallError::Cancelled)));
    assert_eq!(people.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_was_begun_is_never_called_unsent() {
    let peer = modern(|message| {
        if message["params"].get("inputResponses").is_some() {
            return Some(Act::Leave);
        }
        (message["method"] == "tools/call").then(|| result(message, &wants(&json!("s"))))
    });
    let connection = connect_with(&peer, asks(&People::new(Manner::Agree))).await;
    let outcome = call(&connection).await;
    assert!(matches!(&outcome, Err(CallError::Closed(_))), "{outcome:?}");
}

#[tokio::test]
async fn questions_without_shape_are_named() {
    for (answer, words) in [
        (
            json!({ "resultType": "input_required" }),
            "does not say which",
        ),
        (
            json!({ "resultType": "input_required", "inputRequests": [1] }),
            "not known",
        ),
        (
            json!({ "resultType": "input_required", "requestState": "x".repeat(2 << 20) }),
            "requestState",
        ),
    ] {
        let peer = modern(move |message| {
            (message["method"] == "tools/call").then(|| result(message, &answer))
        });
        let outcome = call(&peer.connect().await).await;
        assert!(
            matches!(&outcome, Err(CallError::Malformed(why)) if why.contains(words)),
            "{outcome:?}"
        );
    }
}

fn task(status: &str) -> Value {
    json!({ "taskId": "t-1", "status": status, "pollIntervalMs": 1, "lastUpdatedAt": status })
}

fn created(message: &Value) -> Act {
    let mut task = task("working");
    task["resultType"] = "task".into();
    result(message, &task)
}

/// Makes a task of each call and goes through `states`, the last of which stays.
fn tasks(states: Vec<Value>) -> Peer {
    let asked = AtomicUsize::new(0);
    modern(move |message| match message["method"].as_str()? {
        "tools/call" => Some(created(message)),
        "tasks/get" => {
            let at = asked.fetch_add(1, Ordering::SeqCst).min(states.len() - 1);
            Some(result(message, &states[at]))
        }
        "tasks/update" | "tasks/cancel" => Some(result(message, &json!({}))),
        _ => None,
    })
}

#[tokio::test]
async fn a_task_is_followed_to_its_result() {
    let mut asks_first = task("input_required");
    asks_first["inputRequests"] = wants(&json!(""))["inputRequests"].clone();
    let mut done = task("completed");
    done["result"] = json!({ "content": [], "n": 7 });
    let peer = tasks(vec![task("working"), asks_first.clone(), asks_first, done]);
    let people = People::new(Manner::Agree);
    let connection = connect_with(&peer, asks(&people)).await;
    let answer = call(&connection).await.unwrap();
    assert_eq!(answer.get(), r#"{"content":[],"n":7}"#);
    // The same question is answered once, however often the state shows it.
    assert_eq!(people.count(), 1);
    let heard = peer.heard.lock().unwrap();
    let update = heard
        .iter()
        .find(|message| message["method"] == "tasks/update")
        .unwrap();
    assert_eq!(update["params"]["taskId"], "t-1");
    assert_eq!(
        update["params"]["inputResponses"]["sure"]["action"],
        "accept"
    );
    assert!(
        !heard
            .iter()
            .any(|message| message["method"] == "tasks/cancel")
    );
}

#[tokio::test]
async fn the_end_of_a_task_is_the_end_of_the_call() {
    let mut failed = task("failed");
    failed["error"] = json!({ "code": -5, "message": "broken" });
    let outcome = call(&tasks(vec![failed]).connect().await).await;
    assert!(
        matches!(&outcome, Err(CallError::Rpc { code: -5, .. })),
        "{outcome:?}"
    );
    let outcome = call(&tasks(vec![task("cancelled")]).connect().await).await;
    assert_eq!(
        unfinished(outcome),
        "the server's task has been cancelled by the server"
    );
    let forgotten = modern(|message| (message["method"] == "tools/call").then(|| created(message)));
    let outcome = call(&forgotten.connect().await).await;
    assert!(unfinished(outcome).contains("error -32601"));
}

#[tokio::test]
async fn a_task_that_is_given_up_is_cancelled() {
    let cancelled = |peer: &Peer| peer.methods().contains(&"tasks/cancel".to_owned());
    let peer = tasks(vec![task("working")]);
    let connection = peer.connect().await;
    let outcome = call_within(&connection, Duration::from_millis(80)).await;
    assert!(
        matches!(&outcome, Err(CallError::Deadline { .. })),
        "{outcome:?}"
    );
    until(|| cancelled(&peer)).await;

    let peer = tasks(vec![task("working")]);
    let connection = peer.connect().await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let call = connection.call_tool("echo", RawValue::NULL, options);
    let (outcome, ()) = tokio::join!(call, async {
        until(|| peer.methods().contains(&"tasks/get".to_owned())).await;
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(CallError::Cancelled)));
    until(|| cancelled(&peer)).await;
}

#[tokio::test]
async fn a_task_that_comes_too_late_is_cancelled() {
    let given_up = Mutex::new(Value::Null);
    let peer = modern(move |message| match message["method"].as_str()? {
        "tools/call" => {
            *given_up.lock().unwrap() = message.clone();
            Some(Act::Nothing)
        }
        "notifications/cancelled" => Some(created(&given_up.lock().unwrap())),
        _ => None,
    });
    let connection = peer.connect().await;
    let (told, late) = std::sync::mpsc::channel();
    let options = CallOptions {
        deadline: Some(Duration::from_millis(50)),
        on_late: Some(Box::new(move |answer| told.send(answer).unwrap())),
        ..CallOptions::default()
    };
    let outcome = connection.call_tool("echo", RawValue::NULL, options).await;
    assert!(matches!(outcome, Err(CallError::Deadline { .. })));
    until(|| peer.methods().contains(&"tasks/cancel".to_owned())).await;
    assert!(unfinished(late.recv().unwrap()).contains("made a task"));
}

/// Lets this many requests leave.
fn only(many: usize) -> CallOptions {
    let left = AtomicUsize::new(many);
    CallOptions {
        may_send: Some(Arc::new(move || {
            let less = |left: usize| left.checked_sub(1);
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_ok()
        })),
        ..CallOptions::default()
    }
}

#[tokio::test]
async fn nothing_is_sent_that_may_not_be_any_more() {
    let peer = modern(|message| {
        let asks = message["method"] == "tools/call";
        asks.then(|| result(message, &wants(&json!("s-1"))))
    });
    let people = People::new(Manner::Agree);
    let connection = connect_with(&peer, asks(&people)).await;
    let call = |many| connection.call_tool("echo", RawValue::NULL, only(many));
    let outcome = call(0).await;
    assert!(matches!(outcome, Err(CallError::NotSent(_))), "{outcome:?}");
    assert_eq!(calls(&peer).len(), 0);
    // The server has had the call once: what it did by then is not known.
    let outcome = call(1).await;
    assert!(matches!(outcome, Err(CallError::Closed(_))), "{outcome:?}");
    assert_eq!((calls(&peer).len(), people.count()), (1, 1));

    let mut asks_first = task("input_required");
    asks_first["inputRequests"] = wants(&json!(""))["inputRequests"].clone();
    let peer = tasks(vec![asks_first]);
    let connection = connect_with(&peer, asks(&people)).await;
    let outcome = connection.call_tool("echo", RawValue::NULL, only(1)).await;
    assert!(matches!(outcome, Err(CallError::Closed(_))), "{outcome:?}");
    until(|| peer.methods().contains(&"tasks/cancel".to_owned())).await;
    assert!(!peer.methods().contains(&"tasks/update".to_owned()));
}

#[tokio::test]
async fn what_waited_for_a_slot_is_looked_at_once_more() {
    let peer = Peer::legacy(|message| (message["method"] == "tools/call").then_some(Act::Nothing));
    let mut spec = peer.spec();
    spec.limits.concurrent_calls = 1;
    let connection = connect(&spec).await.unwrap();
    let may = Arc::new(AtomicUsize::new(1));
    let asked = Arc::clone(&may);
    let options = CallOptions {
        may_send: Some(Arc::new(move || asked.load(Ordering::SeqCst) == 1)),
        ..CallOptions::default()
    };
    let first = call_within(&connection, Duration::from_millis(200));
    let second = connection.call_tool("echo", RawValue::NULL, options);
    let (first, second, ()) = tokio::join!(first, second, async {
        until(|| calls(&peer).len() == 1).await;
        may.store(0, Ordering::SeqCst);
    });
    assert!(
        matches!(first, Err(CallError::Deadline { .. })),
        "{first:?}"
    );
    assert!(matches!(second, Err(CallError::NotSent(_))), "{second:?}");
    assert_eq!(calls(&peer).len(), 1);
}

/// How often changes have been told of.
fn changes(connection: &Connection) -> u64 {
    *connection.tools_changed().borrow()
}

#[tokio::test]
async fn changes_are_listened_for_again_when_the_stream_ends() {
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = opened.clone();
    let peer = modern(move |message| {
        (message["method"] == "subscriptions/listen").then(|| {
            let acknowledged = json!({ "method": "notifications/subscriptions/acknowledged" });
            let changed = json!({ "method": "notifications/tools/list_changed" });
            if counted.fetch_add(1, Ordering::SeqCst) > 0 {
                return Act::Say(format!("{acknowledged}\n"));
            }
            let Act::Say(ended) = result(message, &json!({ "resultType": "complete" })) else {
                unreachable!()
            };
            Act::Say(format!("{acknowledged}\n{changed}\n{ended}"))
        })
    });
    let connection = peer.connect().await;
    assert_eq!(opened.load(Ordering::SeqCst), 0);
    connection.list_tools().await.unwrap();
    until(|| opened.load(Ordering::SeqCst) == 2).await;
    // What happened between the two is not known, so it counts as a change.
    until(|| changes(&connection) == 2).await;
    let heard = peer.heard.lock().unwrap().clone();
    let asked = heard
        .iter()
        .find(|message| message["method"] == "subscriptions/listen");
    assert_eq!(
        asked.unwrap()["params"]["notifications"],
        json!({ "toolsListChanged": true })
    );
    // An error that names no request is not the subscription's.
    call(&connection).await.unwrap();
}

#[tokio::test]
async fn a_server_that_tells_of_no_changes_is_left_alone() {
    let peer = modern(|_| None);
    let connection = peer.connect().await;
    for _ in 0..3 {
        connection.list_tools().await.unwrap();
    }
    let asked = peer.methods();
    let asked = asked
        .iter()
        .filter(|method| *method == "subscriptions/listen");
    assert_eq!(asked.count(), 1);
}

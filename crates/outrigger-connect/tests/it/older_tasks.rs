//! Tasks of the legacy era: tools that their server runs in no other way.

use std::sync::Mutex;
use std::time::Duration;

use outrigger_connect::{CallError, CallOptions};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::peer::{Act, Peer, call, call_within, error, result, until};
use crate::questions::{Manner, People, asks, connect_with};

fn task(status: &str, at: &str) -> Value {
    json!({ "taskId": "t-1", "status": status, "pollInterval": 1, "createdAt": "a", "lastUpdatedAt": at, "ttl": null })
}

fn text(act: Act) -> String {
    match act {
        Act::Say(text) => text,
        _ => panic!("nothing is said"),
    }
}

/// A server whose `echo` runs as a task only, if it says so; the task's result is held until the task
/// was asked about, with a question before it.
fn server(says: bool, ends: Value) -> Peer {
    let waiting = Mutex::new(None);
    Peer::legacy(move |message| match message["method"].as_str()? {
        "initialize" => {
            let tasks = json!({ "requests": { "tools": { "call": {} } }, "cancel": {} });
            let capabilities = if says {
                json!({ "tools": {}, "tasks": tasks })
            } else {
                json!({ "tools": {} })
            };
            Some(result(
                message,
                &json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities }),
            ))
        }
        "tools/list" => Some(result(
            message,
            &json!({ "tools": [
                { "name": "echo", "inputSchema": {}, "execution": { "taskSupport": "required" } },
                { "name": "plain", "inputSchema": {}, "execution": { "taskSupport": "optional" } },
            ] }),
        )),
        "tools/call" if message["params"].get("task").is_some() => {
            Some(result(message, &json!({ "task": task("working", "1") })))
        }
        "tools/call" if message["params"]["name"] == "echo" => {
            Some(error(message, -32601, "only as a task"))
        }
        "tasks/result" => {
            *waiting.lock().unwrap() = Some(message.clone());
            let asks = json!({ "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
                "message": "Sure?", "requestedSchema": { "properties": {} },
                "_meta": { "io.modelcontextprotocol/related-task": { "taskId": "t-1" } },
            } });
            Some(Act::Say(format!("{asks}\n")))
        }
        "tasks/get" => {
            let ended = waiting.lock().unwrap().take_if(|_| !ends.is_null());
            let said = text(result(message, &task("working", "2")));
            let ended = ended.map(|asked| match ends.get("code") {
                Some(_) => format!(
                    "{}\n",
                    json!({ "jsonrpc": "2.0", "id": asked["id"], "error": ends })
                ),
                None => text(result(&asked, &ends)),
            });
            Some(Act::Say(format!("{said}{}", ended.unwrap_or_default())))
        }
        "tasks/cancel" => Some(result(message, &task("cancelled", "3"))),
        _ => None,
    })
}

/// The parameters that the first request of this method had.
fn heard(peer: &Peer, method: &str) -> Value {
    let heard = peer.heard.lock().unwrap();
    let found = heard.iter().find(|message| message["method"] == method);
    found.map_or(Value::Null, |message| message["params"].clone())
}

#[tokio::test]
async fn a_tool_that_runs_as_a_task_only_is_called_as_one() {
    let peer = server(true, json!({ "content": [], "n": 7 }));
    let people = People::new(Manner::Agree);
    let connection = connect_with(&peer, asks(&people)).await;
    connection.list_tools().await.unwrap();
    let (told, progress) = std::sync::mpsc::channel();
    let options = CallOptions {
        on_progress: Some(std::sync::Arc::new(move |step| told.send(step).unwrap())),
        ..CallOptions::default()
    };
    let answer = connection.call_tool("echo", RawValue::NULL, options).await;
    assert_eq!(answer.unwrap().get(), r#"{"content":[],"n":7}"#);
    assert_eq!(people.count(), 1, "the task's question is answered");
    assert!(heard(&peer, "tools/call")["task"]["ttl"].as_u64() > Some(0));
    assert_eq!(heard(&peer, "tasks/result")["taskId"], "t-1");
    assert!(!peer.methods().contains(&"tasks/cancel".to_owned()));
    drop(progress);
    // One that can do without is called without.
    let plain = connection
        .call_tool("plain", RawValue::NULL, CallOptions::default())
        .await;
    plain.unwrap();
    let calls = peer.heard.lock().unwrap();
    let last = calls
        .iter()
        .rfind(|message| message["method"] == "tools/call");
    assert!(last.unwrap()["params"].get("task").is_none());
}

#[tokio::test]
async fn no_task_is_made_where_the_server_does_not_say_that_it_takes_them() {
    let peer = server(false, Value::Null);
    let connection = peer.connect().await;
    connection.list_tools().await.unwrap();
    let outcome = call(&connection).await;
    assert!(
        matches!(&outcome, Err(CallError::Rpc { code: -32601, .. })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn the_error_of_a_task_is_the_error_of_its_call() {
    let peer = server(true, json!({ "code": -5, "message": "broken" }));
    let connection = peer.connect().await;
    connection.list_tools().await.unwrap();
    let outcome = call(&connection).await;
    assert!(
        matches!(&outcome, Err(CallError::Rpc { code: -5, .. })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_task_that_is_given_up_is_cancelled() {
    let peer = server(true, Value::Null);
    let connection = peer.connect().await;
    connection.list_tools().await.unwrap();
    let outcome = call_within(&connection, Duration::from_millis(80)).await;
    assert!(
        matches!(&outcome, Err(CallError::Deadline { .. })),
        "{outcome:?}"
    );
    until(|| peer.methods().contains(&"tasks/cancel".to_owned())).await;
}

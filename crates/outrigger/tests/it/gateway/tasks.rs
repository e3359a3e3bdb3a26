//! Calls that become tasks, for clients of both eras, on servers of both.

use serde_json::{Value, json};

use super::served::{Line, Served, modern, modern_with};
use super::text;
use crate::place::{Place, fixture, until};
use crate::servers::Servers;

/// A server that makes a task of each call, and what it has heard.
fn baker() -> (Place, std::path::PathBuf) {
    let place = Place::new();
    let log = place.root.join("baker.log");
    place.servers(
        &json!({ "baker": { "command": "python3", "args": [fixture("task_server.py"), log] } }),
    );
    (place, log)
}

pub(super) fn takes_tasks(params: Value) -> Value {
    let extensions = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    modern_with(params, extensions)
}

#[test]
fn a_call_that_takes_long_becomes_a_task_of_a_client_that_takes_one() {
    let (place, log) = baker();
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    let found = line.ask("server/discover", modern(json!({})));
    let capabilities = &found["result"]["capabilities"];
    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    assert_eq!(capabilities["extensions"], extensions);
    assert!(capabilities.get("tasks").is_none());

    // One that is done soon is answered.
    let mut bake = json!({ "name": "baker__bake", "arguments": {} });
    // What older clients say of tasks is unknown to this era.
    bake["task"] = "x".into();
    let baked = line.ask("tools/call", takes_tasks(bake));
    assert_eq!(text(&baked), "baked");
    let lose = json!({ "name": "baker__lose", "arguments": {} });
    let made = line.ask("tools/call", takes_tasks(lose));
    let made = &made["result"];
    assert_eq!(
        (&made["resultType"], &made["status"]),
        (&json!("task"), &json!("working"))
    );
    let id = json!({ "taskId": made["taskId"] });
    // Whoever does not say that it takes tasks gets none, and is told nothing of others'.
    let refused = line.ask("tasks/get", modern(id.clone()));
    assert_eq!(refused["error"]["code"], -32021);
    assert_eq!(
        line.ask("tasks/list", takes_tasks(json!({})))["error"]["code"],
        -32601
    );
    assert_eq!(
        line.ask("tasks/result", takes_tasks(id.clone()))["error"]["code"],
        -32601
    );
    let unknown = line.ask("tasks/get", takes_tasks(json!({ "taskId": "x" })));
    assert_eq!(unknown["error"]["code"], -32602);

    let listening = json!({ "notifications": { "taskIds": [made["taskId"], "x"] } });
    line.send("subscriptions/listen", takes_tasks(listening));
    let agreed = line.hears("notifications/subscriptions/acknowledged");
    assert_eq!(
        agreed["params"]["notifications"],
        json!({ "taskIds": [made["taskId"]] })
    );
    assert_eq!(
        line.hears("notifications/tasks")["params"]["status"],
        "working"
    );
    let state = line.ask("tasks/get", takes_tasks(id.clone()));
    assert_eq!(state["result"]["status"], "working");
    assert_eq!(state["result"]["resultType"], "complete");
    let cancelled = line.ask("tasks/cancel", takes_tasks(id.clone()));
    assert_eq!(cancelled["result"], json!({ "resultType": "complete" }));
    assert_eq!(
        line.hears("notifications/tasks")["params"]["status"],
        "cancelled"
    );
    let state = line.ask("tasks/get", takes_tasks(id));
    assert_eq!(state["result"]["status"], "cancelled");
    until("the server is told", || {
        std::fs::read_to_string(&log)
            .unwrap()
            .contains("tasks/cancel")
    });
    assert_eq!(line.end(), 0);
    assert!(place.last_run().contains("unknown"), "{}", place.last_run());
}

#[test]
fn a_task_is_asked_about_over_http_by_who_names_it_in_the_head() {
    let (place, _) = baker();
    let served = Served::start(&place, &["--allow", "*"]);
    let lose = takes_tasks(json!({ "name": "baker__lose", "arguments": {} }));
    let made = served.modern("tools/call", lose);
    let id = made["result"]["taskId"]
        .as_str()
        .unwrap_or_else(|| panic!("{made}"));
    let ask = |method: &str, name: &str| {
        let head = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
            ("Mcp-Name", name),
        ];
        let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        message["params"] = takes_tasks(json!({ "taskId": id }));
        served.post(&message, &head)
    };
    assert_eq!(ask("tasks/get", "another").status, 400);
    assert_eq!(ask("tasks/get", id).json()["result"]["status"], "working");
    assert_eq!(ask("tasks/cancel", id).status, 200);
    assert_eq!(ask("tasks/get", id).json()["result"]["status"], "cancelled");
}

#[test]
fn a_tool_that_runs_as_a_task_only_is_for_every_client() {
    let place = Place::new();
    place.servers(&json!({ "all": Servers::installed().everything() }));
    let mut line = Line::start(&place, &["serve", "--allow", "*"]);
    let begun = line.begin("2025-11-25", json!({ "elicitation": {} }));
    assert_eq!(
        begun["result"]["capabilities"]["tasks"]["requests"]["tools"]["call"],
        json!({})
    );
    let listed = line.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "all__simulate-research-query");
    assert_eq!(
        tool.unwrap()["execution"],
        json!({ "taskSupport": "optional" })
    );

    // With a task of its own, and a question of the server in the middle of it.
    let mut call = json!({ "name": "all__simulate-research-query" });
    call["arguments"] = json!({ "topic": "python", "ambiguous": true });
    let mut as_task = call.clone();
    as_task["task"] = json!({ "ttl": 60_000 });
    let made = line.ask("tools/call", as_task);
    let task = &made["result"]["task"];
    assert_eq!(
        (&task["status"], &task["ttl"]),
        (&json!("working"), &json!(60_000))
    );
    let id = json!({ "taskId": task["taskId"] });
    let own = line.ask("tasks/list", json!({}));
    assert_eq!(own["result"]["tasks"][0]["taskId"], task["taskId"]);
    let waiting = line.send("tasks/result", id.clone());
    let asked = line.wait(waiting);
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], task["taskId"]);
    let schema = &asked["params"]["requestedSchema"]["properties"]["interpretation"]["oneOf"];
    let choice = schema[0]["const"].as_str().unwrap();
    let state = line.ask("tasks/get", id.clone());
    assert_eq!(state["result"]["status"], "input_required");
    let content = json!({ "action": "accept", "content": { "interpretation": choice } });
    line.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": content }));
    let done = line.wait(waiting);
    assert!(text(&done).contains(choice), "{done}");
    let related = &done["result"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], task["taskId"]);
    assert_eq!(
        line.ask("tasks/get", id.clone())["result"]["status"],
        "completed"
    );
    assert_eq!(line.ask("tasks/cancel", id)["error"]["code"], -32602);

    // And for one that knows nothing of tasks.
    call["arguments"] = json!({ "topic": "rust" });
    let plain = line.ask("tools/call", modern(call));
    assert!(text(&plain).contains("Research Report: rust"), "{plain}");
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
}

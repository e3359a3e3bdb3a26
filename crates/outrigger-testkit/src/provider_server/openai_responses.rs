//! The Responses API without storage: reasoning goes out encrypted and must come back unchanged.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::dialect::{Dialect, Said, list, named, pieces, text_of, unanswered};
use super::script::{Stop, StreamError};
use super::search::{Hidden, not_found};

pub(super) struct OpenAiResponses;

/// What the real API refuses about deferred tools and namespaces.
fn of_tools(body: &Value) -> Option<String> {
    let tools = list(body, "tools");
    if tools.len() > 128 {
        return Some(format!(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {} instead.",
            tools.len()
        ));
    }
    let searches = tools.iter().any(|tool| tool["type"] == "tool_search");
    if !searches && !OpenAiResponses.hidden(body).is_empty() {
        return Some("deferred tools need `tool_search` among the tools".to_owned());
    }
    if searches && OpenAiResponses.hidden(body).is_empty() {
        return Some("`tool_search` has nothing to search".to_owned());
    }
    let mut names = HashSet::new();
    for (index, space) in tools
        .iter()
        .enumerate()
        .filter(|(_, tool)| tool["type"] == "namespace")
    {
        let name = space["name"].as_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let fits = (1..=64).contains(&name.len()) && name.chars().all(plain);
        if !fits || !names.insert(name) {
            return Some(format!("Invalid 'tools[{index}].name'"));
        }
        if space["description"].as_str().is_none_or(str::is_empty)
            || list(space, "tools").is_empty()
        {
            return Some(format!("Missing required parameter in 'tools[{index}]'"));
        }
    }
    None
}

/// What it refuses about searches that were made before.
fn of_searches(body: &Value) -> Option<String> {
    let hidden = OpenAiResponses.hidden(body);
    let deferred: HashSet<&str> = hidden.iter().map(|tool| tool.name.as_str()).collect();
    let mut found = HashSet::new();
    let input = list(body, "input");
    for (index, item) in input.iter().enumerate() {
        let searches = item["type"] == "tool_search_call";
        if searches
            && input
                .get(index + 1)
                .is_none_or(|next| next["type"] != "tool_search_output")
        {
            return Some(format!("input[{index}]: the search has no output"));
        }
        let tools = list(item, "tools").iter();
        found.extend(
            tools
                .flat_map(|tool| list(tool, "tools"))
                .filter_map(|tool| tool["name"].as_str()),
        );
        if item["type"] != "function_call" {
            continue;
        }
        let name = item["name"].as_str().unwrap_or_default();
        if let Some(objection) = not_found(&deferred, &found, std::iter::once(name)) {
            return Some(format!("input[{index}]: {objection}"));
        }
        let is_grouped = deferred.contains(name);
        if is_grouped != item["namespace"].is_string() {
            return Some(format!(
                "input[{index}]: `{name}` has not the namespace it was called in"
            ));
        }
    }
    None
}

fn items(said: &Said<'_>) -> Vec<Value> {
    let turn = said.turn;
    let mut items = Vec::new();
    if turn.reasoning.is_some() {
        items.push(json!({
            "id": format!("rs_{}", said.number), "type": "reasoning", "summary": [],
            "encrypted_content": said.signature(),
        }));
    }
    items.extend(OpenAiResponses.searches(said));
    if let Some(text) = &turn.text {
        items.push(json!({
            "id": format!("msg_{}", said.number), "type": "message", "role": "assistant", "status": "completed",
            "phase": if turn.calls.is_empty() { "final_answer" } else { "commentary" },
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }));
    }
    for (index, call) in turn.calls.iter().enumerate() {
        let mut item = json!({
            "id": format!("fc_{}_{index}", said.number), "type": "function_call", "status": "completed",
            "call_id": said.call_id(index), "name": call.name, "arguments": call.written(),
        });
        let hidden = said.hidden.iter().find(|tool| tool.name == call.name);
        if let Some(group) = hidden.and_then(|tool| tool.group.as_ref()) {
            item["namespace"] = group["name"].clone();
        }
        items.push(item);
    }
    items
}

impl Dialect for OpenAiResponses {
    fn events(&self, said: &Said<'_>) -> Vec<String> {
        let mut events = vec![named(
            &json!({ "type": "response.created", "response": { "id": "resp_1" } }),
        )];
        for (index, item) in items(said).into_iter().enumerate() {
            let mut opened = item.clone();
            for key in ["content", "arguments", "encrypted_content"] {
                if let Some(fields) = opened.as_object_mut() {
                    fields.remove(key);
                }
            }
            events.push(named(&json!({ "type": "response.output_item.added", "output_index": index, "item": opened })));
            let (kind, text) = match item["type"].as_str() {
                Some("reasoning") => (
                    "response.reasoning_summary_text.delta",
                    said.turn.reasoning.clone(),
                ),
                Some("message") => ("response.output_text.delta", said.turn.text.clone()),
                _ => (
                    "response.function_call_arguments.delta",
                    item["arguments"].as_str().map(str::to_owned),
                ),
            };
            for piece in pieces(&text.unwrap_or_default()) {
                events.push(named(
                    &json!({ "type": kind, "output_index": index, "delta": piece }),
                ));
            }
            events.push(named(&json!({ "type": "response.output_item.done", "output_index": index, "item": item })));
        }
        events
    }

    fn end(&self, said: &Said<'_>) -> Vec<String> {
        let reason = match said.turn.stop {
            Stop::Done | Stop::Paused => None,
            Stop::Length => Some("max_output_tokens"),
            Stop::Refused => Some("content_filter"),
        };
        let usage = said.turn.usage;
        let kind = if reason.is_none() {
            "response.completed"
        } else {
            "response.incomplete"
        };
        vec![named(&json!({
            "type": kind,
            "response": {
                "id": "resp_1",
                "status": kind.trim_start_matches("response."),
                "incomplete_details": reason.map(|reason| json!({ "reason": reason })),
                "output": items(said),
                "usage": {
                    "input_tokens": usage.input,
                    "input_tokens_details": { "cached_tokens": usage.cached },
                    "output_tokens": usage.output,
                },
            },
        }))]
    }

    fn error_body(&self, status: u16, message: &str) -> Value {
        let kind = if status >= 500 {
            "server_error"
        } else {
            "invalid_request_error"
        };
        json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
    }

    fn error_event(&self, error: StreamError, message: &str) -> String {
        let code = match error {
            StreamError::Overloaded => "server_error",
            StreamError::RateLimited => "rate_limit_exceeded",
        };
        let error = json!({ "code": code, "message": message });
        named(
            &json!({ "type": "response.failed", "response": { "status": "failed", "error": error } }),
        )
    }

    fn objection(&self, body: &Value) -> Option<String> {
        if body["store"] != false {
            return Some("this server does not store: `store` must be false".to_owned());
        }
        if let Some(objection) = of_tools(body).or_else(|| of_searches(body)) {
            return Some(objection);
        }
        let input = list(body, "input");
        let ids = |kind: &str| -> Vec<&str> {
            input
                .iter()
                .filter(|item| item["type"] == kind)
                .filter_map(|item| item["call_id"].as_str())
                .collect()
        };
        let lost = input
            .iter()
            .find(|item| item["type"] == "reasoning" && !item["encrypted_content"].is_string());
        if let Some(item) = lost {
            return Some(format!(
                "Item with id '{}' not found.",
                item["id"].as_str().unwrap_or_default()
            ));
        }
        unanswered(&ids("function_call"), &ids("function_call_output"))
    }

    fn hidden(&self, body: &Value) -> Vec<Hidden> {
        let mut hidden = Vec::new();
        for entry in list(body, "tools") {
            let group = (entry["type"] == "namespace").then(|| entry.clone());
            let tools = match &group {
                Some(_) => list(entry, "tools"),
                None => std::slice::from_ref(entry),
            };
            for tool in tools.iter().filter(|tool| tool["defer_loading"] == true) {
                hidden.push(Hidden {
                    name: tool["name"].as_str().unwrap_or_default().to_owned(),
                    group: group.clone(),
                    definition: tool.clone(),
                });
            }
        }
        hidden
    }

    fn searches(&self, said: &Said<'_>) -> Vec<Value> {
        let mut items = Vec::new();
        for (index, searched) in said.searched().into_iter().enumerate() {
            let mut tools: Vec<Value> = Vec::new();
            for tool in searched.found {
                let Some(mut group) = tool.group else {
                    tools.push(tool.definition);
                    continue;
                };
                let known = tools
                    .iter_mut()
                    .find(|known| known["name"] == group["name"]);
                if let Some(Value::Array(of_group)) = known.map(|known| &mut known["tools"]) {
                    of_group.push(tool.definition);
                } else {
                    group["tools"] = json!([tool.definition]);
                    tools.push(group);
                }
            }
            let paths: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
            items.push(json!({
                "id": format!("tsc_{}_{index}", said.number), "type": "tool_search_call", "execution": "server",
                "call_id": null, "status": "completed", "arguments": { "paths": paths },
            }));
            items.push(json!({
                "id": format!("tso_{}_{index}", said.number), "type": "tool_search_output", "execution": "server",
                "call_id": null, "status": "completed", "tools": tools,
            }));
        }
        items
    }

    fn results(&self, body: &Value) -> Vec<String> {
        let outputs = |item: &&Value| item["type"] == "function_call_output";
        let mut texts: Vec<String> = list(body, "input")
            .iter()
            .rev()
            .skip_while(|item| item["role"] == "user")
            .take_while(outputs)
            .map(|item| text_of(&item["output"]))
            .collect();
        texts.reverse();
        texts
    }

    fn question(&self, body: &Value) -> Option<String> {
        let user = list(body, "input")
            .iter()
            .rfind(|item| item["role"] == "user")?;
        Some(text_of(&user["content"]))
    }
}

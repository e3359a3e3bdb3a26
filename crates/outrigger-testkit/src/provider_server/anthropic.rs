//! The Messages API, with thinking that is signed.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::dialect::{Dialect, Said, list, named, pieces, text_of, unanswered};
use super::script::{Stop, StreamError};
use super::search::{Hidden, not_found};

pub(super) struct Anthropic;

const SEARCH: &str = "tool_search_tool_bm25";
const SEARCH_TYPE: &str = "tool_search_tool_bm25_20251119";
const RESULT: &str = "tool_search_tool_result";

fn is_deferred(tool: &Value) -> bool {
    tool["defer_loading"] == true
}

/// What the real API refuses about deferred tools, in its words where they are known.
fn of_tools(body: &Value) -> Option<String> {
    let tools = list(body, "tools");
    let searches = |tool: &&Value| tool["type"] == SEARCH_TYPE && tool["name"] == SEARCH;
    if tools.iter().any(is_deferred) && !tools.iter().any(|tool| searches(&tool)) {
        return Some("tools: defer_loading without a tool search tool".to_owned());
    }
    if !tools.is_empty() && tools.iter().all(is_deferred) {
        return Some("At least one tool must have defer_loading=false".to_owned());
    }
    for tool in tools.iter().filter(|tool| is_deferred(tool)) {
        let name = tool["name"].as_str().unwrap_or_default();
        if tool["name"] == SEARCH {
            return Some(format!("tools: '{name}' may not set defer_loading"));
        }
        if tool.get("cache_control").is_some() {
            return Some(format!(
                "Tool '{name}' cannot have both defer_loading=true and cache_control set. Tools with defer_loading cannot use prompt caching."
            ));
        }
    }
    (tools.len() > 10_000).then(|| "tools: at most 10000 items".to_owned())
}

/// What it refuses about searches that were made before.
fn of_searches(body: &Value) -> Option<String> {
    let tools = list(body, "tools").iter();
    let deferred: HashSet<&str> = tools
        .filter(|tool| is_deferred(tool))
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let mut found = HashSet::new();
    for (index, message) in list(body, "messages").iter().enumerate() {
        let content = list(message, "content");
        for block in content
            .iter()
            .filter(|block| block["type"] == "server_tool_use")
        {
            let answered =
                |other: &Value| other["type"] == RESULT && other["tool_use_id"] == block["id"];
            if deferred.is_empty() || !content.iter().any(answered) {
                return Some(format!(
                    "messages.{index}: a server_tool_use without its result or its tool"
                ));
            }
        }
        let references = content
            .iter()
            .filter_map(|block| block["content"]["tool_references"].as_array());
        for reference in references.flatten() {
            let name = reference["tool_name"].as_str().unwrap_or_default();
            if !deferred.contains(name) {
                return Some(format!(
                    "Tool reference '{name}' not found in available tools"
                ));
            }
            found.insert(name);
        }
        let uses = content.iter().filter(|block| block["type"] == "tool_use");
        let called = uses.filter_map(|block| block["name"].as_str());
        if let Some(objection) = not_found(&deferred, &found, called) {
            return Some(format!("messages.{index}: {objection}"));
        }
    }
    None
}

fn block(events: &mut Vec<String>, index: &mut usize, start: &Value, deltas: &[Value]) {
    events.push(named(
        &json!({ "type": "content_block_start", "index": *index, "content_block": start }),
    ));
    for delta in deltas {
        events.push(named(
            &json!({ "type": "content_block_delta", "index": *index, "delta": delta }),
        ));
    }
    events.push(named(
        &json!({ "type": "content_block_stop", "index": *index }),
    ));
    *index += 1;
}

fn deltas(kind: &str, key: &str, text: &str) -> Vec<Value> {
    pieces(text)
        .iter()
        .map(|piece| json!({ "type": kind, key: piece }))
        .collect()
}

impl Dialect for Anthropic {
    fn events(&self, said: &Said<'_>) -> Vec<String> {
        let (turn, usage) = (said.turn, said.turn.usage);
        // A third of what is not read from the cache is written to it, so that both are seen.
        let written = (usage.input - usage.cached) / 3;
        let counts = json!({
            "input_tokens": usage.input - usage.cached - written,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": written,
            "output_tokens": 1,
        });
        let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": counts });
        let mut events = vec![named(
            &json!({ "type": "message_start", "message": message }),
        )];
        events.push(named(&json!({ "type": "ping" })));
        let mut index = 0;
        if let Some(reasoning) = &turn.reasoning {
            let mut all = deltas("thinking_delta", "thinking", reasoning);
            all.push(json!({ "type": "signature_delta", "signature": said.signature() }));
            block(
                &mut events,
                &mut index,
                &json!({ "type": "thinking", "thinking": "", "signature": "" }),
                &all,
            );
        }
        for block_said in self.searches(said) {
            let mut start = block_said.clone();
            let mut all = Vec::new();
            if start["type"] == "server_tool_use" {
                let input = start["input"].take().to_string();
                start["input"] = json!({});
                all = deltas("input_json_delta", "partial_json", &input);
            }
            block(&mut events, &mut index, &start, &all);
        }
        if let Some(text) = &turn.text {
            let all = deltas("text_delta", "text", text);
            block(
                &mut events,
                &mut index,
                &json!({ "type": "text", "text": "" }),
                &all,
            );
        }
        for (number, call) in turn.calls.iter().enumerate() {
            let start = json!({ "type": "tool_use", "id": said.call_id(number), "name": call.name, "input": {} });
            let all = deltas("input_json_delta", "partial_json", &call.written());
            block(&mut events, &mut index, &start, &all);
        }
        events
    }

    fn end(&self, said: &Said<'_>) -> Vec<String> {
        let reason = match said.turn.stop {
            Stop::Done if !said.turn.calls.is_empty() => "tool_use",
            Stop::Done => "end_turn",
            Stop::Length => "max_tokens",
            Stop::Refused => "refusal",
            Stop::Paused => "pause_turn",
        };
        let usage = json!({ "output_tokens": said.turn.usage.output });
        let delta = json!({ "stop_reason": reason, "stop_sequence": null });
        vec![
            named(&json!({ "type": "message_delta", "delta": delta, "usage": usage })),
            named(&json!({ "type": "message_stop" })),
        ]
    }

    fn error_body(&self, status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": message } })
    }

    fn error_event(&self, error: StreamError, message: &str) -> String {
        let kind = match error {
            StreamError::Overloaded => "overloaded_error",
            StreamError::RateLimited => "rate_limit_error",
        };
        named(&json!({ "type": "error", "error": { "type": kind, "message": message } }))
    }

    fn objection(&self, body: &Value) -> Option<String> {
        if !body["max_tokens"].is_u64() {
            return Some("max_tokens: Field required".to_owned());
        }
        if let Some(objection) = of_tools(body).or_else(|| of_searches(body)) {
            return Some(objection);
        }
        let messages = list(body, "messages");
        for (index, message) in messages.iter().enumerate() {
            let role = if index % 2 == 0 { "user" } else { "assistant" };
            if message["role"] != role {
                return Some(format!(
                    "messages.{index}: roles must alternate between user and assistant"
                ));
            }
            let content = list(message, "content");
            if content
                .iter()
                .any(|block| block["type"] == "text" && text_of(&json!([block])).is_empty())
            {
                return Some(format!(
                    "messages.{index}: text content blocks must be non-empty"
                ));
            }
            let uses = content.iter().filter(|block| block["type"] == "tool_use");
            let calls: Vec<&str> = uses.filter_map(|block| block["id"].as_str()).collect();
            let next = messages
                .get(index + 1)
                .map_or(&[][..], |next| list(next, "content"));
            let results: Vec<&str> = next
                .iter()
                .filter(|block| block["type"] == "tool_result")
                .filter_map(|block| block["tool_use_id"].as_str())
                .collect();
            if let Some(objection) = unanswered(&calls, &results) {
                return Some(format!("messages.{index}: {objection}"));
            }
        }
        let breakpoints = body.to_string().matches("cache_control").count();
        (breakpoints > 4).then(|| {
            format!("a maximum of 4 blocks with cache_control may be provided, found {breakpoints}")
        })
    }

    fn hidden(&self, body: &Value) -> Vec<Hidden> {
        let tools = list(body, "tools").iter().filter(|tool| is_deferred(tool));
        let hidden = |tool: &Value| {
            Some(Hidden {
                name: tool["name"].as_str()?.to_owned(),
                group: None,
                definition: tool.clone(),
            })
        };
        tools.filter_map(hidden).collect()
    }

    fn searches(&self, said: &Said<'_>) -> Vec<Value> {
        let mut blocks = Vec::new();
        for (index, searched) in said.searched().into_iter().enumerate() {
            let id = format!("srvtoolu_{}_{index}", said.number);
            blocks.push(json!({
                "type": "server_tool_use", "id": id, "name": SEARCH, "input": { "query": searched.query },
                "caller": { "type": "direct" },
            }));
            let references: Vec<Value> = searched
                .found
                .iter()
                .map(|tool| json!({ "type": "tool_reference", "tool_name": tool.name }))
                .collect();
            let content =
                json!({ "type": "tool_search_tool_search_result", "tool_references": references });
            blocks.push(json!({ "type": RESULT, "tool_use_id": id, "content": content }));
        }
        blocks
    }

    fn results(&self, body: &Value) -> Vec<String> {
        let messages = list(body, "messages");
        let last = messages.iter().rev();
        let last = last.take_while(|message| message["role"] == "user");
        let blocks = last.map(|message| list(message, "content"));
        let is_result = |block: &&Value| block["type"] == "tool_result";
        let results = blocks.map(|blocks| blocks.iter().filter(is_result).collect::<Vec<_>>());
        let results = results.into_iter().find(|results| !results.is_empty());
        let results = results.unwrap_or_default().into_iter();
        results.map(|block| text_of(&block["content"])).collect()
    }

    fn question(&self, body: &Value) -> Option<String> {
        let users = list(body, "messages")
            .iter()
            .rev()
            .filter(|message| message["role"] == "user");
        users
            .map(|user| text_of(&user["content"]))
            .find(|text| !text.is_empty())
    }
}

//! The Responses API without storage: reasoning goes out encrypted and must come back unchanged.

use serde_json::{Value, json};

use super::dialect::{Dialect, Said, list, named, pieces, text_of, unanswered};
use super::script::{Stop, StreamError};

pub(super) struct OpenAiResponses;

fn items(said: &Said<'_>) -> Vec<Value> {
    let turn = said.turn;
    let mut items = Vec::new();
    if turn.reasoning.is_some() {
        items.push(json!({
            "id": format!("rs_{}", said.number), "type": "reasoning", "summary": [],
            "encrypted_content": said.signature(),
        }));
    }
    if let Some(text) = &turn.text {
        items.push(json!({
            "id": format!("msg_{}", said.number), "type": "message", "role": "assistant", "status": "completed",
            "phase": if turn.calls.is_empty() { "final_answer" } else { "commentary" },
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }));
    }
    for (index, call) in turn.calls.iter().enumerate() {
        items.push(json!({
            "id": format!("fc_{}_{index}", said.number), "type": "function_call", "status": "completed",
            "call_id": said.call_id(index), "name": call.name, "arguments": call.written(),
        }));
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
            Stop::Done => None,
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

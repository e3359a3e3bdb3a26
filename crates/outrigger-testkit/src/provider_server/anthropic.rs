//! The Messages API, with thinking that is signed.

use serde_json::{Value, json};

use super::dialect::{Dialect, Said, list, named, pieces, text_of, unanswered};
use super::script::{Stop, StreamError};

pub(super) struct Anthropic;

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

//! Chat Completions, as DeepSeek speaks it: with `reasoning_content`.

use serde_json::{Value, json};

use super::dialect::{Dialect, Said, data, list, pieces, text_of, unanswered};
use super::script::{Stop, StreamError};

pub(super) struct OpenAiChat;

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    data(&json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    }))
}

impl Dialect for OpenAiChat {
    fn events(&self, said: &Said<'_>) -> Vec<String> {
        let turn = said.turn;
        let mut events = vec![chunk(&json!({ "role": "assistant", "content": "" }), None)];
        for piece in pieces(turn.reasoning.as_deref().unwrap_or_default()) {
            events.push(chunk(
                &json!({ "reasoning_content": piece, "content": null }),
                None,
            ));
        }
        for piece in pieces(turn.text.as_deref().unwrap_or_default()) {
            events.push(chunk(&json!({ "content": piece }), None));
        }
        for (index, call) in turn.calls.iter().enumerate() {
            let function = json!({ "name": call.name, "arguments": "" });
            let begin = json!({ "index": index, "id": said.call_id(index), "type": "function", "function": function });
            events.push(chunk(&json!({ "tool_calls": [begin] }), None));
        }
        // Parallel calls grow side by side.
        let written: Vec<Vec<String>> = turn
            .calls
            .iter()
            .map(|call| pieces(&call.written()))
            .collect();
        for step in 0..written.iter().map(Vec::len).max().unwrap_or(0) {
            for (index, pieces) in written.iter().enumerate() {
                if let Some(piece) = pieces.get(step) {
                    let more = json!({ "index": index, "function": { "arguments": piece } });
                    events.push(chunk(&json!({ "tool_calls": [more] }), None));
                }
            }
        }
        events
    }

    fn end(&self, said: &Said<'_>) -> Vec<String> {
        let reason = match said.turn.stop {
            Stop::Done if !said.turn.calls.is_empty() => "tool_calls",
            Stop::Done | Stop::Paused => "stop",
            Stop::Length => "length",
            Stop::Refused => "content_filter",
        };
        let usage = said.turn.usage;
        let counts = json!({
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": { "cached_tokens": usage.cached },
        });
        let usage = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": counts });
        vec![
            chunk(&json!({}), Some(reason)),
            data(&usage),
            "data: [DONE]\n\n".to_owned(),
        ]
    }

    fn error_body(&self, status: u16, message: &str) -> Value {
        let code = match status {
            401 => json!("invalid_api_key"),
            429 => json!("rate_limit_exceeded"),
            _ => Value::Null,
        };
        let kind = if status >= 500 {
            "server_error"
        } else {
            "invalid_request_error"
        };
        json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
    }

    fn error_event(&self, error: StreamError, message: &str) -> String {
        let code = match error {
            StreamError::Overloaded => 503,
            StreamError::RateLimited => 429,
        };
        data(&json!({ "error": { "code": code, "message": message } }))
    }

    fn objection(&self, body: &Value) -> Option<String> {
        let messages = list(body, "messages");
        let mut rest = messages;
        while let Some((message, after)) = rest.split_first() {
            let results: Vec<&str> = after
                .iter()
                .take_while(|next| next["role"] == "tool")
                .filter_map(|result| result["tool_call_id"].as_str())
                .collect();
            let calls: Vec<&str> = list(message, "tool_calls")
                .iter()
                .filter_map(|call| call["id"].as_str())
                .collect();
            if message["role"] != "tool"
                && let Some(objection) = unanswered(&calls, &results)
            {
                return Some(objection);
            }
            rest = after;
        }
        messages
            .is_empty()
            .then(|| "`messages` must not be empty".to_owned())
    }

    fn results(&self, body: &Value) -> Vec<String> {
        let tools = |message: &&Value| message["role"] == "tool";
        let mut texts: Vec<String> = list(body, "messages")
            .iter()
            .rev()
            .skip_while(|message| message["role"] == "user")
            .take_while(tools)
            .map(|result| text_of(&result["content"]))
            .collect();
        texts.reverse();
        texts
    }

    fn question(&self, body: &Value) -> Option<String> {
        let user = list(body, "messages")
            .iter()
            .rfind(|message| message["role"] == "user")?;
        Some(text_of(&user["content"]))
    }
}

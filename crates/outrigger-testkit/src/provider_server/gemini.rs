//! `streamGenerateContent`: calls without ids, signatures on parts.

use serde_json::{Value, json};

use super::dialect::{Dialect, Said, data, list, pieces, text_of};
use super::script::{Stop, StreamError};

pub(super) struct Gemini;

fn chunk(parts: &Value) -> String {
    data(&json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "index": 0 }],
        "modelVersion": "scripted",
    }))
}

/// A call's arguments must be an object here; text that is none cannot be said.
fn args(written: &str) -> Value {
    serde_json::from_str(written).unwrap_or_else(|_| json!({}))
}

impl Dialect for Gemini {
    fn events(&self, said: &Said<'_>) -> Vec<String> {
        let turn = said.turn;
        let mut events = Vec::new();
        for piece in pieces(turn.reasoning.as_deref().unwrap_or_default()) {
            events.push(chunk(&json!([{ "text": piece, "thought": true }])));
        }
        for piece in pieces(turn.text.as_deref().unwrap_or_default()) {
            events.push(chunk(&json!([{ "text": piece }])));
        }
        let mut parts: Vec<Value> = turn
            .calls
            .iter()
            .map(|call| json!({ "functionCall": { "name": call.name, "args": args(&call.written()) } }))
            .collect();
        if turn.reasoning.is_some() {
            match parts.first_mut() {
                // Of parallel calls only the first is signed.
                Some(first) => first["thoughtSignature"] = json!(said.signature()),
                None => events.push(chunk(
                    &json!([{ "text": "", "thoughtSignature": said.signature() }]),
                )),
            }
        }
        if !parts.is_empty() {
            events.push(chunk(&Value::Array(parts)));
        }
        events
    }

    fn end(&self, said: &Said<'_>) -> Vec<String> {
        let reason = match said.turn.stop {
            Stop::Done | Stop::Paused => "STOP",
            Stop::Length => "MAX_TOKENS",
            Stop::Refused => "SAFETY",
        };
        let usage = said.turn.usage;
        let thoughts = usage.output / 2;
        vec![data(&json!({
            "candidates": [{ "content": { "role": "model", "parts": [] }, "finishReason": reason, "index": 0 }],
            "usageMetadata": {
                "promptTokenCount": usage.input,
                "cachedContentTokenCount": usage.cached,
                "candidatesTokenCount": usage.output - thoughts,
                "thoughtsTokenCount": thoughts,
            },
        }))]
    }

    fn error_body(&self, status: u16, message: &str) -> Value {
        let word = match status {
            400 => "INVALID_ARGUMENT",
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            _ => "INTERNAL",
        };
        json!({ "error": { "code": status, "message": message, "status": word } })
    }

    fn error_event(&self, error: StreamError, message: &str) -> String {
        let status = match error {
            StreamError::Overloaded => 503,
            StreamError::RateLimited => 429,
        };
        data(&self.error_body(status, message))
    }

    fn objection(&self, body: &Value) -> Option<String> {
        // What is declared as `parametersJsonSchema` may have all of JSON Schema.
        let tools = list(body, "tools").iter();
        let declared = tools.flat_map(|tool| list(tool, "functionDeclarations"));
        let text: String = declared
            .map(|declaration| declaration["parameters"].to_string())
            .collect();
        if let Some(key) = ["\"$schema\"", "\"additionalProperties\"", "\"$ref\""]
            .iter()
            .find(|key| text.contains(**key))
        {
            return Some(format!(
                "Invalid JSON payload received. Unknown name {key}: Cannot find field."
            ));
        }
        let contents = list(body, "contents");
        let count = |content: &Value, key: &str| {
            list(content, "parts")
                .iter()
                .filter(|part| part.get(key).is_some())
                .count()
        };
        for (index, content) in contents.iter().enumerate() {
            let role = if index % 2 == 0 { "user" } else { "model" };
            if content["role"] != role {
                return Some(format!("contents[{index}]: roles must alternate"));
            }
            let answered = contents
                .get(index + 1)
                .map_or(0, |next| count(next, "functionResponse"));
            if count(content, "functionCall") != answered {
                return Some(
                    "the number of function response parts must equal that of function call parts"
                        .to_owned(),
                );
            }
        }
        None
    }

    fn results(&self, body: &Value) -> Vec<String> {
        let contents = list(body, "contents").iter().rev();
        let last = contents.take_while(|content| content["role"] == "user");
        let responses = last.map(|content| {
            let parts = list(content, "parts").iter();
            let responses = parts.filter_map(|part| part.pointer("/functionResponse/response"));
            responses.collect::<Vec<_>>()
        });
        let responses = responses
            .into_iter()
            .find(|responses| !responses.is_empty());
        let responses = responses.unwrap_or_default().into_iter();
        responses
            .map(|response| text_of(response.get("output").unwrap_or(&response["error"])))
            .collect()
    }

    fn question(&self, body: &Value) -> Option<String> {
        let users = list(body, "contents")
            .iter()
            .rev()
            .filter(|content| content["role"] == "user");
        users
            .map(|user| text_of(&user["parts"]))
            .find(|text| !text.is_empty())
    }
}

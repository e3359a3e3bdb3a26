//! `sampling/createMessage`, taken apart and bounded.
//!
//! Promises: what is shown to a person is all that the model is asked. Tools, sound and wishes for
//! context of other servers are refused or not granted; the model and its temperature are this
//! side's choice (MCP, "Sampling", which lets the client decide).

use async_trait::async_trait;
use outrigger_connect::Refusal;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Tokens that one answer may have, whatever the server wants.
const MAX_TOKENS: u32 = 4096;
/// Bytes of text that the model may be asked at a time.
const MAX_BYTES: usize = 64 << 10;
/// Times that all servers of a run may ask the model.
pub(super) const MAX_REQUESTS: u32 = 8;

/// What a server wants the model to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingRequest {
    /// The server's instructions to the model.
    pub system: Option<String>,
    /// The conversation, in order.
    pub messages: Vec<SampledMessage>,
    /// Tokens that the answer may have, bounded already.
    pub max_tokens: u32,
}

/// One message of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledMessage {
    /// Said by the model; else by a user.
    pub by_model: bool,
    /// What was said.
    pub text: String,
}

/// What the model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// `provider:name`.
    pub model: String,
    /// The text.
    pub text: String,
    /// It was cut at the limit of tokens.
    pub cut: bool,
    /// Tokens read and written.
    pub tokens: (u64, u64),
}

/// The model of a run, for servers.
#[async_trait]
pub trait Sampler: Send + Sync {
    /// Asks it. The error is worded for the server.
    async fn complete(&self, request: &SamplingRequest) -> Result<Completion, String>;
}

#[derive(Deserialize)]
struct Params {
    messages: Vec<Written>,
    #[serde(rename = "systemPrompt", default)]
    system: Option<String>,
    #[serde(rename = "maxTokens", default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Written {
    role: String,
    content: Value,
}

impl SamplingRequest {
    pub(super) fn read(params: &RawValue) -> Result<Self, Refusal> {
        let Params {
            messages,
            system,
            max_tokens,
            tools,
        } = serde_json::from_str(params.get()).map_err(|error| {
            Refusal(format!(
                "the parameters of `sampling/createMessage` cannot be used: {error}"
            ))
        })?;
        if tools.is_some_and(|tools| !tools.is_empty()) {
            return Err(Refusal(
                "sampling with tools is not offered here".to_owned(),
            ));
        }
        let messages = messages
            .iter()
            .map(SampledMessage::read)
            .collect::<Result<Vec<_>, _>>()?;
        if messages.is_empty() {
            return Err(Refusal("`messages` is empty".to_owned()));
        }
        let texts = messages.iter().map(|message| message.text.len());
        let bytes = texts.sum::<usize>() + system.as_ref().map_or(0, String::len);
        if bytes > MAX_BYTES {
            return Err(Refusal(format!(
                "the messages have {bytes} bytes; {MAX_BYTES} are the limit"
            )));
        }
        let wanted = max_tokens.and_then(|tokens| u32::try_from(tokens).ok());
        Ok(Self {
            system: system.filter(|text| !text.is_empty()),
            messages,
            max_tokens: wanted.unwrap_or(MAX_TOKENS).clamp(1, MAX_TOKENS),
        })
    }

    /// One line for the journal.
    pub(super) fn summary(&self) -> String {
        let last = self.messages.last().map_or("", |message| &message.text);
        format!(
            "{} messages, up to {} tokens: {}",
            self.messages.len(),
            self.max_tokens,
            crate::text::shorten(last, 200)
        )
    }
}

impl SampledMessage {
    fn read(written: &Written) -> Result<Self, Refusal> {
        let by_model = match written.role.as_str() {
            "user" => false,
            "assistant" => true,
            _ => return Err(Refusal("a `role` is neither user nor assistant".to_owned())),
        };
        let blocks = match &written.content {
            Value::Array(blocks) => blocks.iter().collect(),
            block => vec![block],
        };
        let texts = blocks.into_iter().map(|block| {
            let text = block["text"].as_str().filter(|_| block["type"] == "text");
            text.ok_or_else(|| Refusal("only text can be sampled here".to_owned()))
        });
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            by_model,
            text: texts.join("\n"),
        })
    }
}

impl Completion {
    /// A `CreateMessageResult`.
    pub(super) fn result(&self) -> Result<Box<RawValue>, Refusal> {
        let result = json!({
            "role": "assistant",
            "content": { "type": "text", "text": self.text },
            "model": self.model,
            "stopReason": if self.cut { "maxTokens" } else { "endTurn" },
        });
        serde_json::value::to_raw_value(&result).map_err(|error| Refusal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: &Value) -> Result<SamplingRequest, String> {
        let raw = serde_json::value::to_raw_value(params).unwrap();
        SamplingRequest::read(&raw).map_err(|refusal| refusal.0)
    }

    #[test]
    fn what_is_asked_is_bounded() {
        let text = json!({ "type": "text", "text": "Hi" });
        let asked = json!({ "messages": [{ "role": "user", "content": text }], "maxTokens": 9_000_000_000_u64 });
        let request = read(&asked).unwrap();
        assert_eq!(request.max_tokens, MAX_TOKENS);
        assert_eq!(request.messages[0].text, "Hi");
        for (params, word) in [
            (json!({}), "messages"),
            (json!({ "messages": [] }), "empty"),
            (
                json!({ "messages": [{ "role": "system", "content": text }] }),
                "role",
            ),
            (
                json!({ "messages": [{ "role": "user", "content": { "type": "audio", "data": "" } }] }),
                "only text",
            ),
            (
                json!({ "messages": [{ "role": "user", "content": text }], "tools": [{}] }),
                "tools",
            ),
            (
                json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "x".repeat(MAX_BYTES + 1) } }] }),
                "limit",
            ),
        ] {
            let refusal = read(&params).unwrap_err();
            assert!(refusal.contains(word), "{refusal}");
        }
    }
}

//! What the four protocols have in common, seen from the server.

use serde::Serialize;
use serde_json::Value;

use super::script::{StreamError, Turn};
use super::search::{Hidden, Searched, searched};
use super::{anthropic, gemini, openai_chat, openai_responses};

/// The protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// `…/chat/completions`
    OpenAiChat,
    /// `…/responses`
    OpenAiResponses,
    /// `…/messages`
    Anthropic,
    /// `…/models/NAME:streamGenerateContent`
    Gemini,
}

impl Protocol {
    pub(super) fn of_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::OpenAiChat)
        } else if path.ends_with("/responses") {
            Some(Self::OpenAiResponses)
        } else if path.ends_with("/messages") {
            Some(Self::Anthropic)
        } else {
            path.ends_with(":streamGenerateContent")
                .then_some(Self::Gemini)
        }
    }
}

/// A turn about to be said, and the number of its request (from 1), which makes ids unique.
pub(super) struct Said<'a> {
    pub(super) turn: &'a Turn,
    pub(super) number: usize,
    /// The deferred tools of the request.
    pub(super) hidden: Vec<Hidden>,
}

impl Said<'_> {
    /// The id of the turn's call number `index`.
    pub(super) fn call_id(&self, index: usize) -> String {
        format!("call_{}_{index}", self.number)
    }

    /// What the turn's searches find.
    pub(super) fn searched(&self) -> Vec<Searched> {
        searched(&self.turn.searches, &self.hidden)
    }

    /// What proves to the provider that the reasoning is its own.
    pub(super) fn signature(&self) -> String {
        format!("c2lnbmF0dXJl+{}/=", self.number)
    }
}

/// One protocol.
pub(super) trait Dialect: Sync {
    /// The events up to the end of what the turn says.
    fn events(&self, said: &Said<'_>) -> Vec<String>;

    /// The events that end the turn.
    fn end(&self, said: &Said<'_>) -> Vec<String>;

    /// The body of an error answer.
    fn error_body(&self, status: u16, message: &str) -> Value;

    /// An error inside the stream.
    fn error_event(&self, error: StreamError, message: &str) -> String;

    /// What the real provider would refuse about this request.
    fn objection(&self, body: &Value) -> Option<String>;

    /// The deferred tools of a request.
    fn hidden(&self, body: &Value) -> Vec<Hidden> {
        let _ = body;
        Vec::new()
    }

    /// What the turn says of its searches, as it has to come back.
    fn searches(&self, said: &Said<'_>) -> Vec<Value> {
        let _ = said;
        Vec::new()
    }

    /// The texts of the tool results that the request ends with.
    fn results(&self, body: &Value) -> Vec<String>;

    /// The last text that the person said.
    fn question(&self, body: &Value) -> Option<String>;
}

pub(super) fn dialect(protocol: Protocol) -> &'static dyn Dialect {
    match protocol {
        Protocol::OpenAiChat => &openai_chat::OpenAiChat,
        Protocol::OpenAiResponses => &openai_responses::OpenAiResponses,
        Protocol::Anthropic => &anthropic::Anthropic,
        Protocol::Gemini => &gemini::Gemini,
    }
}

/// An event with only data.
pub(super) fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// An event named like its `type`.
pub(super) fn named(value: &Value) -> String {
    format!(
        "event: {}\ndata: {value}\n\n",
        value["type"].as_str().unwrap_or("message")
    )
}

/// Text in the small pieces in which models stream it.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(5)
        .map(|chunk| chunk.iter().collect())
        .collect()
}

/// A list of the body, empty when it is missing.
pub(super) fn list<'a>(body: &'a Value, key: &str) -> &'a [Value] {
    body.get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Text that is a string, or a list of parts with `text`.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// Says which of `wanted` is missing or out of place in `given`.
pub(super) fn unanswered(wanted: &[&str], given: &[&str]) -> Option<String> {
    let missing = wanted.iter().find(|id| !given.contains(*id));
    let unknown = given.iter().find(|id| !wanted.contains(*id));
    missing
        .map(|id| format!("the call `{id}` has no result right after it"))
        .or_else(|| {
            unknown.map(|id| format!("the result `{id}` belongs to no call right before it"))
        })
}

//! Google's Gemini API: `streamGenerateContent` as server-sent events.
//!
//! Calls may come without ids, so ids are made up and matched by place. Thought signatures go back
//! in the part they came in. All results of one turn go together into one content, roles alternate.

mod body;

use std::collections::VecDeque;

use outrigger_model::{
    AssistantTurn, ModelErrorKind, ModelEvent, ModelRequest, StopReason, ToolCall, ToolDeclaration,
    Usage,
};
use outrigger_schemas::Family;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ProviderSpec;
use super::failure::{Failure, ProviderWords};
use super::history::{CallIds, carry};
use super::wire::{Decoder, Progress, Wire, Written, parse};

/// The format for one model.
pub(super) struct Gemini {
    id: String,
    model: String,
    sees_images: bool,
}

impl Gemini {
    pub(super) fn new(spec: &ProviderSpec, sees_images: bool) -> Self {
        Self {
            id: spec.id.clone(),
            model: spec.model.clone(),
            sees_images,
        }
    }

    /// The path behind the API's version.
    pub(super) fn path(model: &str) -> String {
        format!(
            "models/{}:streamGenerateContent",
            model.trim_start_matches("models/")
        )
    }
}

impl Wire for Gemini {
    fn family(&self) -> Family {
        Family::Gemini
    }

    fn declare(&self, tool: &ToolDeclaration, schema: Option<&Value>) -> Value {
        let mut declaration = json!({ "name": tool.name, "description": tool.description });
        // An object without properties is refused; a function without parameters is not.
        if let Some(schema) = schema {
            declaration["parameters"] = schema.clone();
        }
        declaration
    }

    fn declarations(&self, tools: Vec<Written>) -> Value {
        let tools: Vec<Value> = tools.into_iter().map(|tool| tool.value).collect();
        json!([{ "functionDeclarations": tools }])
    }

    fn body(
        &self,
        request: &ModelRequest,
        tools: Option<&RawValue>,
    ) -> Result<Vec<u8>, serde_json::Error> {
        body::write(self, request, tools)
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder {
            model: self.id.clone(),
            ids: CallIds::of(request),
            turn: AssistantTurn::default(),
            kept: Vec::new(),
            signed: false,
            stop: None,
            usage: Usage::default(),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Value>,
    usage_metadata: Option<Counts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<ReceivedPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceivedPart {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    function_call: Option<FunctionCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    #[serde(default)]
    name: String,
    args: Option<Box<RawValue>>,
}

/// Tokens as this API counts them: thoughts are not part of the answer's.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Counts {
    #[serde(rename = "promptTokenCount")]
    prompt: u64,
    #[serde(rename = "cachedContentTokenCount")]
    cached: u64,
    #[serde(rename = "candidatesTokenCount")]
    answer: u64,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: u64,
    #[serde(rename = "toolUsePromptTokenCount")]
    tools: u64,
}

struct GeminiDecoder {
    model: String,
    ids: CallIds,
    turn: AssistantTurn,
    /// The parts in their order, signatures and Google's own ids with them; see [`body`].
    kept: Vec<Value>,
    /// Whether anything in `kept` is more than what the turn says by itself.
    signed: bool,
    stop: Option<StopReason>,
    usage: Usage,
}

impl GeminiDecoder {
    fn part(&mut self, part: ReceivedPart, queue: &mut VecDeque<ModelEvent>) {
        if part.thought {
            queue.extend(
                part.text
                    .filter(|text| !text.is_empty())
                    .map(ModelEvent::Reasoning),
            );
            return;
        }
        self.signed |= part.thought_signature.is_some();
        if let Some(call) = part.function_call {
            let theirs = call.id.unwrap_or_default();
            self.signed |= !theirs.is_empty();
            let id = self.ids.claim(&theirs);
            self.kept
                .push(json!({ "call": id, "id": theirs, "signature": part.thought_signature }));
            let arguments = call
                .args
                .map(|args| args.get().to_owned())
                .unwrap_or_default();
            self.turn.calls.push(ToolCall {
                id,
                name: call.name,
                arguments,
            });
        } else if let Some(text) = part.text {
            self.text(&text, part.thought_signature.as_deref());
            if !text.is_empty() {
                queue.push_back(ModelEvent::Text(text));
            }
        }
    }

    /// Pieces of text become one part, unless a signature belongs to one of them.
    fn text(&mut self, text: &str, signature: Option<&str>) {
        self.turn.text.push_str(text);
        let last = self
            .kept
            .last_mut()
            .filter(|last| last["signature"].is_null());
        match last.and_then(|last| last.get_mut("text")) {
            Some(Value::String(before)) if signature.is_none() => before.push_str(text),
            _ => self
                .kept
                .push(json!({ "text": text, "signature": signature })),
        }
    }

    fn candidate(
        &mut self,
        candidate: Candidate,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<(), Failure> {
        for part in candidate
            .content
            .into_iter()
            .flat_map(|content| content.parts)
        {
            self.part(part, queue);
        }
        let Some(reason) = candidate.finish_reason else {
            return Ok(());
        };
        self.stop = Some(match &*reason {
            "MAX_TOKENS" => StopReason::Length,
            "STOP" | "FINISH_REASON_UNSPECIFIED" | "OTHER" => StopReason::Done,
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
                let detail = candidate
                    .finish_message
                    .map(|message| format!(": {message}"))
                    .unwrap_or_default();
                let message = format!(
                    "the model wrote a call that its own API could not read ({reason}){detail}"
                );
                return Err(Failure::new(ModelErrorKind::Unavailable, message).retryable());
            }
            _ => StopReason::Refused,
        });
        Ok(())
    }
}

impl Decoder for GeminiDecoder {
    fn event(&mut self, data: &str, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure> {
        let value: Value = parse(data)?;
        if value.get("error").is_some_and(|error| !error.is_null())
            && let Some(words) = ProviderWords::read(&value)
        {
            return Err(Failure::described(words, None));
        }
        let chunk: Chunk = parse(data)?;
        if let Some(Counts {
            prompt,
            cached,
            answer,
            thoughts,
            tools,
        }) = chunk.usage_metadata
        {
            self.usage = Usage {
                input: prompt + tools,
                cached,
                output: answer + thoughts,
            };
        }
        let blocked = chunk
            .prompt_feedback
            .as_ref()
            .and_then(|feedback| feedback["blockReason"].as_str());
        if let Some(reason) = blocked {
            let message = format!("the provider blocked the prompt ({reason})");
            return Err(Failure::new(ModelErrorKind::Rejected, message));
        }
        if let Some(candidate) = chunk.candidates.into_iter().next() {
            self.candidate(candidate, queue)?;
        }
        // The last chunk carries the reason and the counts, but nothing says that it is the last.
        Ok(Progress::More)
    }

    fn finish(&mut self) -> Option<ModelEvent> {
        let stop = self.stop.take()?;
        let mut turn = std::mem::take(&mut self.turn);
        turn.carry = self
            .signed
            .then(|| carry(&self.model, &Value::Array(std::mem::take(&mut self.kept))));
        Some(ModelEvent::Finished {
            turn,
            stop,
            usage: self.usage,
        })
    }
}

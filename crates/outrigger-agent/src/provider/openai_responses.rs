//! OpenAI's Responses API, without any state on the server: `store` is off, reasoning comes and
//! goes encrypted.
//!
//! The items of an answer go back exactly as they came, because their order and their extra fields
//! matter to the model; they are rebuilt from the turn only where the two no longer say the same.

mod search;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use outrigger_model::{
    AssistantTurn, Message, ModelErrorKind, ModelEvent, ModelRequest, Part, StopReason, ToolCall,
    ToolDeclaration, Usage,
};
use outrigger_schemas::Family;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ProviderSpec;
use super::declared::with_tools;
use super::failure::{Failure, ProviderWords};
use super::history::{CallIds, NO_EYES, arguments, carried, carry, has_image, left_out, words};
use super::wire::{Decoder, Progress, Wire, Written, parse};

const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

/// The format for one model.
pub(super) struct OpenAiResponses {
    id: String,
    model: String,
    sees_images: bool,
    family: Family,
    /// Models that do not reason refuse to be asked for encrypted reasoning, and other accounts
    /// refuse to be given it.
    without_reasoning: AtomicBool,
}

impl OpenAiResponses {
    pub(super) fn new(spec: &ProviderSpec, sees_images: bool) -> Self {
        Self {
            id: spec.id.clone(),
            model: spec.model.clone(),
            sees_images,
            family: spec.family(),
            without_reasoning: AtomicBool::new(false),
        }
    }

    fn items(&self, message: &Message) -> Vec<Value> {
        match message {
            // Sent as `instructions`.
            Message::System { .. } => Vec::new(),
            Message::User { content } => {
                vec![json!({ "type": "message", "role": "user", "content": self.content(content) })]
            }
            Message::Assistant(turn) => self.assistant(turn),
            Message::ToolResults { results } => results
                .iter()
                .map(|result| {
                    let pictures = self.sees_images && has_image(&result.content);
                    let output =
                        if pictures { self.content(&result.content) } else { json!(words(&result.content, NO_EYES)) };
                    json!({ "type": "function_call_output", "call_id": result.call_id, "output": output })
                })
                .collect(),
        }
    }

    fn content(&self, parts: &[Part]) -> Value {
        let part = |part: &Part| match part {
            Part::Text { text } => json!({ "type": "input_text", "text": text }),
            Part::Image { media_type, data } if self.sees_images => {
                json!({ "type": "input_image", "image_url": format!("data:{media_type};base64,{data}") })
            }
            Part::Image { media_type, data } => {
                json!({ "type": "input_text", "text": left_out(media_type, data, NO_EYES) })
            }
        };
        parts.iter().map(part).collect()
    }

    fn assistant(&self, turn: &AssistantTurn) -> Vec<Value> {
        let kept = carried(turn, &self.id).and_then(Value::as_array);
        if let Some(items) = kept.filter(|items| says_the_same(items, turn)) {
            return items.clone();
        }
        let text = (!turn.text.is_empty()).then(|| {
            let content = json!([{ "type": "output_text", "text": turn.text }]);
            json!({ "type": "message", "role": "assistant", "content": content })
        });
        let call = |call: &ToolCall| {
            json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments(&call.arguments).get(),
            })
        };
        text.into_iter()
            .chain(turn.calls.iter().map(call))
            .collect()
    }
}

fn text_of(items: &[Value]) -> String {
    let contents = items
        .iter()
        .filter(|item| item["type"] == "message")
        .filter_map(|item| item["content"].as_array());
    let part = |part: &Value| {
        part["text"]
            .as_str()
            .or_else(|| part["refusal"].as_str())
            .map(str::to_owned)
    };
    contents.flatten().filter_map(part).collect()
}

fn calls_of(items: &[Value]) -> impl Iterator<Item = &Value> {
    items.iter().filter(|item| item["type"] == "function_call")
}

fn says_the_same(items: &[Value], turn: &AssistantTurn) -> bool {
    let ids = calls_of(items).map(|item| item["call_id"].as_str().unwrap_or_default());
    ids.eq(turn.calls.iter().map(|call| call.id.as_str())) && text_of(items) == turn.text
}

impl Wire for OpenAiResponses {
    fn family(&self) -> Family {
        self.family
    }

    fn declare(&self, tool: &ToolDeclaration, schema: Option<&Value>) -> Value {
        let value = json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": schema,
            // When it is not said, this API makes of a schema what it takes for strict.
            "strict": self.family == Family::OpenAiStrict,
        });
        search::declare(tool, value)
    }

    fn declarations(&self, tools: Vec<Written>) -> Value {
        search::declarations(tools)
    }

    fn body(
        &self,
        request: &ModelRequest,
        tools: Option<&RawValue>,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let without_reasoning = self.without_reasoning.load(Ordering::Relaxed);
        let items = request
            .messages
            .iter()
            .flat_map(|message| self.items(message));
        let input: Vec<Value> = items
            .filter(|item| !without_reasoning || item["type"] != "reasoning")
            .filter_map(|item| search::goes_back(request, item))
            .collect();
        let mut body =
            json!({ "model": self.model, "input": input, "stream": true, "store": false });
        let system = request.messages.iter().filter_map(|message| match message {
            Message::System { text } => Some(text.as_str()),
            _ => None,
        });
        let system: Vec<&str> = system.collect();
        if !system.is_empty() {
            body["instructions"] = json!(system.join("\n\n"));
        }
        if !without_reasoning {
            body["include"] = json!([ENCRYPTED_REASONING]);
        }
        if let Some(limit) = request.max_output_tokens {
            body["max_output_tokens"] = json!(limit);
        }
        with_tools(&body, tools)
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(ResponsesDecoder {
            model: self.id.clone(),
            ids: CallIds::of(request),
            items: BTreeMap::new(),
            text: String::new(),
            end: None,
        })
    }

    fn concede(&self, message: &str) -> bool {
        let message = message.to_lowercase();
        let about_it = ["encrypted", "'include'", "`include`", "include["]
            .iter()
            .any(|word| message.contains(word));
        about_it && !self.without_reasoning.swap(true, Ordering::Relaxed)
    }
}

struct ResponsesDecoder {
    model: String,
    ids: CallIds,
    /// Finished items by their place in the answer.
    items: BTreeMap<u64, Value>,
    /// What was shown, for servers that stream text without ever sending its item.
    text: String,
    /// The response object of the last event.
    end: Option<Value>,
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, data: &str, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure> {
        let mut event: Value = parse(data)?;
        let delta = |event: &Value| event["delta"].as_str().unwrap_or_default().to_owned();
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        match &*kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                let more = delta(&event);
                self.text.push_str(&more);
                queue.push_back(ModelEvent::Text(more));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                queue.push_back(ModelEvent::Reasoning(delta(&event)));
            }
            "response.output_item.done" => {
                let next = self.items.last_key_value().map_or(0, |(last, _)| last + 1);
                let place = event["output_index"].as_u64().unwrap_or(next);
                self.items.insert(place, event["item"].take());
            }
            "response.completed" | "response.incomplete" => {
                self.end = Some(event["response"].take());
                return Ok(Progress::Done);
            }
            "response.failed" => return Err(failed(&event["response"])),
            "error" => return Err(failed(&event)),
            "" => {
                if let Some(words) = ProviderWords::read(&event) {
                    return Err(Failure::described(words, None));
                }
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    fn finish(&mut self) -> Option<ModelEvent> {
        let mut end = self.end.take()?;
        let mut items: Vec<Value> = std::mem::take(&mut self.items).into_values().collect();
        if items.is_empty()
            && let Value::Array(output) = end["output"].take()
        {
            items = output;
        }
        let mut calls = Vec::new();
        for item in items
            .iter_mut()
            .filter(|item| item["type"] == "function_call")
        {
            let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
            let (name, arguments) = (text("name"), text("arguments"));
            let id = self.ids.claim(&text("call_id"));
            item["call_id"] = json!(id);
            calls.push(ToolCall {
                id,
                name,
                arguments,
            });
        }
        let said = text_of(&items);
        let text = if said.is_empty() {
            std::mem::take(&mut self.text)
        } else {
            said
        };
        let refused = items
            .iter()
            .any(|item| item["content"][0]["type"] == "refusal");
        let stop = match end["incomplete_details"]["reason"].as_str() {
            Some("content_filter") => StopReason::Refused,
            Some(_) => StopReason::Length,
            None if refused => StopReason::Refused,
            None => StopReason::Done,
        };
        let number = |pointer: &str| {
            end.pointer(pointer)
                .and_then(Value::as_u64)
                .unwrap_or_default()
        };
        let usage = Usage {
            input: number("/usage/input_tokens"),
            cached: number("/usage/input_tokens_details/cached_tokens"),
            output: number("/usage/output_tokens"),
        };
        let found = search::found(&items);
        let carry = (!items.is_empty()).then(|| carry(&self.model, &Value::Array(items)));
        Some(ModelEvent::Finished {
            turn: AssistantTurn {
                text,
                calls,
                carry,
                found,
            },
            stop,
            usage,
        })
    }
}

fn failed(response: &Value) -> Failure {
    match ProviderWords::read(response) {
        Some(words) => Failure::described(words, None),
        None => Failure::new(
            ModelErrorKind::Unavailable,
            "the provider failed without saying why",
        )
        .retryable(),
    }
}

//! Anthropic's Messages API.
//!
//! Thinking blocks go back with their signatures, in their place among text and calls. Three cache
//! breakpoints per request (last tool in the prompt, system, last message) let each turn reuse the one before it.
//! Thinking is not switched on from here: models decide, or think always.

mod body;
mod search;

use std::collections::VecDeque;

use outrigger_model::{
    AssistantTurn, ModelErrorKind, ModelEvent, ModelRequest, StopReason, ToolCall, ToolDeclaration,
    Usage,
};
use outrigger_schemas::Family;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ProviderSpec;
use super::failure::{Failure, ProviderWords};
use super::history::{CallIds, carry};
use super::limits;
use super::wire::{Decoder, Progress, Wire, Written, parse};

/// The format for one model.
pub(super) struct Anthropic {
    id: String,
    model: String,
    sees_images: bool,
}

impl Anthropic {
    pub(super) fn new(spec: &ProviderSpec, sees_images: bool) -> Self {
        Self {
            id: spec.id.clone(),
            model: spec.model.clone(),
            sees_images,
        }
    }
}

impl Wire for Anthropic {
    fn family(&self) -> Family {
        Family::Anthropic
    }

    fn declare(&self, tool: &ToolDeclaration, schema: Option<&Value>) -> Value {
        let value =
            json!({ "name": tool.name, "description": tool.description, "input_schema": schema });
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
        let limit = request
            .max_output_tokens
            .unwrap_or_else(|| limits::anthropic_max_tokens(&self.model));
        body::write(self, request, tools, limit)
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(AnthropicDecoder {
            model: self.id.clone(),
            ids: CallIds::of(request),
            blocks: Vec::new(),
            stop: None,
            counts: Counts::default(),
        })
    }
}

struct AnthropicDecoder {
    model: String,
    ids: CallIds,
    /// Each block with its index, as it grows; `tool_use` has its pieces of JSON beside it.
    blocks: Vec<(u64, Value, String)>,
    stop: Option<String>,
    counts: Counts,
}

/// Tokens as this API counts them: cached ones are not part of `input_tokens`.
#[derive(Default)]
struct Counts {
    fresh: u64,
    cache_read: u64,
    cache_written: u64,
    output: u64,
}

impl Counts {
    /// Later events repeat or correct what earlier ones said.
    fn update(&mut self, usage: &Value) {
        let number = |key: &str, old: u64| usage[key].as_u64().unwrap_or(old);
        self.fresh = number("input_tokens", self.fresh);
        self.cache_read = number("cache_read_input_tokens", self.cache_read);
        self.cache_written = number("cache_creation_input_tokens", self.cache_written);
        self.output = number("output_tokens", self.output);
    }
}

fn grow(block: &mut Value, key: &str, more: &str) {
    match &mut block[key] {
        Value::String(text) => text.push_str(more),
        other => *other = json!(more),
    }
}

impl AnthropicDecoder {
    fn delta(&mut self, event: &Value, queue: &mut VecDeque<ModelEvent>) {
        let index = event["index"].as_u64().unwrap_or_default();
        let Some((_, block, pieces)) = self.blocks.iter_mut().rfind(|(known, ..)| *known == index)
        else {
            return;
        };
        let delta = &event["delta"];
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => {
                grow(block, "text", text("text"));
                queue.push_back(ModelEvent::Text(text("text").to_owned()));
            }
            "thinking_delta" => {
                grow(block, "thinking", text("thinking"));
                queue.push_back(ModelEvent::Reasoning(text("thinking").to_owned()));
            }
            "signature_delta" => grow(block, "signature", text("signature")),
            "input_json_delta" => pieces.push_str(text("partial_json")),
            _ => {}
        }
    }

    fn turn(&mut self) -> AssistantTurn {
        let mut turn = AssistantTurn::default();
        let mut kept = Vec::new();
        for (_, block, pieces) in std::mem::take(&mut self.blocks) {
            let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
            match block["type"].as_str().unwrap_or_default() {
                "text" => {
                    turn.text.push_str(&text("text"));
                    kept.push(json!({ "type": "text", "text": text("text") }));
                }
                "tool_use" => {
                    let id = self.ids.claim(&text("id"));
                    kept.push(json!({ "type": "tool_use", "id": id }));
                    let whole = || {
                        block
                            .get("input")
                            .filter(|input| input.is_object())
                            .map(Value::to_string)
                    };
                    let arguments = if pieces.is_empty() {
                        whole().unwrap_or_default()
                    } else {
                        pieces
                    };
                    turn.calls.push(ToolCall {
                        id,
                        name: text("name"),
                        arguments,
                    });
                }
                _ => kept.push(search::assembled(block, &pieces)),
            }
        }
        turn.found = search::found(&kept);
        let plain = kept
            .iter()
            .all(|block| block["type"] == "text" || block["type"] == "tool_use");
        turn.carry = (!plain).then(|| carry(&self.model, &Value::Array(kept)));
        turn
    }
}

impl Decoder for AnthropicDecoder {
    fn event(&mut self, data: &str, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure> {
        let mut event: Value = parse(data)?;
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        match &*kind {
            "message_start" => self.counts.update(&event["message"]["usage"]),
            "content_block_start" => {
                let index = event["index"].as_u64().unwrap_or_default();
                let block = event["content_block"].take();
                if let Some(text) = block["text"].as_str().filter(|text| !text.is_empty()) {
                    queue.push_back(ModelEvent::Text(text.to_owned()));
                }
                self.blocks.push((index, block, String::new()));
            }
            "content_block_delta" => self.delta(&event, queue),
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(reason.to_owned());
                }
                self.counts.update(&event["usage"]);
            }
            "message_stop" => {
                self.stop.get_or_insert_with(|| "end_turn".to_owned());
                return Ok(Progress::Done);
            }
            "error" | "" => match ProviderWords::read(&event) {
                Some(words) => return Err(Failure::described(words, None)),
                None if kind.is_empty() => {}
                None => {
                    let message = "the provider reported an error without saying which";
                    return Err(Failure::new(ModelErrorKind::Unavailable, message).retryable());
                }
            },
            _ => {}
        }
        Ok(Progress::More)
    }

    fn finish(&mut self) -> Option<ModelEvent> {
        let stop = match self.stop.as_deref()? {
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "refusal" => StopReason::Refused,
            "pause_turn" => StopReason::Paused,
            _ => StopReason::Done,
        };
        let Counts {
            fresh,
            cache_read,
            cache_written,
            output,
        } = self.counts;
        let usage = Usage {
            input: fresh + cache_read + cache_written,
            cached: cache_read,
            output,
        };
        Some(ModelEvent::Finished {
            turn: self.turn(),
            stop,
            usage,
        })
    }
}

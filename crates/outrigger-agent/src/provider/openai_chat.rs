//! OpenAI's Chat Completions, as OpenAI and as the many servers that imitate it speak it (DeepSeek,
//! OpenRouter, Ollama, vLLM, llama.cpp).
//!
//! Tolerant in what it reads, plain in what it writes. Reasoning goes back under the field name it
//! came in. Images in tool results have no place in this format and become a line of text.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use outrigger_model::{
    AssistantTurn, Message, ModelErrorKind, ModelEvent, ModelRequest, Part, StopReason, ToolCall,
    ToolDeclaration, Usage,
};
use outrigger_schemas::Family;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::declared::with_tools;
use super::failure::{Failure, ProviderWords};
use super::history::{CallIds, NO_EYES, arguments, carried, carry, has_image, words};
use super::wire::{Decoder, Progress, Wire, parse};
use super::{ProviderSpec, fragments::CallFragments};

/// Fields that servers use for reasoning, most common first.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

const TEXT_ONLY_RESULTS: &str = "this API takes only text as a tool's result";

/// The format for one model.
pub(super) struct OpenAiChat {
    id: String,
    model: String,
    sees_images: bool,
    family: Family,
    /// DeepSeek refuses a thinking conversation in which a turn with calls lacks the field.
    wants_reasoning: bool,
    without_usage: AtomicBool,
    /// OpenAI refuses `max_tokens` for its newer models, most others know nothing else.
    new_limit_name: AtomicBool,
    limit_name_settled: AtomicBool,
}

impl OpenAiChat {
    pub(super) fn new(spec: &ProviderSpec, sees_images: bool) -> Self {
        let host = spec.base_url.host_str().unwrap_or_default();
        Self {
            id: spec.id.clone(),
            model: spec.model.clone(),
            sees_images,
            family: spec.family(),
            wants_reasoning: host.ends_with("deepseek.com") || spec.id.starts_with("deepseek:"),
            without_usage: AtomicBool::new(false),
            new_limit_name: AtomicBool::new(host.ends_with("openai.com")),
            limit_name_settled: AtomicBool::new(false),
        }
    }

    fn message(&self, message: &Message) -> Vec<Value> {
        match message {
            Message::System { text } => vec![json!({ "role": "system", "content": text })],
            Message::User { content } => {
                vec![json!({ "role": "user", "content": self.content(content) })]
            }
            Message::Assistant(turn) => vec![self.assistant(turn)],
            Message::ToolResults { results } => results
                .iter()
                .map(|result| {
                    let why = if self.sees_images {
                        TEXT_ONLY_RESULTS
                    } else {
                        NO_EYES
                    };
                    json!({
                        "role": "tool",
                        "tool_call_id": result.call_id,
                        "content": words(&result.content, why),
                    })
                })
                .collect(),
        }
    }

    fn content(&self, parts: &[Part]) -> Value {
        if !self.sees_images || !has_image(parts) {
            return Value::String(words(parts, NO_EYES));
        }
        let part = |part: &Part| match part {
            Part::Text { text } => json!({ "type": "text", "text": text }),
            Part::Image { media_type, data } => {
                json!({ "type": "image_url", "image_url": { "url": format!("data:{media_type};base64,{data}") } })
            }
        };
        parts.iter().map(part).collect()
    }

    fn assistant(&self, turn: &AssistantTurn) -> Value {
        let content = if turn.text.is_empty() && !turn.calls.is_empty() {
            Value::Null
        } else {
            json!(turn.text)
        };
        let mut message = json!({ "role": "assistant", "content": content });
        let fields = carried(turn, &self.id).and_then(Value::as_object);
        for (field, value) in fields.into_iter().flatten() {
            message[field] = value.clone();
        }
        if !turn.calls.is_empty() {
            if self.wants_reasoning && message.get("reasoning_content").is_none() {
                message["reasoning_content"] = json!("");
            }
            let call = |call: &ToolCall| {
                json!({
                    "id": call.id,
                    "type": "function",
                    "function": { "name": call.name, "arguments": arguments(&call.arguments).get() },
                })
            };
            message["tool_calls"] = turn.calls.iter().map(call).collect();
        }
        message
    }
}

impl Wire for OpenAiChat {
    fn family(&self) -> Family {
        self.family
    }

    fn declare(&self, tool: &ToolDeclaration, schema: Option<&Value>) -> Value {
        let mut function = json!({
            "name": tool.name,
            "description": tool.description,
            "parameters": schema,
        });
        if self.family == Family::OpenAiStrict {
            function["strict"] = json!(true);
        }
        json!({ "type": "function", "function": function })
    }

    fn body(
        &self,
        request: &ModelRequest,
        tools: Option<&RawValue>,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let messages: Vec<Value> = request
            .messages
            .iter()
            .flat_map(|message| self.message(message))
            .collect();
        let mut body = json!({ "model": self.model, "messages": messages, "stream": true });
        if !self.without_usage.load(Ordering::Relaxed) {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if let Some(limit) = request.max_output_tokens {
            let new_name = self.new_limit_name.load(Ordering::Relaxed);
            body[if new_name {
                "max_completion_tokens"
            } else {
                "max_tokens"
            }] = json!(limit);
        }
        with_tools(&body, tools)
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        Box::new(ChatDecoder {
            model: self.id.clone(),
            ids: CallIds::of(request),
            text: String::new(),
            reasoning: None,
            reasoning_details: Vec::new(),
            calls: CallFragments::default(),
            stop: None,
            refused: false,
            usage: Usage::default(),
        })
    }

    fn concede(&self, message: &str) -> bool {
        if message.contains("stream_options") || message.contains("include_usage") {
            return !self.without_usage.swap(true, Ordering::Relaxed);
        }
        let message = message.to_lowercase();
        let unknown = [
            "unsupported",
            "not supported",
            "unrecognized",
            "unknown",
            "instead",
            "not permitted",
            "extra",
        ];
        if message.contains("max_") && unknown.iter().any(|word| message.contains(word)) {
            if self.limit_name_settled.swap(true, Ordering::Relaxed) {
                return false;
            }
            self.new_limit_name.fetch_xor(true, Ordering::Relaxed);
            return true;
        }
        false
    }
}

struct ChatDecoder {
    model: String,
    ids: CallIds,
    text: String,
    /// Field name and what it said.
    reasoning: Option<(&'static str, String)>,
    /// OpenRouter's structured reasoning, with the signatures of the provider behind it.
    reasoning_details: Vec<Value>,
    calls: CallFragments,
    /// `finish_reason`, once it was seen.
    stop: Option<String>,
    refused: bool,
    usage: Usage,
}

impl ChatDecoder {
    fn choice(&mut self, choice: &Value, queue: &mut VecDeque<ModelEvent>) -> Result<(), Failure> {
        // Servers that ignore `stream` answer with `message` in the place of `delta`.
        let delta = choice
            .get("delta")
            .filter(|delta| delta.is_object())
            .or_else(|| choice.get("message"));
        if let Some(delta) = delta {
            self.delta(delta, queue);
        }
        self.usage(choice.get("usage"));
        if let Some(reason) = choice
            .get("finish_reason")
            .and_then(Value::as_str)
            .filter(|reason| !reason.is_empty())
        {
            if matches!(reason, "insufficient_system_resource" | "error") {
                let failure = Failure::new(
                    ModelErrorKind::Unavailable,
                    format!("the provider stopped the answer with `{reason}`"),
                );
                return Err(failure.retryable());
            }
            self.stop = Some(reason.to_owned());
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, queue: &mut VecDeque<ModelEvent>) {
        for field in REASONING_FIELDS {
            if let Some(more) = delta
                .get(field)
                .and_then(Value::as_str)
                .filter(|more| !more.is_empty())
            {
                let (name, reasoning) = self.reasoning.get_or_insert((field, String::new()));
                // Some servers send the same words under both names.
                if *name == field {
                    reasoning.push_str(more);
                    queue.push_back(ModelEvent::Reasoning(more.to_owned()));
                }
            }
        }
        let details = delta.get("reasoning_details").and_then(Value::as_array);
        self.reasoning_details
            .extend(details.into_iter().flatten().cloned());
        let refusal = delta
            .get("refusal")
            .and_then(Value::as_str)
            .unwrap_or_default();
        self.refused |= !refusal.is_empty();
        let parts = delta
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let texts = parts.filter_map(|part| part.get("text").and_then(Value::as_str));
        for more in delta
            .get("content")
            .and_then(Value::as_str)
            .into_iter()
            .chain(texts)
            .chain([refusal])
        {
            if !more.is_empty() {
                self.text.push_str(more);
                queue.push_back(ModelEvent::Text(more.to_owned()));
            }
        }
        match delta.get("tool_calls") {
            Some(Value::Array(calls)) => calls.iter().for_each(|call| self.calls.add(call)),
            Some(call @ Value::Object(_)) => self.calls.add(call),
            _ => {}
        }
    }

    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else {
            return;
        };
        let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
        let cached = number("/prompt_tokens_details/cached_tokens")
            .or_else(|| number("/prompt_cache_hit_tokens"));
        self.usage = Usage {
            input: number("/prompt_tokens").unwrap_or_default(),
            cached: cached
                .or_else(|| number("/cached_tokens"))
                .unwrap_or_default(),
            output: number("/completion_tokens").unwrap_or_default(),
        };
    }

    fn carry(&mut self) -> Option<Value> {
        let mut fields = Map::new();
        if let Some((field, text)) = self.reasoning.take() {
            fields.insert(field.to_owned(), Value::String(text));
        }
        if !self.reasoning_details.is_empty() {
            let details = std::mem::take(&mut self.reasoning_details);
            fields.insert(
                "reasoning_details".to_owned(),
                Value::Array(joined(details)),
            );
        }
        (!fields.is_empty()).then(|| carry(&self.model, &Value::Object(fields)))
    }
}

/// Streamed details come in pieces of the same `index`: their texts belong together.
fn joined(details: Vec<Value>) -> Vec<Value> {
    let mut whole: Vec<Value> = Vec::new();
    for detail in details {
        let place = detail.get("index").filter(|index| index.is_u64());
        let same = |known: &&mut Value| {
            place.is_some() && known.get("index") == place && known["type"] == detail["type"]
        };
        let Some(known) = whole.iter_mut().find(same) else {
            whole.push(detail);
            continue;
        };
        for (key, value) in detail.as_object().into_iter().flatten() {
            match (known.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more))
                    if matches!(&**key, "text" | "summary" | "data") =>
                {
                    text.push_str(more);
                }
                (_, Value::Null) => {}
                _ => known[key] = value.clone(),
            }
        }
    }
    whole
}

impl Decoder for ChatDecoder {
    fn event(&mut self, data: &str, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure> {
        let chunk: Value = parse(data)?;
        if chunk.get("error").is_some_and(|error| !error.is_null())
            && let Some(words) = ProviderWords::read(&chunk)
        {
            return Err(Failure::described(words, None));
        }
        let choices = chunk.get("choices").and_then(Value::as_array);
        if choices.is_none() && chunk.get("usage").is_none() {
            return match ProviderWords::read(&chunk) {
                Some(words) => Err(Failure::described(words, None)),
                None => Ok(Progress::More),
            };
        }
        if let Some(choice) = choices.and_then(|choices| choices.first()) {
            self.choice(choice, queue)?;
        }
        self.usage(chunk.get("usage"));
        Ok(Progress::More)
    }

    fn end_marker(&mut self) {
        self.stop.get_or_insert_with(|| "stop".to_owned());
    }

    fn finish(&mut self) -> Option<ModelEvent> {
        let stop = match self.stop.as_deref()? {
            _ if self.refused => StopReason::Refused,
            "length" | "max_tokens" => StopReason::Length,
            "content_filter" | "refusal" => StopReason::Refused,
            _ => StopReason::Done,
        };
        let turn = AssistantTurn {
            text: std::mem::take(&mut self.text),
            calls: std::mem::take(&mut self.calls).into_calls(&mut self.ids),
            carry: self.carry(),
            found: Vec::new(),
        };
        Some(ModelEvent::Finished {
            turn,
            stop,
            usage: self.usage,
        })
    }
}

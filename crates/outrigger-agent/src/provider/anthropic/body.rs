//! The body of a request to the Messages API.
//!
//! Typed rather than built from values, so that the digits in a call's arguments stay as the model
//! wrote them.

use outrigger_model::{AssistantTurn, Message, ModelRequest, Part, ToolResultMessage};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Anthropic;
use super::search::GoesBack;
use crate::provider::history::{NO_EYES, arguments, carried, left_out};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    messages: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize, Clone, Copy)]
struct CacheControl {
    r#type: &'static str,
}

const BREAKPOINT: Option<CacheControl> = Some(CacheControl {
    r#type: "ephemeral",
});

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A block that the model made and wants to see unchanged.
    #[serde(untagged)]
    Kept(&'a Value),
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

pub(super) fn write(
    wire: &Anthropic,
    request: &ModelRequest,
    tools: Option<&RawValue>,
    max_tokens: u32,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut system = Vec::new();
    let mut messages: Vec<Entry<'_>> = Vec::new();
    let back = GoesBack::with(request);
    for message in &request.messages {
        let (role, mut content) = match message {
            Message::System { text } => {
                system.extend(text_block(text));
                continue;
            }
            Message::User { content } => ("user", parts(wire, content)),
            Message::Assistant(turn) => ("assistant", assistant(wire, turn, &back)),
            Message::ToolResults { results } => (
                "user",
                results.iter().map(|result| answer(wire, result)).collect(),
            ),
        };
        // The roles must alternate: what a person says right after tool results joins them.
        match messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.append(&mut content),
            None if content.is_empty() => {}
            None => messages.push(Entry { role, content }),
        }
    }
    system.last_mut().map(mark);
    messages
        .last_mut()
        .and_then(|last| last.content.last_mut())
        .map(mark);
    serde_json::to_vec(&Body {
        model: &wire.model,
        max_tokens,
        stream: true,
        system,
        tools,
        messages,
    })
}

fn mark(block: &mut Block<'_>) {
    match block {
        Block::Text { cache_control, .. }
        | Block::Image { cache_control, .. }
        | Block::ToolResult { cache_control, .. } => *cache_control = BREAKPOINT,
        Block::ToolUse { .. } | Block::Kept(_) => {}
    }
}

/// Nothing for an empty text, which the API refuses.
fn text_block<'a>(text: &str) -> Option<Block<'a>> {
    (!text.trim().is_empty()).then(|| Block::Text {
        text: text.to_owned(),
        cache_control: None,
    })
}

fn parts<'a>(wire: &Anthropic, parts: &'a [Part]) -> Vec<Block<'a>> {
    let part = |part: &'a Part| match part {
        Part::Text { text } => text_block(text),
        Part::Image { media_type, data } if wire.sees_images => Some(Block::Image {
            source: Source {
                r#type: "base64",
                media_type,
                data,
            },
            cache_control: None,
        }),
        Part::Image { media_type, data } => text_block(&left_out(media_type, data, NO_EYES)),
    };
    parts.iter().filter_map(part).collect()
}

fn answer<'a>(wire: &Anthropic, result: &'a ToolResultMessage) -> Block<'a> {
    Block::ToolResult {
        tool_use_id: acceptable(&result.call_id),
        content: parts(wire, &result.content),
        is_error: result.is_error,
        cache_control: None,
    }
}

fn assistant<'a>(wire: &Anthropic, turn: &'a AssistantTurn, back: &GoesBack<'_>) -> Vec<Block<'a>> {
    let call = |index: usize| {
        let call = &turn.calls[index];
        Block::ToolUse {
            id: acceptable(&call.id),
            name: &call.name,
            input: arguments(&call.arguments),
        }
    };
    let kept = carried(turn, &wire.id).and_then(Value::as_array);
    if let Some(kept) = kept.filter(|kept| says_the_same(kept, turn)) {
        let mut calls = 0..turn.calls.len();
        let out = back.without(kept);
        let mut block = |block: &'a Value| match block["type"].as_str() {
            Some("text") => text_block(block["text"].as_str().unwrap_or_default()),
            Some("tool_use") => calls.next().map(call),
            _ => Some(Block::Kept(block)),
        };
        let kept = kept.iter().enumerate();
        let kept = kept.filter(|(at, _)| !out.contains(at));
        return kept.filter_map(|(_, kept)| block(kept)).collect();
    }
    text_block(&turn.text)
        .into_iter()
        .chain((0..turn.calls.len()).map(call))
        .collect()
}

fn says_the_same(kept: &[Value], turn: &AssistantTurn) -> bool {
    let of = |kind: &'static str| kept.iter().filter(move |block| block["type"] == kind);
    let text: String = of("text")
        .filter_map(|block| block["text"].as_str())
        .collect();
    let ids = of("tool_use").map(|block| block["id"].as_str().unwrap_or_default());
    text == turn.text && ids.eq(turn.calls.iter().map(|call| call.id.as_str()))
}

/// The API takes `[a-zA-Z0-9_-]` in ids; those of other providers may hold more.
fn acceptable(id: &str) -> String {
    id.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

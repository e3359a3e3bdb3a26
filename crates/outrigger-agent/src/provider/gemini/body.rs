//! The body of a request to Gemini.
//!
//! What a turn carries is a list of its parts: `{"text", "signature"}` or `{"call", "id",
//! "signature"}`, where `call` is our id and `id` is Google's, empty if it gave none.

use std::collections::HashMap;

use outrigger_model::{AssistantTurn, Message, ModelRequest, Part, ToolResultMessage};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Gemini;
use crate::provider::history::{NO_EYES, arguments, carried, left_out};

/// Stands for a signature where a call was made by another model; Gemini 3 refuses calls without
/// any. From Google's page on thought signatures.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Value>,
}

#[derive(Serialize)]
struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<SentPart>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct SentPart {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall>,
    /// `functionResponse` or `inlineData`.
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Serialize)]
struct FunctionCall {
    #[serde(skip_serializing_if = "String::is_empty")]
    id: String,
    name: String,
    args: Box<RawValue>,
}

pub(super) fn write(
    wire: &Gemini,
    request: &ModelRequest,
    tools: Option<&RawValue>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut system = Vec::new();
    let mut contents: Vec<Content> = Vec::new();
    let mut their_ids = HashMap::new();
    for message in &request.messages {
        let (role, mut parts) = match message {
            Message::System { text } => {
                system.push(text_part(text.clone()));
                continue;
            }
            Message::User { content } => (
                "user",
                content.iter().map(|part| said(wire, part)).collect(),
            ),
            Message::Assistant(turn) => ("model", assistant(wire, turn, &mut their_ids)),
            Message::ToolResults { results } => ("user", answers(wire, results, &their_ids)),
        };
        match contents.last_mut().filter(|last| last.role == Some(role)) {
            Some(last) => last.parts.append(&mut parts),
            None if parts.is_empty() => {}
            None => contents.push(Content {
                role: Some(role),
                parts,
            }),
        }
    }
    serde_json::to_vec(&Body {
        contents,
        system_instruction: (!system.is_empty()).then_some(Content {
            role: None,
            parts: system,
        }),
        tools,
        generation_config: request
            .max_output_tokens
            .map(|limit| json!({ "maxOutputTokens": limit })),
    })
}

fn text_part(text: String) -> SentPart {
    SentPart {
        text: Some(text),
        ..SentPart::default()
    }
}

fn picture(media_type: &str, data: &str) -> Value {
    json!({ "mimeType": media_type, "data": data })
}

fn said(wire: &Gemini, part: &Part) -> SentPart {
    match part {
        Part::Text { text } => text_part(text.clone()),
        Part::Image { media_type, data } if wire.sees_images => SentPart {
            inline_data: Some(picture(media_type, data)),
            ..SentPart::default()
        },
        Part::Image { media_type, data } => text_part(left_out(media_type, data, NO_EYES)),
    }
}

fn assistant(
    wire: &Gemini,
    turn: &AssistantTurn,
    their_ids: &mut HashMap<String, String>,
) -> Vec<SentPart> {
    let call = |index: usize, id: &str, signature: Option<String>| SentPart {
        function_call: Some(FunctionCall {
            id: id.to_owned(),
            name: turn.calls[index].name.clone(),
            args: arguments(&turn.calls[index].arguments),
        }),
        thought_signature: signature,
        ..SentPart::default()
    };
    let kept = carried(turn, &wire.id).and_then(Value::as_array);
    let Some(kept) = kept.filter(|kept| says_the_same(kept, turn)) else {
        let foreign =
            |index: usize| (index == 0 && signs(&wire.model)).then(|| FOREIGN_CALL.to_owned());
        let text = (!turn.text.is_empty()).then(|| text_part(turn.text.clone()));
        let calls = (0..turn.calls.len()).map(|index| call(index, "", foreign(index)));
        return text.into_iter().chain(calls).collect();
    };
    let mut calls = 0..turn.calls.len();
    let mut parts = Vec::new();
    for part in kept {
        let text = |key: &str| part[key].as_str().map(str::to_owned);
        if let Some(ours) = text("call") {
            let theirs = text("id").unwrap_or_default();
            parts.extend(
                calls
                    .next()
                    .map(|index| call(index, &theirs, text("signature"))),
            );
            their_ids.insert(ours, theirs);
        } else {
            let thought_signature = text("signature");
            parts.push(SentPart {
                text: text("text"),
                thought_signature,
                ..SentPart::default()
            });
        }
    }
    parts
}

fn says_the_same(kept: &[Value], turn: &AssistantTurn) -> bool {
    let text: String = kept
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect();
    let ids = kept.iter().filter_map(|part| part["call"].as_str());
    text == turn.text && ids.eq(turn.calls.iter().map(|call| call.id.as_str()))
}

/// Whether this model checks signatures and takes images inside a function's response: Gemini 3
/// and later do, the numbered ones before it do not.
fn signs(model: &str) -> bool {
    !["gemini-1", "gemini-2", "gemma"]
        .iter()
        .any(|old| model.trim_start_matches("models/").starts_with(old))
}

/// All answers of one turn: first the responses, then the images of models that take them only
/// outside.
fn answers(
    wire: &Gemini,
    results: &[ToolResultMessage],
    their_ids: &HashMap<String, String>,
) -> Vec<SentPart> {
    let mut responses = Vec::new();
    let mut outside = Vec::new();
    for result in results {
        let mut words = Vec::new();
        let mut inside = Vec::new();
        for part in &result.content {
            match part {
                Part::Text { text } => words.push(text.clone()),
                Part::Image { media_type, data } if !wire.sees_images => {
                    words.push(left_out(media_type, data, NO_EYES));
                }
                Part::Image { media_type, data } if signs(&wire.model) => {
                    inside.push(json!({ "inlineData": picture(media_type, data) }));
                }
                image @ Part::Image { .. } => outside.push(said(wire, image)),
            }
        }
        let key = if result.is_error { "error" } else { "output" };
        let mut response = json!({ "name": result.name, "response": { key: words.join("\n") } });
        if let Some(id) = their_ids.get(&result.call_id).filter(|id| !id.is_empty()) {
            response["id"] = json!(id);
        }
        if !inside.is_empty() {
            response["parts"] = Value::Array(inside);
        }
        responses.push(SentPart {
            function_response: Some(response),
            ..SentPart::default()
        });
    }
    responses.append(&mut outside);
    responses
}

//! What the four formats share when they write a conversation down again.
//!
//! Ids of calls, arguments as objects, images in words, and the envelope of what a provider wants
//! to see again. How each of these looks on the wire is the formats' own business.

use std::collections::HashSet;

use outrigger_model::{AssistantTurn, Message, ModelRequest, Part};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Gives out call ids that are unique within a conversation.
#[derive(Debug)]
pub(super) struct CallIds {
    taken: HashSet<String>,
    made_up: usize,
}

impl CallIds {
    /// Knows the ids of all calls in `request`.
    pub(super) fn of(request: &ModelRequest) -> Self {
        let taken: HashSet<String> = request
            .messages
            .iter()
            .filter_map(|message| {
                if let Message::Assistant(turn) = message {
                    Some(&turn.calls)
                } else {
                    None
                }
            })
            .flatten()
            .map(|call| call.id.clone())
            .collect();
        Self {
            made_up: taken.len(),
            taken,
        }
    }

    /// `id` as it is, or a new one where it is empty or already taken. Some servers number their
    /// calls anew in each turn.
    pub(super) fn claim(&mut self, id: &str) -> String {
        if !id.is_empty() && self.taken.insert(id.to_owned()) {
            return id.to_owned();
        }
        loop {
            self.made_up += 1;
            let made = format!("call_{}", self.made_up);
            if self.taken.insert(made.clone()) {
                return made;
            }
        }
    }
}

/// Marks `payload` as what `model` wants to see again. Signatures and encrypted reasoning of one
/// model mean nothing to another, and are refused by some.
pub(super) fn carry(model: &str, payload: &Value) -> Value {
    json!({ "model": model, "payload": payload })
}

/// What [`carry`] kept with this turn, if the same model made it.
pub(super) fn carried<'a>(turn: &'a AssistantTurn, model: &str) -> Option<&'a Value> {
    let carry = turn.carry.as_ref()?;
    (carry.get("model")?.as_str()? == model).then(|| carry.get("payload"))?
}

/// The arguments of a call as the JSON object that every provider insists on, digits kept. What
/// the model wrote in another shape is shown to it under one key instead of being lost.
pub(super) fn arguments(written: &str) -> Box<RawValue> {
    let text = if written.trim().is_empty() {
        "{}"
    } else {
        written.trim()
    };
    let object = text
        .starts_with('{')
        .then(|| serde_json::from_str::<Box<RawValue>>(text).ok());
    object.flatten().unwrap_or_else(|| {
        let wrapped = json!({ "unreadable_arguments": written });
        serde_json::value::to_raw_value(&wrapped).unwrap_or_default()
    })
}

/// The line that stands for an image which the model cannot be given.
pub(super) fn left_out(media_type: &str, data: &str, why: &str) -> String {
    let bytes = data.len() / 4 * 3;
    let size = if bytes < 10_000 {
        format!("{bytes} bytes")
    } else {
        format!("{} kB", bytes / 1000)
    };
    format!("[an image ({media_type}, {size}) was left out: {why}]")
}

/// All parts as text, one after the other, images as lines that say what is missing and why.
pub(super) fn words(parts: &[Part], why: &str) -> String {
    let lines: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => text.clone(),
            Part::Image { media_type, data } => left_out(media_type, data, why),
        })
        .collect();
    lines.join("\n")
}

/// Whether there is an image among the parts.
pub(super) fn has_image(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Image { .. }))
}

/// Why images are left out for a model that has no eyes.
pub(super) const NO_EYES: &str = "this model does not see images";

#[cfg(test)]
mod tests {
    use outrigger_model::ToolCall;

    use super::*;

    #[test]
    fn ids_stay_unique_over_the_turns() {
        let call = |id: &str| ToolCall {
            id: id.to_owned(),
            name: "t".to_owned(),
            arguments: String::new(),
        };
        let turn = AssistantTurn {
            calls: vec![call("call_2"), call("x")],
            ..AssistantTurn::default()
        };
        let request = ModelRequest {
            messages: vec![Message::Assistant(turn)],
            tools: Vec::new().into(),
            max_output_tokens: None,
        };
        let mut ids = CallIds::of(&request);
        assert_eq!(ids.claim("y"), "y");
        assert_eq!(ids.claim("x"), "call_3");
        assert_eq!(ids.claim(""), "call_4");
        assert_eq!(ids.claim("y"), "call_5");
    }

    #[test]
    fn arguments_are_always_an_object() {
        assert_eq!(arguments("").get(), "{}");
        assert_eq!(
            arguments(" {\"a\": 123456789012345678901234567890} ").get(),
            "{\"a\": 123456789012345678901234567890}"
        );
        assert_eq!(
            arguments("{\"a\": ").get(),
            r#"{"unreadable_arguments":"{\"a\": "}"#
        );
        assert_eq!(arguments("[1]").get(), r#"{"unreadable_arguments":"[1]"}"#);
    }

    #[test]
    fn carried_words_are_only_for_their_own_model() {
        let turn = AssistantTurn {
            carry: Some(carry("a:b", &json!([1]))),
            ..AssistantTurn::default()
        };
        assert_eq!(carried(&turn, "a:b"), Some(&json!([1])));
        assert_eq!(carried(&turn, "a:c"), None);
    }
}

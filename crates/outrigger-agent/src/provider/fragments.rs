//! Puts streamed tool calls of Chat Completions together, whatever the server made of the format.
//!
//! By the book each piece has an `index`, the first one id and name, and `arguments` are pieces of
//! one string. Seen in the wild and taken here: no index, no id, index 0 for all calls, a new id in
//! every piece, the name again in every piece, arguments that repeat all that came before, and
//! arguments as an object.

use outrigger_model::ToolCall;
use serde_json::Value;

use super::history::CallIds;

/// The calls of one turn, as far as they have arrived.
#[derive(Debug, Default)]
pub(super) struct CallFragments {
    slots: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    id: String,
    name: String,
    /// All pieces one after the other.
    joined: String,
    /// The newest piece that was not empty.
    newest: String,
    pieces: usize,
    /// Every piece began with the whole piece before it.
    cumulative: bool,
}

impl Slot {
    fn is_whole(&self) -> bool {
        is_json(&self.joined) || (self.cumulative && is_json(&self.newest))
    }

    fn add(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        self.cumulative = self.pieces == 0 || (self.cumulative && piece.starts_with(&self.newest));
        self.joined.push_str(piece);
        piece.clone_into(&mut self.newest);
        self.pieces += 1;
    }

    fn arguments(self) -> String {
        if !is_json(&self.joined) && self.cumulative {
            self.newest
        } else {
            self.joined
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// One piece as it was sent.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
}

impl<'a> Piece<'a> {
    fn read(call: &'a Value) -> Self {
        let function = call.get("function").unwrap_or(call);
        let text = |value: &'a Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default()
        };
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(object @ Value::Object(_)) => object.to_string(),
            _ => String::new(),
        };
        let index = call.get("index").and_then(Value::as_u64);
        Self {
            index,
            id: text(call, "id"),
            name: text(function, "name"),
            arguments,
        }
    }
}

impl CallFragments {
    /// Takes one entry of `tool_calls`.
    pub(super) fn add(&mut self, call: &Value) {
        let piece = Piece::read(call);
        let place = self.place(&piece).unwrap_or_else(|| {
            self.slots.push(Slot {
                index: piece.index,
                ..Slot::default()
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[place];
        if slot.id.is_empty() {
            piece.id.clone_into(&mut slot.id);
        }
        if slot.name.is_empty() {
            piece.name.clone_into(&mut slot.name);
        }
        slot.add(&piece.arguments);
    }

    /// Which call the piece continues. `None` begins a new one.
    fn place(&self, piece: &Piece<'_>) -> Option<usize> {
        let known_id = |slot: &Slot| !piece.id.is_empty() && slot.id == piece.id;
        if let Some(place) = self.slots.iter().rposition(known_id) {
            return Some(place);
        }
        let place = match piece.index {
            Some(_) => self
                .slots
                .iter()
                .rposition(|slot| slot.index == piece.index)?,
            None => self.slots.len().checked_sub(1)?,
        };
        let slot = &self.slots[place];
        if piece.name.is_empty() || slot.name.is_empty() {
            return Some(place);
        }
        // The piece names a function again: a repeated name, or the next call in the same place.
        let new_id = !piece.id.is_empty() && !slot.id.is_empty();
        let repeats = slot.cumulative
            && piece.arguments.starts_with(&slot.newest)
            && piece.arguments != slot.newest;
        let next = new_id
            || piece.name != slot.name
            || (slot.is_whole() && !repeats && !piece.arguments.is_empty());
        (!next).then_some(place)
    }

    /// The calls, with ids that are unique in the conversation.
    pub(super) fn into_calls(self, ids: &mut CallIds) -> Vec<ToolCall> {
        let named = self
            .slots
            .into_iter()
            .filter(|slot| !slot.name.is_empty() || slot.pieces > 0);
        named
            .map(|slot| ToolCall {
                id: ids.claim(&slot.id),
                name: slot.name.clone(),
                arguments: slot.arguments(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::ModelRequest;
    use serde_json::json;

    use super::*;

    fn calls(pieces: &[Value]) -> Vec<(String, String, String)> {
        let mut fragments = CallFragments::default();
        for piece in pieces {
            fragments.add(piece);
        }
        let empty = ModelRequest {
            messages: Vec::new(),
            tools: Vec::new().into(),
            max_output_tokens: None,
        };
        let calls = fragments.into_calls(&mut CallIds::of(&empty));
        calls
            .into_iter()
            .map(|call| (call.id, call.name, call.arguments))
            .collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn by_the_book_with_pieces_interleaved() {
        let got = calls(&[
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "x", "arguments": ""}}),
            json!({"index": 1, "id": "b", "function": {"name": "y", "arguments": ""}}),
            json!({"index": 0, "function": {"arguments": "{\"a\":"}}),
            json!({"index": 1, "id": "", "function": {"name": null, "arguments": "{\"a\":{\"a\":"}}),
            json!({"index": 0, "id": null, "function": {"name": "", "arguments": "{\"a\":1}}"}}),
            json!({"index": 1, "function": {"arguments": "2}}"}}),
        ]);
        assert_eq!(
            got,
            [
                call("a", "x", "{\"a\":{\"a\":1}}"),
                call("b", "y", "{\"a\":{\"a\":2}}")
            ]
        );
    }

    #[test]
    fn cumulative_arguments() {
        let got = calls(&[
            json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"q\":"}}),
            json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"q\": \"da"}}),
            json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"q\": \"date\"}"}}),
            json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"q\": \"date\"}"}}),
        ]);
        assert_eq!(got, [call("a", "x", "{\"q\": \"date\"}")]);
    }

    #[test]
    fn whole_calls_without_index_or_id() {
        let got = calls(&[
            json!({"function": {"name": "x", "arguments": "{\"a\":1}"}}),
            json!({"function": {"name": "x", "arguments": {"a": 2}}}),
            json!({"function": {"name": "y", "arguments": ""}}),
        ]);
        assert_eq!(
            got,
            [
                call("call_1", "x", "{\"a\":1}"),
                call("call_2", "x", "{\"a\":2}"),
                call("call_3", "y", "")
            ]
        );
    }

    #[test]
    fn every_call_at_index_zero() {
        let got = calls(&[
            json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}}),
            json!({"index": 0, "id": "b", "function": {"name": "x", "arguments": "{}"}}),
        ]);
        assert_eq!(got, [call("a", "x", "{}"), call("b", "x", "{}")]);
    }

    #[test]
    fn a_new_id_in_every_piece_is_still_one_call() {
        let got = calls(&[
            json!({"index": 0, "id": "a", "function": {"name": "x"}}),
            json!({"index": 0, "id": "b", "function": {"arguments": "{\"a\":"}}),
            json!({"index": 0, "id": "c", "function": {"arguments": "1}"}}),
        ]);
        assert_eq!(got, [call("a", "x", "{\"a\":1}")]);
    }

    #[test]
    fn arguments_that_are_cut_stay_as_they_are() {
        let got = calls(&[
            json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"a\": "}}),
            json!({"index": 0, "function": {"arguments": "{}"}}),
        ]);
        assert_eq!(got, [call("a", "x", "{\"a\": {}")]);
    }
}

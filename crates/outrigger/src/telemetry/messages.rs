//! Words of people, models and tools as attributes, in the shape of the conventions for generative AI ("Capturing
//! instructions, inputs, and outputs").

use serde_json::json;

/// Characters of one attribute; what is longer is cut, and says so.
const MOST: usize = 64 * 1024;

/// What was asked: `gen_ai.input.messages`.
pub(super) fn asked(question: &str) -> String {
    let parts = json!([{ "type": "text", "content": cut(question) }]);
    json!([{ "role": "user", "parts": parts }]).to_string()
}

/// What was answered: `gen_ai.output.messages`.
pub(super) fn answered(text: &str, calls: bool) -> String {
    let parts = json!([{ "type": "text", "content": cut(text) }]);
    let reason = if calls { "tool_call" } else { "stop" };
    json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]).to_string()
}

/// At most [`MOST`] characters of it.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!(
            "{}… ({} bytes in all)",
            text.get(..end).unwrap_or_default(),
            text.len()
        ),
        None => text.to_owned(),
    }
}

//! Hidden characters in a definition. A person who reviews a tool, and a model that reads it, must
//! see the same text; one that hides something anywhere, in words or in keys, is not offered.

use serde_json::{Map, Value};

use crate::hidden;
use crate::text::shorten;

/// Bytes of a path that are told.
const PATH_BYTES: usize = 120;

/// Where a hidden character is in a definition, and which: words behind the tool's name.
pub(crate) fn hidden_in(definition: &Map<String, Value>) -> Option<String> {
    let mut path = Vec::new();
    members(definition, &mut path).map(|found| found.words(&path))
}

/// A hidden character at the end of a path.
struct Found {
    character: char,
    /// It is in the last part of the path itself.
    in_key: bool,
}

impl Found {
    fn words(&self, path: &[String]) -> String {
        let Self { character, in_key } = *self;
        let kind = hidden::kind(character).unwrap_or("hidden");
        let code = u32::from(character);
        let path = hidden::visible(&path.join("."), |_| false).into_owned();
        let key = if in_key { "key " } else { "" };
        format!(
            "its {key}`{}` hides the character U+{code:04X} ({kind})",
            shorten(&path, PATH_BYTES)
        )
    }
}

fn members(object: &Map<String, Value>, path: &mut Vec<String>) -> Option<Found> {
    for (key, value) in object {
        path.push(key.clone());
        let in_key = hidden::first(key).map(|character| Found {
            character,
            in_key: true,
        });
        if let Some(found) = in_key.or_else(|| within(value, path)) {
            return Some(found);
        }
        path.pop();
    }
    None
}

fn within(value: &Value, path: &mut Vec<String>) -> Option<Found> {
    match value {
        Value::String(text) => hidden::first(text).map(|character| Found {
            character,
            in_key: false,
        }),
        Value::Object(object) => members(object, path),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                if let Some(found) = within(item, path) {
                    return Some(found);
                }
                path.pop();
            }
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(definition: &Value) -> String {
        hidden_in(definition.as_object().unwrap()).unwrap_or_else(|| "nothing".to_owned())
    }

    #[test]
    fn the_place_and_the_character_are_named() {
        let cases = [
            json!({ "name": "a", "description": "Reads.\u{e0049}\u{e0067}" }),
            json!({ "name": "re\u{200b}ad" }),
            json!({ "title": "\u{202e}evil" }),
            json!({ "inputSchema": { "properties": { "pa\u{200d}th": { "type": "string" } } } }),
            json!({ "inputSchema": { "properties": { "x": { "enum": ["a", "b\u{ad}"] } } } }),
            json!({ "inputSchema": { "properties": { "x": { "default": "\u{1b}]0;x\u{7}" } } } }),
            json!({ "annotations": { "title": "\u{e000}" } }),
            json!({ "outputSchema": { "description": "\u{2066}" } }),
            json!({ "_meta": { "x": "\u{feff}" } }),
        ];
        let told: Vec<_> = cases.iter().map(told).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        its `description` hides the character U+E0049 (tag)
        its `name` hides the character U+200B (zero-width)
        its `title` hides the character U+202E (bidi control)
        its key `inputSchema.properties.pa\u{200d}th` hides the character U+200D (zero-width)
        its `inputSchema.properties.x.enum.1` hides the character U+00AD (soft hyphen)
        its `inputSchema.properties.x.default` hides the character U+001B (control character)
        its `annotations.title` hides the character U+E000 (private use)
        its `outputSchema.description` hides the character U+2066 (bidi control)
        its `_meta.x` hides the character U+FEFF (zero-width)
        ");
    }

    #[test]
    fn other_peoples_writing_is_no_fault() {
        let honest = json!({
            "name": "بحث", "title": "می‌خواهم", "description": "⚠️ Careful\r\n\t👩‍💻 1️⃣ 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
            "inputSchema": { "properties": { "naïve key 时区": { "enum": ["ภาษา\u{200b}ไทย", "葛\u{e0100}"], "default": "a\nb" } } },
        });
        assert_eq!(told(&honest), "nothing");
    }
}

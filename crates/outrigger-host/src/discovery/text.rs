//! What servers say about their tools, within lines of ours.

use serde_json::Value;

use crate::catalog::CatalogTool;
use crate::text::shorten;

/// Characters of a parameter list.
const SIGNATURE: usize = 300;
/// Values of an enumeration that are named.
const VALUES: usize = 6;

/// The first sentence of a description, on one line, in at most about `bytes` bytes.
pub(super) fn one_line(tool: &CatalogTool, bytes: usize) -> String {
    let text = if tool.description.trim().is_empty() {
        tool.title.as_deref().unwrap_or_default()
    } else {
        tool.description.trim()
    };
    let end = first_sentence(text);
    let line = text[..end]
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if line.len() <= bytes {
        return line;
    }
    let cut = &line[..line.floor_char_boundary(bytes)];
    format!("{}…", cut.trim_end())
}

/// Where the first sentence ends, in bytes: at a full stop before white space, or at an empty line.
fn first_sentence(text: &str) -> usize {
    let stop = |(at, c): (usize, char)| {
        let rest = &text[at + c.len_utf8()..];
        let ends = match c {
            '.' | '!' | '?' => rest.starts_with(char::is_whitespace),
            '。' | '！' | '？' => true,
            '\n' => {
                return rest
                    .trim_start_matches([' ', '\t', '\r'])
                    .starts_with('\n')
                    .then_some(at);
            }
            _ => false,
        };
        ends.then_some(at + c.len_utf8())
    };
    text.char_indices().find_map(stop).unwrap_or(text.len())
}

/// The parameters of a tool, required ones first: `owner: string, state?: open|closed`.
pub(super) fn signature(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    let (first, rest): (Vec<_>, Vec<_>) =
        properties.iter().partition(|(name, _)| is_required(name));
    let shown = |(name, property): &(&String, &Value)| {
        let mark = if is_required(name) { "" } else { "?" };
        format!("{}{mark}: {}", plain(name), kind(property))
    };
    let all: Vec<_> = first.iter().chain(&rest).map(shown).collect();
    shorten(&all.join(", "), SIGNATURE)
}

fn kind(property: &Value) -> String {
    if let Some(values) = property.get("enum").and_then(Value::as_array)
        && values.len() <= VALUES
    {
        let values: Vec<_> = values
            .iter()
            .map(|value| match value {
                Value::String(text) => plain(text),
                other => other.to_string(),
            })
            .collect();
        return values.join("|");
    }
    match property.get("type") {
        Some(Value::String(word)) => plain(word),
        Some(Value::Array(words)) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).map(plain).collect();
            words.join("|")
        }
        _ => "any".to_owned(),
    }
}

/// A word of a server without what could end its line.
fn plain(word: &str) -> String {
    word.chars()
        .map(|c| {
            if c.is_control() || c.is_whitespace() {
                ' '
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_ends_where_the_next_begins() {
        let cut = |text: &str| text[..first_sentence(text)].to_owned();
        assert_eq!(cut("Reads e.g. a file. Then more."), "Reads e.g.");
        assert_eq!(
            cut("Uses v1.2 of it\nand more\n\nLong story"),
            "Uses v1.2 of it\nand more"
        );
        assert_eq!(cut("查询车票。更多"), "查询车票。");
        assert_eq!(cut("No end"), "No end");
    }

    #[test]
    fn signatures_name_what_is_required_first() {
        let schema = json!({
            "properties": {
                "state": {"enum": ["open", "closed"]},
                "owner": {"type": "string"},
                "n": {"type": ["integer", "null"]},
                "x": {},
            },
            "required": ["owner"],
        });
        assert_eq!(
            signature(&schema),
            "owner: string, state?: open|closed, n?: integer|null, x?: any"
        );
    }
}

//! Text that came from elsewhere, made safe for a terminal: nothing hidden, nothing that moves the
//! cursor. What was there is still told, as `\u{…}`.

use std::borrow::Cow;

/// `text` on any number of lines.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n' || c == '\t')
}

/// `text` on one line: also line ends are told.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// The beginning of `text` on one line, in at most so many characters; a cut is told by `…`.
pub(crate) fn beginning(text: &str, characters: usize) -> String {
    let text = line(text);
    if text.chars().count() <= characters {
        return text.into_owned();
    }
    let head: String = text.chars().take(characters.saturating_sub(1)).collect();
    format!("{}…", head.trim_end())
}

/// `3 tools`, `1 tool`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// JSON on one line, with hidden characters as escapes: the same document, safe to look at.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            let units = c.encode_utf16(&mut [0; 2]).to_vec();
            out.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(|c| keep(c) || !is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if keep(c) || !is_hidden(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

/// Control characters, and characters that no reader sees or that turn the text around (bidi
/// controls, zero width, tags, variation selectors beyond emoji, private use).
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_told() {
        assert_eq!(
            lines("plain\ttext\nwith 时间 and 🎉"),
            "plain\ttext\nwith 时间 and 🎉"
        );
        assert_eq!(lines("\u{1b}[31mred\r\n"), "\\u{1b}[31mred\\r\n");
        assert_eq!(beginning("a  longer text", 9), "a  longe…");
        assert_eq!(
            (count(1, "tool"), count(0, "tool")),
            ("1 tool".into(), "0 tools".into())
        );
        assert_eq!(
            json("[\"a\u{9b}\u{e0041}é\"]"),
            r#"["a\u009b\udb40\udc41é"]"#
        );
        assert_eq!(line("a\nb\u{202e}c\u{e0041}"), "a\\nb\\u{202e}c\\u{e0041}");
    }
}

//! Text that came from elsewhere, made safe for a terminal: nothing hidden, nothing that moves the
//! cursor, nothing that pushes the rest out of view. What was there is still told, as `\u{…}`.
//! Which characters hide is known to [`outrigger_host::hidden`] alone.

use std::borrow::Cow;
use std::fmt::Write as _;

use outrigger_host::hidden::{self, visible};
use unicode_width::UnicodeWidthStr as _;

/// Line ends in a row, and blanks in a row, that are still shown one by one.
const LINE_ENDS: usize = 6;
const BLANKS: usize = 64;

/// `text` on any number of lines.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    visible(text, |c| c == '\n' || c == '\t')
}

/// `text` on one line: also line ends are told.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    visible(text, |_| false)
}

/// `text` on any number of lines, long runs of blanks told as such: they would push what stands
/// behind them out of view.
pub(crate) fn folded_lines(text: &str) -> String {
    lines(&fold(text, blank)).into_owned()
}

/// JSON with long runs of blanks told as such, also those in its strings. Not yet safe to print.
pub(crate) fn without_padding(json: &str) -> Cow<'_, str> {
    fold(json, blank_in_json)
}

/// JSON on one line, long runs of blanks told as such.
pub(crate) fn folded_json(json: &str) -> String {
    line(&without_padding(json)).into_owned()
}

/// One line of indented JSON; its indentation stays.
pub(crate) fn folded_json_line(json: &str) -> String {
    let indent = json.len() - json.trim_start_matches(' ').len();
    format!("{}{}", &json[..indent], folded_json(&json[indent..]))
}

/// JSON that says the same, without a character that a terminal acts on or hides.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let seen = |c: char| matches!(c, '\n' | '\u{fe0e}' | '\u{fe0f}');
    let acts = |c: char| !seen(c) && hidden::kind(c).is_some();
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
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

/// `1.5 MiB`, `17 bytes`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1 << 10 {
        return count(bytes, "byte");
    }
    let (mut tenths, mut unit) = (bytes.saturating_mul(10) / (1 << 10), 0);
    while tenths >= 10 << 10 && unit + 1 < UNITS.len() {
        tenths /= 1 << 10;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// How long ago, in the largest unit that fits.
pub(crate) fn age(since: jiff::Timestamp) -> String {
    let seconds = jiff::Timestamp::now()
        .duration_since(since)
        .as_secs()
        .unsigned_abs();
    let (number, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", count(number, unit))
}

/// `text` in lines of at most `width` characters, broken between words; what goes on stands `indent`
/// further in than it began. A word that is too long is left as it is.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut out = Vec::new();
    for line in text.lines() {
        let begin = line.len() - line.trim_start_matches(' ').len();
        let (mut current, mut used) = (line[..begin].to_owned(), begin);
        for word in line[begin..].split_inclusive(' ') {
            let length = word.trim_end().width();
            if used + length > width && !current.trim().is_empty() {
                out.push(current.trim_end().to_owned());
                current = " ".repeat(begin + indent);
                used = begin + indent;
            }
            current.push_str(word);
            used += word.width();
        }
        out.push(current);
    }
    out.join("\n")
}

/// `3 tools`, `1 tool`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// `1,838`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A blank at the beginning of a text.
#[derive(Clone, Copy)]
struct Blank {
    bytes: usize,
    ends_line: bool,
}

/// Takes long runs of what `blank` finds together.
fn fold(text: &str, blank: impl Fn(&str) -> Option<Blank>) -> Cow<'_, str> {
    let (mut out, mut at, mut kept) = (String::new(), 0, 0);
    while let Some(c) = text[at..].chars().next() {
        let (begin, mut blanks, mut line_ends) = (at, 0, 0);
        while let Some(found) = blank(&text[at..]) {
            at += found.bytes;
            blanks += 1;
            line_ends += usize::from(found.ends_line);
        }
        if line_ends > LINE_ENDS || blanks > BLANKS {
            out.push_str(&text[kept..begin]);
            // Writing to a String does not fail.
            let _ = match line_ends {
                0..=LINE_ENDS => write!(out, " … {blanks} blanks … "),
                _ if text[begin..].starts_with('\n') => {
                    write!(out, "\n… {} blank lines …\n", line_ends - 1)
                }
                _ => write!(out, " … {} blank lines … ", line_ends - 1),
            };
            kept = at;
        }
        if at == begin {
            at += escape_bytes(&text[at..]).unwrap_or(c.len_utf8());
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// Two bytes for an escaped backslash, whose second half begins no escape.
fn escape_bytes(text: &str) -> Option<usize> {
    text.starts_with("\\\\").then_some(2)
}

fn blank(text: &str) -> Option<Blank> {
    let c = text.chars().next()?;
    // U+2800 is Braille without a dot.
    (c.is_whitespace() || c == '\u{2800}').then(|| Blank {
        bytes: c.len_utf8(),
        ends_line: c == '\n',
    })
}

fn blank_in_json(text: &str) -> Option<Blank> {
    if let Some(found) = blank(text) {
        return Some(found);
    }
    let escape = text.strip_prefix('\\')?;
    let found = |bytes, ends_line| Some(Blank { bytes, ends_line });
    match escape.chars().next()? {
        'n' => found(2, true),
        't' | 'r' | 'f' | 'b' => found(2, false),
        'u' => {
            let code = u32::from_str_radix(escape.get(1..5)?, 16).ok()?;
            let c = blank(char::from_u32(code)?.encode_utf8(&mut [0; 4]))?;
            found(6, c.ends_line)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text =
            "  call 1: unknown in 2.1 s, ~66 tokens: no answer came\n    and the model said no";
        assert_eq!(
            wrapped(text, 30, 4),
            "  call 1: unknown in 2.1 s,\n      ~66 tokens: no answer\n      came\n    and the model said no"
        );
        let word = "x".repeat(50);
        assert_eq!(wrapped(&format!("  {word}"), 30, 4), format!("  {word}"));
        assert_eq!(wrapped(text, 200, 4), text);
    }

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
    #[test]
    fn what_pushes_text_out_of_view_is_folded() {
        let far = format!("Adds.{}Then sends.", "\n".repeat(401));
        assert_eq!(
            folded_lines(&far),
            "Adds.\n… 400 blank lines …\nThen sends."
        );
        let wide = format!("a{}b", " \t".repeat(100));
        assert_eq!(folded_lines(&wide), "a … 200 blanks … b");
        let (lines, spaces) = ("\\n".repeat(401), "\\u00a0 ".repeat(100));
        assert_eq!(
            folded_json(&format!(r#"{{"a":"x{lines}y","b":"{spaces}"}}"#)),
            r#"{"a":"x … 400 blank lines … y","b":" … 200 blanks … "}"#
        );
        for text in ["a\n\n\nb\n    c", r#"{"a":"C:\\new\\name\n","b":" "}"#] {
            assert_eq!(folded_lines(text), text);
            assert_eq!(folded_json(text), line(text));
        }
        // Escaped backslashes are no line ends, however many.
        let slashes = format!("\"{}\"", "\\\\n".repeat(50));
        assert_eq!(folded_json(&slashes), slashes);
    }

    #[test]
    fn json_says_the_same() {
        let value = serde_json::json!({ "a\u{e0041}": "\u{202e}\u{9b}31m\u{7f} ü 🎉\n" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = json(&text);
        assert!(
            shown
                .chars()
                .all(|c| c == '\n' || hidden::kind(c).is_none()),
            "{shown}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}

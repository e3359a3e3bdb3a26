//! Other people's bytes, made safe to show to a person.
//!
//! Promises: one line, bounded, no control characters. Leaves out: colour and translation.

use url::Url;

/// An address as a person knows it again: without user, password and query, which may be secret.
pub(crate) fn place(url: &Url) -> String {
    url.origin().ascii_serialization() + url.path()
}

/// The first `limit` characters as one line: white space runs become a space, control and
/// invisible direction characters are escaped.
pub(crate) fn excerpt(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(limit * 4)]);
    let mut out = String::new();
    let mut count = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() {
            gap = !out.is_empty();
            continue;
        }
        if count >= limit {
            out.push('…');
            return out;
        }
        if std::mem::take(&mut gap) {
            out.push(' ');
            count += 1;
        }
        push_safe(&mut out, c);
        count += 1;
    }
    if bytes.len() > limit * 4 {
        out.push('…');
    }
    out
}

fn push_safe(out: &mut String, c: char) {
    if c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
    {
        out.extend(c.escape_unicode());
    } else {
        out.push(c);
    }
}

/// A JSON string literal.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_cannot_move_the_cursor() {
        assert_eq!(excerpt(b"a\n\t b\x1b[2J", 20), "a b\\u{1b}[2J");
        assert_eq!(excerpt("é".repeat(9).as_bytes(), 4), "éééé…");
        assert_eq!(excerpt("\u{202e}x".as_bytes(), 4), "\\u{202e}x");
    }
}

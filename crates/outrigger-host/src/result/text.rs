//! Reading a JSON string of any size once. A parser collects a string with escapes in a buffer of its
//! own first, which costs a large text its memory twice.

use serde_json::value::RawValue;

/// What a JSON string stands for; `None` for what is no string. Half a surrogate pair becomes U+FFFD.
pub(super) fn of(raw: &RawValue) -> Option<String> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let (meant, length) = escape(&rest[at..])?;
        out.push(meant);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    Some(out)
}

/// The character that an escape at the beginning stands for, and the bytes that it takes (RFC 8259,
/// section 7).
fn escape(text: &str) -> Option<(char, usize)> {
    let plain = match text.as_bytes().get(1)? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(text),
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        _ => return None,
    };
    Some((plain, 2))
}

fn unicode(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let first = unit(0)?;
    if (0xD800..0xDC00).contains(&first)
        && let Some(second @ 0xDC00..0xE000) = unit(6)
    {
        let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return Some((char::from_u32(code)?, 12));
    }
    Some((
        char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER),
        6,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Option<String> {
        of(&RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn halves_of_pairs_are_marked_and_other_values_are_none() {
        assert_eq!(
            read(r#""a\ud83dbc\udc00""#).as_deref(),
            Some("a\u{fffd}bc\u{fffd}")
        );
        assert_eq!(read(r#""\ud83d\ude00\/""#).as_deref(), Some("😀/"));
        assert_eq!(read("7"), None);
        assert_eq!(read("null"), None);
    }

    proptest! {
        #[test]
        fn it_reads_what_a_parser_reads(text in any::<String>(), escaped: bool) {
            let json = if escaped {
                let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
                let units = units.collect::<Vec<_>>().concat();
                format!("\"{units}\"")
            } else {
                serde_json::to_string(&text).unwrap()
            };
            prop_assert_eq!(read(&json), Some(text));
        }
    }
}

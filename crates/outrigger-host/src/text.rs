//! Cutting text without losing sight of what was cut.

/// `text`, or its beginning and how much is missing, in at most about `bytes` bytes.
pub(crate) fn shorten(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_left_alone() {
        assert_eq!(shorten("abc", 3), "abc");
    }

    #[test]
    fn long_text_says_what_is_missing() {
        assert_eq!(shorten("abcdef", 4), "abcd… (2 bytes more)");
    }
}

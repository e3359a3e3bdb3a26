//! Cutting text without losing sight of what was cut.

/// `text`, or its beginning and how much is missing, in at most about `bytes` bytes.
pub(crate) fn shorten(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

/// `text`, or its head and tail with a line between them that says what is missing. Cuts at line
/// ends where one is near, else at characters. About three quarters of the room go to the head.
pub(crate) fn head_and_tail(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let head_end = text.floor_char_boundary(bytes / 4 * 3);
    let tail_start = text.ceil_char_boundary(text.len() - bytes / 4);
    let near = bytes / 16;
    let head_end = text[..head_end]
        .rfind('\n')
        .filter(|at| head_end - at <= near)
        .map_or(head_end, |at| at + 1);
    let tail_start = text[tail_start..]
        .find('\n')
        .filter(|at| *at <= near)
        .map_or(tail_start, |at| tail_start + at + 1);
    let left_out = &text[head_end..tail_start];
    format!(
        "{}\n[… {} bytes ({} lines) left out here; the whole is {} bytes …]\n{}",
        text[..head_end].trim_end_matches('\n'),
        left_out.len(),
        left_out.lines().count(),
        text.len(),
        &text[tail_start..]
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_text_is_left_alone() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(head_and_tail("abc", 3), "abc");
    }

    #[test]
    fn long_text_says_what_is_missing() {
        assert_eq!(shorten("abcdef", 4), "abcd… (2 bytes more)");
        let lines: Vec<_> = (0..100).map(|i| format!("line {i}")).collect();
        let text = format!("{}\n", lines.join("\n"));
        insta::assert_snapshot!(head_and_tail(&text, 100), @r"
        line 0
        line 1
        line 2
        line 3
        line 4
        line 5
        line 6
        line 7
        line 8
        line 9
        [… 696 bytes (87 lines) left out here; the whole is 790 bytes …]
        line 97
        line 98
        line 99
        ");
    }

    proptest! {
        #[test]
        fn never_splits_a_character(text in any::<String>(), bytes in 0_usize..200) {
            let cut = head_and_tail(&text, bytes);
            if text.len() > bytes {
                prop_assert!(cut.contains("left out here"));
            } else {
                prop_assert_eq!(cut, text);
            }
        }
    }
}

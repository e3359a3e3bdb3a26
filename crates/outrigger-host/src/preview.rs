//! The two ends of a text that is too long for a model, and what was left out between them.
//!
//! Cut at the ends of lines where one is near, within a giant line between characters as they are
//! seen (Unicode, UAX 29, grapheme clusters). About three quarters of the room go to the head.

use unicode_segmentation::GraphemeCursor;

use crate::artifact::ArtifactRef;
use crate::{hidden, tokens};

/// Bytes that one token stands for at the most, taken generously. A text with more than its tokens
/// times this is too long without being counted.
const MOST_BYTES: usize = 64;

/// The ends of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Its beginning.
    pub head: String,
    /// Its end; may be empty.
    pub tail: String,
    /// Bytes between them.
    pub left_bytes: u64,
    /// Lines between them that are shown in no part.
    pub left_lines: u64,
    /// The number of the first line that is not shown whole, from 1.
    pub next_line: u64,
    /// Bytes of the whole.
    pub bytes: u64,
    /// The artifact that holds the whole.
    pub artifact: Option<ArtifactRef>,
    /// Why there is none.
    pub not_kept: Option<String>,
}

/// What a text costs a model, or `None` when that is surely more than `most`.
pub(crate) fn cost(text: &str, most: u64) -> Option<u64> {
    if too_long(text, most) {
        return None;
    }
    let cost = tokens::estimate(&hidden::escape(text));
    (cost <= most).then_some(cost)
}

fn too_long(text: &str, most: u64) -> bool {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    text.len() > most.saturating_mul(MOST_BYTES)
}

impl Preview {
    /// The ends of `text` in about `room` tokens.
    pub(crate) fn of(text: &str, room: u64) -> Self {
        let head = head(text, room.div_ceil(4) * 3);
        let tail = tail(&text[head.len()..], room / 4);
        let left = &text[head.len()..text.len() - tail.len()];
        let next_line = lines(head) + u64::from(!head.is_empty() && !head.ends_with('\n'));
        Self {
            left_bytes: left.len() as u64,
            left_lines: lines(left),
            next_line: if head.is_empty() || head.ends_with('\n') {
                lines(head) + 1
            } else {
                next_line
            },
            bytes: text.len() as u64,
            head: head.to_owned(),
            tail: tail.to_owned(),
            artifact: None,
            not_kept: None,
        }
    }

    /// The same text in less room.
    pub(crate) fn shrink(&mut self, room: u64) {
        let head = head(&self.head, room.div_ceil(4) * 3);
        let tail = tail(&self.tail, room / 4);
        let (from_head, from_tail) = (
            &self.head[head.len()..],
            &self.tail[..self.tail.len() - tail.len()],
        );
        self.left_bytes += (from_head.len() + from_tail.len()) as u64;
        self.left_lines += lines(from_head) + lines(from_tail);
        self.next_line = self.next_line.min(lines(head) + 1);
        (self.head, self.tail) = (head.to_owned(), tail.to_owned());
    }

    /// Tokens of the two ends and the line between them, about.
    pub(crate) fn tokens(&self) -> u64 {
        let count = |text: &str| tokens::estimate(&hidden::escape(text));
        count(&self.head) + count(&self.tail) + count(&self.note())
    }

    /// What was left out, and how to come to it: one line.
    pub fn note(&self) -> String {
        let lines = match self.left_lines {
            0 => String::new(),
            1 => " (1 line)".to_owned(),
            lines => format!(" ({} lines)", grouped(lines)),
        };
        let left = format!("{} bytes{lines} left out here", grouped(self.left_bytes));
        let from = if self.left_lines > 0 {
            format!("line {}", self.next_line)
        } else {
            format!("byte {}", self.head.len())
        };
        let bytes = grouped(self.bytes);
        match (&self.artifact, &self.not_kept) {
            (Some(artifact), _) => format!(
                "[… {left}, from {from}; the whole, {bytes} bytes, is {} …]",
                artifact.handle
            ),
            (None, Some(why)) => {
                format!("[… {left}; the whole, {bytes} bytes, could not be kept: {why} …]")
            }
            (None, None) => format!("[… {left}; the whole is {bytes} bytes …]"),
        }
    }

    /// The ends with the note between them.
    pub fn text(&self) -> String {
        let head = self.head.strip_suffix('\n').unwrap_or(&self.head);
        let head = if head.is_empty() {
            String::new()
        } else {
            format!("{head}\n")
        };
        let tail = if self.tail.is_empty() {
            String::new()
        } else {
            format!("\n{}", self.tail)
        };
        format!("{head}{}{tail}", self.note())
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn lines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// The longest good beginning of at most `room` tokens.
fn head(text: &str, room: u64) -> &str {
    let most = text.floor_char_boundary(window(room));
    let fits =
        |end: usize| end == 0 || cost(&text[..text.floor_char_boundary(end)], room).is_some();
    let end = text.floor_char_boundary(last(most, fits));
    if end == text.len() {
        return text;
    }
    let line = text[..end].rfind('\n').map(|at| at + 1);
    let end = line
        .filter(|at| *at > end / 2)
        .unwrap_or_else(|| before(text, end));
    &text[..end]
}

/// The longest good end of at most `room` tokens.
fn tail(text: &str, room: u64) -> &str {
    let most = text.len().min(window(room));
    let from = |len: usize| text.ceil_char_boundary(text.len() - len);
    let fits = |len: usize| len == 0 || cost(&text[from(len)..], room).is_some();
    let len = last(most, fits);
    let start = from(len);
    if start == 0 {
        return text;
    }
    let line = text[start..].find('\n').map(|at| at + 1);
    let skipped = line.filter(|at| *at < (text.len() - start).div_ceil(2));
    let start = match skipped {
        Some(skipped) => start + skipped,
        None => after(text, start),
    };
    &text[start..]
}

fn window(room: u64) -> usize {
    usize::try_from(room)
        .unwrap_or(usize::MAX)
        .saturating_mul(MOST_BYTES)
}

/// The largest number up to `most` that fits, where 0 fits and what fits is below what does not.
fn last(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    if fits(most) {
        return most;
    }
    let (mut good, mut bad) = (0, most);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

/// The end of a grapheme at or before `at`, or `at` where none is near: no text is all one grapheme.
fn before(text: &str, at: usize) -> usize {
    let near = text.floor_char_boundary(at.saturating_sub(NEAR));
    let mut cursor = GraphemeCursor::new(at - near, text.len() - near, false);
    match cursor.is_boundary(&text[near..], 0) {
        Ok(true) => at,
        _ => cursor
            .prev_boundary(&text[near..], 0)
            .ok()
            .flatten()
            .filter(|found| *found > 0)
            .map_or(at, |found| near + found),
    }
}

/// The beginning of a grapheme at or after `at`, or `at` where none is near.
fn after(text: &str, at: usize) -> usize {
    let near = text.floor_char_boundary(at.saturating_sub(NEAR));
    let until = text.ceil_char_boundary((at + NEAR).min(text.len()));
    let mut cursor = GraphemeCursor::new(at - near, until - near, false);
    match cursor.is_boundary(&text[near..until], 0) {
        Ok(true) => at,
        _ => cursor
            .next_boundary(&text[near..until], 0)
            .ok()
            .flatten()
            .filter(|found| near + *found < until)
            .map_or(at, |found| near + found),
    }
}

/// Bytes in which a grapheme has to end to be kept whole.
const NEAR: usize = 128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines_to(last: usize) -> String {
        let lines: Vec<_> = (1..=last).map(|n| format!("line {n}\n")).collect();
        lines.concat()
    }

    #[test]
    fn lines_stay_whole_and_what_is_missing_is_told() {
        let text = lines_to(2000);
        insta::assert_snapshot!(Preview::of(&text, 24).text(), @r"
        line 1
        line 2
        line 3
        line 4
        line 5
        line 6
        line 7
        line 8
        line 9
        line 10
        [… 18,802 bytes (1,988 lines) left out here; the whole is 18,893 bytes …]
        line 1999
        line 2000
        ");
    }

    #[test]
    fn a_giant_line_is_cut_between_graphemes() {
        let text = "👩‍👩‍👧e\u{301}".repeat(2000);
        let preview = Preview::of(&text, 40);
        for end in [&preview.head, &preview.tail] {
            assert!(!end.is_empty());
            let whole = end.replace("👩‍👩‍👧", "").replace("e\u{301}", "");
            assert_eq!(whole, "", "{end}");
        }
        assert!(
            preview.note().contains("bytes left out here"),
            "{}",
            preview.note()
        );
    }

    #[test]
    fn it_can_shrink() {
        let text = lines_to(2000);
        let mut preview = Preview::of(&text, 200);
        preview.shrink(24);
        assert_eq!(preview, Preview::of(&text, 24));
    }

    #[test]
    fn a_cost_is_not_counted_where_it_cannot_fit() {
        assert_eq!(cost("eight by", 2), Some(2));
        assert_eq!(cost("eight by", 1), None);
        assert_eq!(cost(&"\n".repeat(1 << 20), 100), None);
    }

    proptest! {
        #[test]
        fn ends_are_ends_and_fit(text in "(\\PC|\n|[a-z ]{1,30}|e\u{301}){0,300}", room in 8_u64..120) {
            let preview = Preview::of(&text, room);
            prop_assert!(text.starts_with(&preview.head) && text.ends_with(&preview.tail));
            prop_assert_eq!(
                preview.head.len() as u64 + preview.left_bytes + preview.tail.len() as u64,
                text.len() as u64
            );
            prop_assert!(cost(&preview.head, room.div_ceil(4) * 3).is_some());
            prop_assert!(cost(&preview.tail, room / 4).is_some());
        }
    }
}

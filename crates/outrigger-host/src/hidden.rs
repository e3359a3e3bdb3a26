//! Characters that a reader does not see, or that turn around what is seen. The one place that
//! knows them; catalog, words for models and the terminal all ask here.
//!
//! Many of them have an honest use: joiners hold emoji together and write Persian, selectors choose
//! between a glyph and an emoji. [`first`] and [`escape`] let these pass where they are at home, and
//! only there, so that they cannot carry a message. [`visible`] lets none pass, for places where
//! every character has to be seen. Words are written out as `\u{202e}`.

use std::borrow::Cow;

/// How far, in characters, a mark of direction may be from letters that are read leftwards.
const NEAR: usize = 64;

/// The first hidden character of a text of any number of lines, if there is one.
pub fn first(text: &str) -> Option<char> {
    if is_plain(text) {
        return None;
    }
    text.char_indices()
        .find(|(at, c)| is_hidden(text, *at, *c))
        .map(|(_, c)| c)
}

/// `text` with its hidden characters written out. Line ends, tabs, and characters that are at home
/// stay as they are.
pub fn escape(text: &str) -> Cow<'_, str> {
    if first(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for (at, c) in text.char_indices() {
        if is_hidden(text, at, c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// `text` with everything written out that [`kind`] knows, at home or not, but for what `keep`
/// keeps. Only the selector behind an emoji stays: it is seen.
pub fn visible(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(|c| keep(c) || kind(c).is_none()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for (at, c) in text.char_indices() {
        match c {
            c if keep(c) || kind(c).is_none() || chooses_a_look(&text[..at], c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

/// What kind of hidden character it is; `None` for one that is seen. Line ends and tabs are control
/// characters here.
pub fn kind(c: char) -> Option<&'static str> {
    let code = u32::from(c);
    Some(match c {
        c if c.is_control() => "control character",
        '\u{ad}' => "soft hyphen",
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            "bidi control"
        }
        '\u{34f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' => "zero-width",
        '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}' => "filler",
        '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            "variation selector"
        }
        '\u{2028}' | '\u{2029}' => "line separator",
        _ if (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe => "noncharacter",
        '\u{e0000}'..='\u{e0fff}' => "tag",
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => "private use",
        _ => return None,
    })
}

fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|b| (b' '..=b'~').contains(&b) || matches!(b, b'\n' | b'\r' | b'\t'))
}

/// Whether `c`, which stands at `at` in `text`, hides there.
fn is_hidden(text: &str, at: usize, c: char) -> bool {
    if matches!(c, '\n' | '\r' | '\t') || kind(c).is_none() {
        return false;
    }
    let (before, after) = (&text[..at], &text[at + c.len_utf8()..]);
    !is_at_home(before, c, after)
}

/// Whether its neighbours give a character that is not seen an honest use. No such character may
/// stand beside another of its own kind, so that runs of them never pass.
fn is_at_home(before: &str, c: char, after: &str) -> bool {
    let (Some(left), right) = (before.chars().next_back(), after.chars().next()) else {
        return false;
    };
    match c {
        '\u{200d}' if ends_with_emoji(before) => right.is_some_and(is_emoji),
        '\u{200c}' | '\u{200d}' => joins(left),
        '\u{200b}' => is_spaceless(left) && right.is_some_and(is_spaceless),
        '\u{61c}' | '\u{200e}' | '\u{200f}' => {
            kind(left).is_none()
                && before
                    .chars()
                    .rev()
                    .take(NEAR)
                    .chain(after.chars().take(NEAR))
                    .any(reads_leftwards)
        }
        '\u{180b}'..='\u{180f}' => ('\u{1820}'..='\u{18aa}').contains(&left),
        '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e01ef}' => is_han(left),
        '\u{e0020}'..='\u{e007f}' => is_flag(before, c, after),
        _ => chooses_a_look(before, c),
    }
}

/// A selector of text or emoji style behind a character that has both, or, where a text was cut
/// just before it, at the beginning.
fn chooses_a_look(before: &str, c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
        && before.chars().next_back().is_none_or(|left| {
            is_emoji(left)
                || matches!(
                    left,
                    '#' | '*' | '0'
                        ..='9' | '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙'
                )
        })
}

/// Whether there is an emoji at the end, with its selector where it has one.
fn ends_with_emoji(text: &str) -> bool {
    let bare = text.strip_suffix('\u{fe0f}').unwrap_or(text);
    bare.chars().next_back().is_some_and(is_emoji)
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Letters of scripts in which joiners choose between forms: Arabic and its kin, and those of India.
fn joins(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{fb50}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}')
}

/// Letters of scripts that write no spaces between words.
fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}' | '\u{17b6}'..='\u{17ff}'
        | '\u{1980}'..='\u{19ff}' | '\u{1a20}'..='\u{1aaf}')
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

fn reads_leftwards(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{61b}' | '\u{61d}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Whether a tag belongs to one of the flags of England, Scotland and Wales, the only ones that
/// emoji fonts have (Unicode, UTS 51, "RGI emoji tag sequence").
fn is_flag(before: &str, c: char, after: &str) -> bool {
    const FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];
    const LONGEST: usize = 6;
    let is_tag = |c: &char| ('\u{e0020}'..='\u{e007f}').contains(c);
    let left = before.chars().rev().take(LONGEST).take_while(is_tag);
    let left: Vec<char> = left.collect();
    let base = before.chars().rev().nth(left.len());
    let right = after.chars().take_while(is_tag).take(LONGEST);
    let tags = left.iter().rev().copied().chain([c]).chain(right);
    let letters: String = tags
        .filter_map(|tag| char::from_u32(u32::from(tag) - 0xe0000))
        .collect();
    base == Some('\u{1f3f4}')
        && letters
            .strip_suffix('\u{7f}')
            .is_some_and(|name| FLAGS.contains(&name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts as people write them.
    const HONEST: [&str; 16] = [
        "plain\ttext,\r\non two lines",
        "caution ⚠️ and 🛡️ and ❤️",
        "a family 👨‍👩‍👧‍👦, a pilot 🧑🏽‍✈️, a rainbow 🏳️‍🌈, a heart ❤️‍🔥",
        "keys 1️⃣ #️⃣ and flags 🇩🇪 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
        "می‌خواهم فایل را بخوانم",
        "क्‍ष and ශ්‍රී",
        "שלום (C++)\u{200e} עולם",
        "العربية\u{200f} (API)",
        "ภาษา\u{200b}ไทย",
        "葛\u{e0100}城市 and 﨑\u{fe00}",
        "ᠮᠣᠩᠭᠣᠯ\u{180b}",
        "時間と時間帯, 查询, Zeit für Ümläute",
        "narrow\u{202f}space, no\u{a0}break, wide\u{3000}",
        "text style ☎︎ and ™️",
        "",
        "combined e\u{301}",
    ];

    #[test]
    fn honest_text_passes() {
        for text in HONEST {
            assert_eq!(first(text), None, "{text:?}");
            assert_eq!(escape(text), text);
        }
    }

    #[test]
    fn what_hides_is_found_and_written_out() {
        let cases = [
            ("a\u{e0041}\u{e0042}b", "a\\u{e0041}\\u{e0042}b", "tag"),
            ("a\u{202e}b", "a\\u{202e}b", "bidi control"),
            ("a\u{2066}b", "a\\u{2066}b", "bidi control"),
            ("left\u{200e}right", "left\\u{200e}right", "bidi control"),
            ("pass\u{200b}word", "pass\\u{200b}word", "zero-width"),
            ("a\u{200d}b", "a\\u{200d}b", "zero-width"),
            ("👍\u{200d}b", "👍\\u{200d}b", "zero-width"),
            ("می\u{200c}\u{200c}خ", "می\u{200c}\\u{200c}خ", "zero-width"),
            ("\u{feff}text", "\\u{feff}text", "zero-width"),
            ("so\u{ad}ft", "so\\u{ad}ft", "soft hyphen"),
            ("\u{e000}", "\\u{e000}", "private use"),
            ("\u{100000}", "\\u{100000}", "private use"),
            ("a\u{fe0f}b", "a\\u{fe0f}b", "variation selector"),
            (
                "⚠\u{fe0f}\u{fe0f}",
                "⚠\u{fe0f}\\u{fe0f}",
                "variation selector",
            ),
            ("⚠\u{fe01}", "⚠\\u{fe01}", "variation selector"),
            (
                "😀\u{e0101}\u{e0102}",
                "😀\\u{e0101}\\u{e0102}",
                "variation selector",
            ),
            ("red \u{1b}[31m", "red \\u{1b}[31m", "control character"),
            ("\u{9b}31m", "\\u{9b}31m", "control character"),
            ("a\u{3164}b", "a\\u{3164}b", "filler"),
            ("a\u{2028}b", "a\\u{2028}b", "line separator"),
            ("a\u{fdd0}", "a\\u{fdd0}", "noncharacter"),
            // A flag that no font has is a message.
            (
                "🏴\u{e0068}\u{e0069}\u{e007f}",
                "🏴\\u{e0068}\\u{e0069}\\u{e007f}",
                "tag",
            ),
        ];
        for (text, written, what) in cases {
            let found = first(text).unwrap_or_else(|| panic!("{text:?}"));
            assert_eq!(kind(found), Some(what), "{text:?}");
            assert_eq!(escape(text), written);
        }
    }

    #[test]
    fn nothing_is_at_home_where_everything_has_to_be_seen() {
        let none = |_: char| false;
        assert_eq!(visible("می\u{200c}خ\n", none), "می\\u{200c}خ\\n");
        assert_eq!(visible("👨\u{200d}👩", none), "👨\\u{200d}👩");
        assert_eq!(visible("⚠️ a\u{fe0f}", none), "⚠️ a\\u{fe0f}");
        assert_eq!(visible("a\tb\r\n", |c| c == '\n'), "a\\tb\\r\n");
    }

    proptest! {
        #[test]
        fn what_was_escaped_hides_nothing(text in any::<String>()) {
            let escaped = escape(&text).into_owned();
            prop_assert_eq!(first(&escaped), None);
            prop_assert_eq!(escape(&escaped), escaped.as_str());
        }

        #[test]
        fn of_what_is_visible_every_character_is_seen(text in any::<String>()) {
            let shown = visible(&text, |_| false).into_owned();
            let seen = |c: char| kind(c).is_none() || matches!(c, '\u{fe0e}' | '\u{fe0f}');
            prop_assert!(shown.chars().all(seen), "{:?}", shown);
        }

        #[test]
        fn a_long_run_never_passes(c in proptest::sample::select(vec![
            '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{fe0f}', '\u{e0061}', '\u{e0101}', '\u{2060}',
        ]), base in proptest::sample::select(vec!["a", "می", "👍", "🏴", "漢", "ไท", "שלום"])) {
            let run: String = std::iter::repeat_n(c, 8).collect();
            let text = format!("{base}{run}{base}");
            prop_assert!(escape(&text).matches("\\u{").count() >= 7, "{:?}", escape(&text));
        }
    }
}

//! Names of files as JSON can carry them, and back.
//!
//! Promises: whatever `list` shows can be given to `read`. A name that is not UTF-8 is shown with
//! `\xE9` for each byte that is none; a path with such an escape is first tried as it stands.
//! Leaves out judging where a path leads; see [`super::root`].

use std::{
    ffi::OsStr,
    fmt::Write,
    path::{Component, Path, PathBuf},
};

/// `path` with `/` between its parts and escapes for bytes that are not UTF-8.
pub(super) fn shown(path: &Path) -> String {
    let mut shown = String::new();
    for component in path.components() {
        if component == Component::CurDir {
            continue;
        }
        if !shown.is_empty() {
            shown.push('/');
        }
        push_name(&mut shown, component.as_os_str());
    }
    if shown.is_empty() {
        shown.push('.');
    }
    shown
}

fn push_name(shown: &mut String, name: &OsStr) {
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        shown.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\x{byte:02X}");
        }
    }
}

/// One line of text for `shown`, whatever is in the name.
pub(super) fn on_one_line(shown: &str) -> String {
    shown
        .chars()
        .flat_map(|character| {
            let escaped = character.is_control();
            let plain = (!escaped).then_some(character);
            plain
                .into_iter()
                .chain(character.escape_default().filter(move |_| escaped))
        })
        .collect()
}

/// The path meant by escapes in `text`, where it has any.
#[cfg(unix)]
pub(super) fn unescaped(text: &str) -> Option<PathBuf> {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};

    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    let mut found = false;
    while let Some((&first, others)) = rest.split_first() {
        if let Some(byte) = rest.strip_prefix(b"\\x").and_then(hex_byte) {
            bytes.push(byte);
            rest = rest.get(4..).unwrap_or_default();
            found = true;
        } else {
            bytes.push(first);
            rest = others;
        }
    }
    found.then(|| PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(unix)]
fn hex_byte(text: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(text.get(..2)?).ok()?;
    // ASCII is never escaped, and `/` must not be smuggled in.
    u8::from_str_radix(digits, 16)
        .ok()
        .filter(|byte| *byte >= 0x80)
}

/// Other systems have no such names.
#[cfg(not(unix))]
pub(super) fn unescaped(_text: &str) -> Option<PathBuf> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_shown_and_found_again() {
        let path = PathBuf::from(OsString::from_vec(b"a/caf\xe9.txt".to_vec()));
        assert_eq!(shown(&path), "a/caf\\xE9.txt");
        assert_eq!(unescaped("a/caf\\xE9.txt"), Some(path));
        assert_eq!(unescaped("plain.txt"), None);
        assert_eq!(unescaped("a\\x2Fb"), None);
        assert_eq!(shown(Path::new("./")), ".");
        assert_eq!(on_one_line("a\nb\u{1b}"), "a\\nb\\u{1b}");
    }

    proptest! {
        #[test]
        fn every_name_comes_back(bytes in prop::collection::vec(1_u8..=255, 1..12)) {
            let bytes: Vec<u8> = bytes.into_iter().filter(|byte| !b"/\\.".contains(byte)).collect();
            prop_assume!(!bytes.is_empty());
            let path = PathBuf::from(OsString::from_vec(bytes));
            let shown = shown(&path);
            let back = unescaped(&shown).unwrap_or_else(|| PathBuf::from(&shown));
            prop_assert_eq!(back, path);
        }
    }
}

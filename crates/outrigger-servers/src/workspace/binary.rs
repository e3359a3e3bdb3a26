//! Tells text from everything else by the first bytes of a file.
//!
//! Promises: what has a NUL in its first 8 KiB, or starts like a well-known binary format, is not
//! text. Leaves out guessing encodings: text is UTF-8.

const LOOKED_AT: usize = 8192;

const FORMATS: [(&[u8], &str); 17] = [
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document)"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\x00asm", "a WebAssembly module"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// What `content` is, unless it may be text.
pub(super) fn kind(content: &[u8]) -> Option<&'static str> {
    let known = FORMATS
        .iter()
        .find(|(start, _)| content.starts_with(start))
        .map(|(_, kind)| *kind);
    let has_nul = || {
        let start = content.get(..LOOKED_AT).unwrap_or(content);
        start.contains(&0).then_some("binary data")
    };
    known.or_else(has_nul)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_the_rest_has_a_name() {
        assert_eq!(kind(b""), None);
        assert_eq!(kind("héllo\r\n".as_bytes()), None);
        assert_eq!(kind(b"\xef\xbb\xbfwith a byte order mark"), None);
        assert_eq!(kind(b"%PDF-1.7"), Some("a PDF document"));
        assert_eq!(kind(b"\xff\xfeh\x00i\x00"), Some("UTF-16 text"));
        assert_eq!(kind(b"ab\x00cd"), Some("binary data"));
    }
}

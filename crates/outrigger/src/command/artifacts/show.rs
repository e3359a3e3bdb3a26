//! One artifact: its facts, and how it begins.

use outrigger_journal::{ArtifactAbout, Artifacts, KnownOrigin};

use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::visible;

/// How much of the content is looked at, and how many lines and characters of it are shown.
const HEAD: u64 = 16 << 10;
const LINES: usize = 20;
const CHARACTERS: usize = 2_000;

pub(super) async fn run(
    artifacts: &Artifacts,
    handle: &str,
    json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let about = artifacts.about(handle).await?;
    if json {
        return screen.json(&about);
    }
    facts(&about, screen)?;
    if let Some(at) = about.line.collected {
        let told = format!("its content was removed {} to make room", visible::age(at));
        return Ok(screen.data(&format!("\n{}\n", screen.ink(Label::Warn, &told)))?);
    }
    let head = artifacts.read(&about.line.digest, 0..HEAD).await?;
    let told = match text(&head, about.line.bytes) {
        Some((shown, left)) => format!("\n{shown}{left}"),
        None => "\nit is not text; `outrigger artifacts export` writes it into a file\n".to_owned(),
    };
    Ok(screen.data(&told)?)
}

fn facts(about: &ArtifactAbout, screen: Screen) -> std::io::Result<()> {
    let line = &about.line;
    let origins = about.all_origins.iter().map(|known| ("from", from(known)));
    let rows = [
        ("type", line.media_type.clone()),
        (
            "size",
            format!("{} ({} bytes)", visible::size(line.bytes), line.bytes),
        ),
        ("sha256", line.digest.to_string()),
        ("kept", line.created.strftime("%F %T UTC").to_string()),
        ("used", visible::age(line.used)),
    ];
    screen.data(&format!("{}\n", screen.ink(Label::Name, &line.handle)))?;
    for (key, value) in rows.into_iter().chain(origins) {
        screen.data(&format!(
            "{} {}\n",
            screen.ink(Label::Dim, &format!("{key:<7}")),
            visible::line(&value)
        ))?;
    }
    Ok(())
}

fn from(known: &KnownOrigin) -> String {
    let origin = &known.origin;
    let block = match origin.block {
        Some(block) => format!("block {block}"),
        None => "the whole answer".to_owned(),
    };
    let name = known.name.as_deref().map(|name| format!("`{name}`, "));
    format!(
        "{} {}, {}{block} of call {}, run {}",
        origin.server,
        origin.tool,
        name.unwrap_or_default(),
        origin.call,
        origin.run,
    )
}

/// The beginning of a text, safe for a terminal, and words about the rest; `None` for what is not
/// text.
fn text(head: &[u8], bytes: u64) -> Option<(String, String)> {
    let head = match std::str::from_utf8(head) {
        Ok(head) => head,
        // The end of what was read may be in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(head.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    if head.contains('\0') {
        return None;
    }
    let end = head
        .char_indices()
        .nth(CHARACTERS)
        .map_or(head.len(), |(at, _)| at);
    let lines = head[..end].split_inclusive('\n').take(LINES);
    let shown: String = lines.collect();
    let left = bytes - shown.len() as u64;
    let mut told = visible::folded_lines(&shown);
    if !told.is_empty() && !told.ends_with('\n') {
        told.push('\n');
    }
    let left = match left {
        0 => String::new(),
        left => format!("… {} more\n", visible::size(left)),
    };
    Some((told, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(head: &[u8]) -> Option<String> {
        text(head, head.len() as u64).map(|(shown, left)| shown + &left)
    }

    #[test]
    fn a_beginning_ends_at_a_line_or_character_and_says_what_is_left() {
        assert_eq!(shown(b"one\ntwo").unwrap(), "one\ntwo\n");
        assert_eq!(shown(b"").unwrap(), "");
        let lines = "a line\n".repeat(25);
        let told = shown(lines.as_bytes()).unwrap();
        assert!(told.ends_with("a line\n… 35 bytes more\n"), "{told}");
        let long = "ä".repeat(3_000);
        let told = shown(long.as_bytes()).unwrap();
        assert_eq!(told, format!("{}\n… 1.9 KiB more\n", "ä".repeat(2_000)));
        // What was read ends within a character.
        assert_eq!(shown(&"ä".as_bytes()[..1]).unwrap(), "… 1 byte more\n");
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_is_shown_and_no_bytes() {
        assert_eq!(shown(b"a\x1b[2Jb").unwrap(), "a\\u{1b}[2Jb\n");
        for bytes in [&b"\x89PNG\r\n"[..], b"a\0b", b"ok \xff ok"] {
            assert_eq!(shown(bytes), None);
        }
    }
}

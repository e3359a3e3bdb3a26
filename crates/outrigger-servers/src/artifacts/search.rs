//! `search_artifact`: the lines that match a regular expression.
//!
//! Promises: linear time, whatever the pattern; at most [`MOST`] matches, each with its line and the
//! byte at which it stands, so that it can be read on from there. Leaves out matches over the end of
//! a line, and in a line of more than a few MB those over the border of two pieces.

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArtifactReader, ArtifactsError, PIECE, find, piece};

/// Matches that are told.
const MOST: usize = 40;
/// Bytes of a line that are shown around a match, before and behind it.
const AROUND: usize = 100;
/// Bytes of a line that are looked at together.
const LONGEST_LINE: usize = 4 << 20;
/// Memory of a compiled pattern.
const PATTERN: usize = 1 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// artifact://…
    artifact: String,
    /// Regular expression, matched line by line; (?i) ignores case.
    pattern: String,
    /// First line to search, from 1.
    #[schemars(range(min = 1))]
    line: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Found {
    matches: Vec<Match>,
    /// Lines that were searched.
    lines: u64,
    /// False when there may be more matches.
    complete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Match {
    line: u64,
    /// Position of the match, in bytes from the beginning of the artifact.
    byte: u64,
    /// The line, or what is around the match.
    text: String,
}

struct Search {
    pattern: Regex,
    from: u64,
    line: u64,
    found: Found,
}

pub(super) async fn search(
    reader: &dyn ArtifactReader,
    arguments: &Arguments,
) -> Result<Found, ArtifactsError> {
    let pattern = RegexBuilder::new(&arguments.pattern)
        .size_limit(PATTERN)
        .build()
        .map_err(|error| ArtifactsError::Pattern(error.to_string()))?;
    let artifact = find(reader, &arguments.artifact).await?;
    let mut search = Search {
        pattern,
        from: arguments.line.unwrap_or(1),
        line: 1,
        found: Found {
            matches: Vec::new(),
            lines: 0,
            complete: true,
        },
    };
    let mut rest: Vec<u8> = Vec::new();
    let mut at = 0;
    while at < artifact.size && search.found.complete {
        let bytes = piece(reader, &artifact, (at, at + PIECE)).await?;
        if bytes.is_empty() {
            break;
        }
        let start = at - rest.len() as u64;
        at += bytes.len() as u64;
        rest.extend_from_slice(&bytes);
        let end = match memchr::memrchr(b'\n', &rest) {
            _ if at >= artifact.size => rest.len(),
            Some(end) => end + 1,
            None if rest.len() >= LONGEST_LINE => rest.len(),
            None => continue,
        };
        search.lines(start, &rest[..end]);
        rest.drain(..end);
    }
    Ok(search.found)
}

impl Search {
    /// Searches bytes that end where a line does, or are part of one that is too long.
    fn lines(&mut self, start: u64, bytes: &[u8]) {
        let mut from = 0;
        while from < bytes.len() {
            let end = memchr::memchr(b'\n', &bytes[from..]).map(|at| from + at);
            let line = &bytes[from..end.unwrap_or(bytes.len())];
            if self.line >= self.from {
                self.found.lines += 1;
                for hit in self.pattern.find_iter(line) {
                    if self.found.matches.len() == MOST {
                        self.found.complete = false;
                        return;
                    }
                    let byte = start + (from + hit.start()) as u64;
                    let text = excerpt(line, hit.range());
                    self.found.matches.push(Match {
                        line: self.line,
                        byte,
                        text,
                    });
                    // One is enough to show a line that is shown whole.
                    if line.len() <= 2 * AROUND {
                        break;
                    }
                }
            }
            let Some(end) = end else { return };
            self.line += 1;
            from = end + 1;
        }
    }
}

/// A line, or what is around a match in a long one.
fn excerpt(line: &[u8], hit: std::ops::Range<usize>) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= 2 * AROUND {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = hit.start.saturating_sub(AROUND);
    let end = (hit.start + AROUND)
        .max(hit.end.min(hit.start + 2 * AROUND))
        .min(line.len());
    let text = String::from_utf8_lossy(&line[start..end]);
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    format!("{before}{}{after}", text.trim_matches('\u{fffd}'))
}

impl Found {
    pub(super) fn text(&self) -> String {
        let lines = self.matches.iter().map(|found| {
            let Match { line, byte, text } = found;
            if text.starts_with('…') || text.ends_with('…') {
                format!("{line} (byte {byte}): {text}")
            } else {
                format!("{line}: {text}")
            }
        });
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            return format!("No match in {} lines.", self.lines);
        }
        lines.join("\n")
    }

    pub(super) fn note(&self) -> Option<String> {
        let last = self.matches.last().filter(|_| !self.complete)?;
        Some(format!(
            "There are more matches. For these: line {}, or another pattern.",
            last.line + 1
        ))
    }
}

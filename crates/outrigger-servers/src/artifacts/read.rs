//! `read_artifact`: a slice by lines, by bytes, or of the value at a JSON pointer.
//!
//! Promises: an answer ends at the end of a line where there is one, else between characters, and
//! says where to go on; what is no UTF-8 is shown as U+FFFD and told.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ANSWER, Artifact, ArtifactReader, ArtifactsError, PIECE, find, piece, place};

/// Bytes of JSON in which a pointer is followed (256 MiB).
const LARGEST_JSON: u64 = 256 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// artifact://…
    artifact: String,
    /// First line, from 1.
    #[schemars(range(min = 1))]
    line: Option<u64>,
    /// First byte, from 0.
    #[schemars(range(min = 0))]
    byte: Option<u64>,
    /// JSON pointer, e.g. /rows/0.
    pointer: Option<String>,
    /// Lines or bytes at most.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Slice {
    pub(super) text: String,
    /// What it is a slice of, in bytes: all of the artifact, or the value at the pointer.
    of_bytes: u64,
    /// Position of its first byte in that.
    from_byte: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_line: Option<u64>,
    /// Where the next slice begins; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_byte: Option<u64>,
    /// It holds bytes that are no text.
    binary: bool,
}

pub(super) async fn read(
    reader: &dyn ArtifactReader,
    arguments: &Arguments,
) -> Result<Slice, ArtifactsError> {
    let artifact = find(reader, &arguments.artifact).await?;
    match (arguments.line, arguments.byte, &arguments.pointer) {
        (line, None, None) => by_lines(reader, &artifact, line.unwrap_or(1), arguments.limit).await,
        (None, Some(byte), None) => by_bytes(reader, &artifact, byte, arguments.limit).await,
        (None, byte, Some(pointer)) => {
            let place = (pointer.as_str(), byte.unwrap_or(0));
            by_pointer(reader, &artifact, place, arguments.limit).await
        }
        _ => Err(ArtifactsError::TwoPlaces),
    }
}

async fn by_lines(
    reader: &dyn ArtifactReader,
    artifact: &Artifact,
    line: u64,
    limit: Option<usize>,
) -> Result<Slice, ArtifactsError> {
    let start = start_of(reader, artifact, line).await?;
    let bytes = piece(reader, artifact, (start, start + ANSWER as u64)).await?;
    let at_end = start + bytes.len() as u64 == artifact.size;
    let ends = memchr::memchr_iter(b'\n', &bytes).map(|at| at + 1);
    let mut whole: Vec<usize> = ends.collect();
    if at_end && whole.last().copied().unwrap_or(0) < bytes.len() {
        whole.push(bytes.len());
    }
    whole.truncate(limit.unwrap_or(usize::MAX));
    let lines = whole.len() as u64;
    let Some(end) = whole.pop() else {
        if bytes.is_empty() {
            return Ok(Slice::of(artifact.size, start, &[]));
        }
        // One line that is longer than an answer.
        let mut slice = Slice::of(artifact.size, start, &bytes);
        (slice.first_line, slice.last_line) = (Some(line), Some(line));
        return Ok(slice);
    };
    let mut slice = Slice::of(artifact.size, start, &bytes[..end]);
    slice.first_line = Some(line);
    slice.last_line = Some(line + lines - 1);
    Ok(slice)
}

/// Where a line begins.
async fn start_of(
    reader: &dyn ArtifactReader,
    artifact: &Artifact,
    line: u64,
) -> Result<u64, ArtifactsError> {
    let (mut at, mut before) = (0, line - 1);
    let mut last = None;
    if before == 0 {
        return Ok(0);
    }
    while at < artifact.size {
        let bytes = piece(reader, artifact, (at, at + PIECE)).await?;
        for end in memchr::memchr_iter(b'\n', &bytes) {
            before -= 1;
            let start = at + end as u64 + 1;
            if before == 0 && start < artifact.size {
                return Ok(start);
            }
            if before == 0 {
                break;
            }
        }
        last = bytes.last().copied().or(last);
        at += bytes.len().max(1) as u64;
    }
    let unfinished = last.is_some_and(|last| last != b'\n');
    let total = line - 1 - before + u64::from(unfinished);
    Err(ArtifactsError::NoLine { line, total })
}

async fn by_bytes(
    reader: &dyn ArtifactReader,
    artifact: &Artifact,
    byte: u64,
    limit: Option<usize>,
) -> Result<Slice, ArtifactsError> {
    let size = artifact.size;
    if byte > 0 && byte >= size {
        return Err(ArtifactsError::NoByte { byte, size });
    }
    let most = limit.unwrap_or(ANSWER).min(ANSWER) as u64;
    let bytes = piece(reader, artifact, (byte, byte + most)).await?;
    Ok(Slice::of(size, byte, &bytes))
}

async fn by_pointer(
    reader: &dyn ArtifactReader,
    artifact: &Artifact,
    (pointer, byte): (&str, u64),
    limit: Option<usize>,
) -> Result<Slice, ArtifactsError> {
    let size = artifact.size;
    if size > LARGEST_JSON {
        let limit = LARGEST_JSON;
        return Err(ArtifactsError::LargeJson { size, limit });
    }
    let bytes = piece(reader, artifact, (0, size)).await?;
    let json = |reason: &dyn std::fmt::Display| ArtifactsError::NotJson {
        reason: reason.to_string(),
    };
    let text = str::from_utf8(&bytes).map_err(|error| json(&error))?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| json(&error))?;
    let value = place::value(whole, pointer)?.get().as_bytes();
    let start = usize::try_from(byte).unwrap_or(usize::MAX);
    let size = value.len() as u64;
    let Some(rest) = value
        .get(start..)
        .filter(|rest| byte == 0 || !rest.is_empty())
    else {
        return Err(ArtifactsError::NoByte { byte, size });
    };
    let most = limit.unwrap_or(ANSWER).min(ANSWER).min(rest.len());
    Ok(Slice::of(size, byte, &rest[..most]))
}

impl Slice {
    fn of(of_bytes: u64, from_byte: u64, bytes: &[u8]) -> Self {
        let at_end = from_byte + bytes.len() as u64 == of_bytes;
        // A character that is cut off at the end belongs to the next slice.
        let cut = match str::from_utf8(bytes) {
            Err(error) if !at_end && error.error_len().is_none() && error.valid_up_to() > 0 => {
                error.valid_up_to()
            }
            _ => bytes.len(),
        };
        let text = String::from_utf8_lossy(&bytes[..cut]);
        let next = from_byte + cut as u64;
        Self {
            binary: matches!(text, std::borrow::Cow::Owned(_)),
            text: text.into_owned(),
            of_bytes,
            from_byte,
            first_line: None,
            last_line: None,
            next_byte: (next < of_bytes).then_some(next),
        }
    }

    /// Where it stands, and where to go on.
    pub(super) fn note(&self) -> String {
        let Self {
            from_byte,
            of_bytes,
            ..
        } = self;
        let end = self.next_byte.unwrap_or(*of_bytes);
        let mut note = match (self.first_line, self.last_line) {
            (Some(first), Some(last)) if first == last => format!("Line {first}, "),
            (Some(first), Some(last)) => format!("Lines {first} to {last}, "),
            _ => String::new(),
        };
        let _ = write!(note, "bytes {from_byte} to {end} of {of_bytes}.");
        if self.binary {
            note.push_str(" Bytes that are no text are shown as U+FFFD.");
        }
        if let Some(next) = self.next_byte {
            let ends_a_line = self.text.ends_with('\n');
            let _ = match self.last_line.filter(|_| ends_a_line) {
                Some(last) => write!(note, " For more: line {}.", last + 1),
                None => write!(note, " For more: byte {next}."),
            };
        }
        note
    }
}

//! One configuration file in memory: reads it within a size limit, decodes it (UTF-8, with or
//! without a byte order mark, and UTF-16 with one), and turns offsets into lines and columns.

use std::cell::Cell;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::node::Pos;
use super::origin::{Layer, Origin};
use super::problem::{ConfigProblem, Excerpt, Severity};
use super::secret;

/// A configuration file may have this many bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 4 << 20;
/// How much of a long line is shown.
const EXCERPT_CHARS: usize = 100;

/// A file that was read.
pub(crate) struct Source {
    pub(crate) layer: Layer,
    pub(crate) path: Arc<Path>,
    pub(crate) text: String,
    line_starts: Vec<usize>,
    /// The last place asked for (offset, place): parsers ask in order, and lines can be long.
    last: Cell<(usize, Pos)>,
}

impl Source {
    /// Reads a file; `None` when there is none.
    pub(crate) fn read(layer: Layer, path: &Path) -> Result<Option<Self>, Box<ConfigProblem>> {
        Self::read_within(layer, path, MAX_FILE_BYTES)
    }

    /// The same within `most` bytes.
    pub(crate) fn read_within(
        layer: Layer,
        path: &Path,
        most: u64,
    ) -> Result<Option<Self>, Box<ConfigProblem>> {
        let path: Arc<Path> = path.into();
        let whole = |message| Box::new(ConfigProblem::of_file(&path, message));
        let bytes = match read_bounded(layer, &path, most) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(whole(format!("the file cannot be read: {error}"))),
        };
        if bytes.len() as u64 > most {
            return Err(whole(format!("the file has more than {} MiB", most >> 20)));
        }
        match decode(&bytes) {
            Ok(text) => Ok(Some(Self::new(layer, path, text))),
            Err(fault) => {
                let kept = String::from_utf8_lossy(bytes.get(..fault.valid).unwrap_or_default());
                let source = Self::new(layer, path.clone(), kept.into_owned());
                let at = source.pos(source.text.len());
                let mut problem = source.problem(Severity::Error, at, fault.message);
                problem.hints.push("save the file as UTF-8".into());
                problem.excerpt = None;
                Err(Box::new(problem))
            }
        }
    }

    pub(crate) fn new(layer: Layer, path: Arc<Path>, text: String) -> Self {
        let mut line_starts = vec![0];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|&(_, byte)| byte == b'\n')
                .map(|(i, _)| i + 1),
        );
        Self {
            layer,
            path,
            text,
            line_starts,
            last: Cell::new((0, Pos::START)),
        }
    }

    /// The place of a byte offset.
    pub(crate) fn pos(&self, offset: usize) -> Pos {
        let offset = offset.min(self.text.len());
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let line_start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let (last_offset, last_pos) = self.last.get();
        let (from, before) = if last_offset >= line_start && last_offset <= offset {
            (last_offset, last_pos.column)
        } else {
            (line_start, 1)
        };
        let between = self
            .text
            .get(from..offset)
            .map_or(0, |text| text.chars().count());
        let pos = Pos {
            line: small(line),
            column: before.saturating_add(small(between)),
        };
        self.last.set((offset, pos));
        pos
    }

    /// The place, with the file and its layer.
    pub(crate) fn origin(&self, at: Pos) -> Origin {
        Origin {
            layer: self.layer,
            file: self.path.clone(),
            line: at.line,
            column: at.column,
        }
    }

    /// A problem at a place of this file.
    pub(crate) fn problem(&self, severity: Severity, at: Pos, message: String) -> ConfigProblem {
        ConfigProblem {
            severity,
            file: self.path.clone(),
            line: at.line,
            column: at.column,
            key: String::new(),
            message,
            hints: Vec::new(),
            excerpt: self.excerpt(at),
        }
    }

    fn excerpt(&self, at: Pos) -> Option<Excerpt> {
        let index = usize::try_from(at.line).ok()?.checked_sub(1)?;
        let start = *self.line_starts.get(index)?;
        let end = self
            .line_starts
            .get(index + 1)
            .copied()
            .unwrap_or(self.text.len());
        let line = self.text.get(start..end)?.trim_end();
        let offset = usize::try_from(at.column).ok()?.checked_sub(1)?;
        let skipped = if offset > EXCERPT_CHARS * 3 / 4 {
            offset - EXCERPT_CHARS / 2
        } else {
            0
        };
        // What stands after a secret-looking word is masked before anything is cut away.
        let text: String = secret::mask_line(line)
            .chars()
            .skip(skipped)
            .take(EXCERPT_CHARS)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        (!text.is_empty()).then_some(Excerpt {
            text,
            offset: offset - skipped,
        })
    }

    /// The folder that relative paths of this file start from: the workspace for user and managed
    /// files, else the project the file belongs to (the folder above `.outrigger` or `.vscode`,
    /// or the file's own).
    pub(crate) fn base(&self, workspace: &Path) -> PathBuf {
        if matches!(self.layer, Layer::User | Layer::Managed | Layer::Builtin) {
            return workspace.to_owned();
        }
        let Some(folder) = self.path.parent() else {
            return workspace.to_owned();
        };
        let own = folder
            .file_name()
            .is_some_and(|name| name == ".outrigger" || name == ".vscode");
        let base = if own {
            folder.parent().unwrap_or(folder)
        } else {
            folder
        };
        workspace.join(base)
    }
}

/// Saturates; a configuration file has at most 4 MiB.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn read_bounded(layer: Layer, path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    // A pipe that came with a checkout could block for ever; one named by `--config` was meant.
    if layer != Layer::Explicit && !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(most + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

struct Undecodable {
    /// Bytes before the fault that can be shown.
    valid: usize,
    message: String,
}

fn decode(bytes: &[u8]) -> Result<String, Undecodable> {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => decode_utf8(rest).map_err(|fault| Undecodable {
            valid: fault.valid + 3,
            ..fault
        }),
        [0xFF, 0xFE, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
        _ => decode_utf8(bytes),
    }
}

fn decode_utf8(bytes: &[u8]) -> Result<String, Undecodable> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|error| {
            let valid = error.valid_up_to();
            let byte = bytes.get(valid).copied().unwrap_or_default();
            Undecodable {
                valid,
                message: format!("the byte 0x{byte:02X} here is not UTF-8"),
            }
        })
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, Undecodable> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> =
        char::decode_utf16(pairs.iter().map(|&pair| unit(pair))).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(text),
        _ => Err(Undecodable {
            valid: 0,
            message: "the file begins as UTF-16 and is not valid UTF-16".into(),
        }),
    }
}

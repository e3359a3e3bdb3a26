//! `read`: a text file, whole or a window of lines.
//!
//! Promises: the text is as it is in the file, line ends and byte order mark included; what is not
//! shown is counted. Leaves out files over 2 MB, and everything that is not UTF-8 text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, binary, error::WorkspaceError, root::Root};

const DEFAULT_LINES: usize = 2000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Relative to the workspace.
    path: String,
    /// First line, from 1.
    #[schemars(range(min = 1))]
    offset: Option<usize>,
    /// Number of lines; default: 2000.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Excerpt {
    path: String,
    text: String,
    /// 0 when the file is empty.
    first_line: usize,
    last_line: usize,
    total_lines: usize,
    total_bytes: usize,
}

pub(super) fn read(root: &Root, arguments: &Arguments) -> Result<Excerpt, WorkspaceError> {
    if arguments.path.is_empty() {
        return Err(WorkspaceError::EmptyPath);
    }
    let file = root.locate(Some(&arguments.path))?;
    let content = file.read_file()?;
    let size = content.len() as u64;
    if let Some(kind) = binary::kind(&content) {
        return Err(WorkspaceError::Binary {
            path: file.shown,
            kind,
            size,
        });
    }
    let content = match String::from_utf8(content) {
        Ok(content) => content,
        Err(error) => return Err(not_utf8(file.shown, &error)),
    };
    window(file.shown, &content, arguments)
}

fn not_utf8(path: String, error: &std::string::FromUtf8Error) -> WorkspaceError {
    let offset = error.utf8_error().valid_up_to();
    let (before, after) = error.as_bytes().split_at(offset);
    WorkspaceError::NotUtf8 {
        path,
        line: before.split(|byte| *byte == b'\n').count(),
        offset,
        byte: after.first().copied().unwrap_or_default(),
        size: error.as_bytes().len() as u64,
    }
}

fn window(path: String, content: &str, arguments: &Arguments) -> Result<Excerpt, WorkspaceError> {
    let total = content.split_inclusive('\n').count();
    let first = arguments.offset.unwrap_or(1).max(1);
    if first > total.max(1) {
        return Err(WorkspaceError::PastEnd {
            path,
            offset: first,
            total,
        });
    }
    let limit = arguments.limit.unwrap_or(DEFAULT_LINES);
    let text: String = content
        .split_inclusive('\n')
        .skip(first - 1)
        .take(limit)
        .collect();
    Ok(Excerpt {
        path,
        text,
        first_line: first.min(total),
        last_line: first.saturating_add(limit - 1).min(total),
        total_lines: total,
        total_bytes: content.len(),
    })
}

impl Answer for Excerpt {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn note(&self) -> Option<String> {
        let Self {
            first_line,
            last_line,
            total_lines,
            ..
        } = self;
        if *total_lines == 0 {
            return Some("The file is empty.".to_owned());
        }
        if self.text.len() == self.total_bytes {
            return None;
        }
        let mut note = format!("Lines {first_line} to {last_line} of {total_lines}.");
        if last_line < total_lines {
            note = format!("{note} For more: offset {}.", last_line + 1);
        }
        Some(note)
    }
}

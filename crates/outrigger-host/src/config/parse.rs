//! From text to one neutral tree, whatever the format. The depth of nesting, the number of values
//! and what YAML aliases can blow up are bounded; keys written twice are found here.

mod json;
mod toml;
mod yaml;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use super::node::{Node, Pos, Value};
use super::source::Source;

/// Tables and lists may be nested this deep.
pub(crate) const MAX_DEPTH: usize = 64;
/// A file may hold this many values, those that aliases repeat included.
pub(crate) const MAX_VALUES: usize = 200_000;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML 1.1.
    Toml,
    /// YAML 1.2.
    Yaml,
}

impl Format {
    /// By the file's ending; without a known one, by its first character.
    pub(crate) fn of(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json" | "jsonc" | "code-workspace") => Self::Json,
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ if text.trim_start().starts_with(['{', '/']) => Self::Json,
            _ => Self::Toml,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        })
    }
}

/// Why a file cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: Pos,
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
}

impl SyntaxError {
    fn new(at: Pos, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
            hint: None,
        }
    }

    fn too_deep(at: Pos) -> Self {
        Self::new(
            at,
            format!("tables and lists are nested more than {MAX_DEPTH} deep here"),
        )
    }

    fn too_many(at: Pos) -> Self {
        Self::new(at, format!("the file holds more than {MAX_VALUES} values"))
    }
}

/// A key that stands twice in one table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    pub(crate) key: String,
    pub(crate) first: Pos,
    pub(crate) second: Pos,
}

/// Parses a file. `None`: there is nothing in it, not even an empty table.
pub(crate) fn parse(
    source: &Source,
    format: Format,
) -> Result<(Option<Node>, Vec<Duplicate>), SyntaxError> {
    let mut node = match format {
        Format::Json => json::parse(source)?,
        Format::Toml => Some(toml::parse(source)?),
        Format::Yaml => yaml::parse(source)?,
    };
    let mut duplicates = Vec::new();
    if let Some(node) = &mut node {
        drop_duplicates(node, &mut duplicates);
    }
    Ok((node, duplicates))
}

/// Keeps the last of several entries with one key, as every JSON reader does, and notes it.
fn drop_duplicates(node: &mut Node, found: &mut Vec<Duplicate>) {
    match &mut node.value {
        Value::List(items) => items
            .iter_mut()
            .for_each(|item| drop_duplicates(item, found)),
        Value::Table(entries) => {
            let mut last: HashMap<&str, usize> = HashMap::new();
            let mut dropped = vec![false; entries.len()];
            for (index, entry) in entries.iter().enumerate() {
                if let Some(earlier) = last.insert(&entry.key, index) {
                    dropped[earlier] = true;
                    found.push(Duplicate {
                        key: entry.key.clone(),
                        first: entries[earlier].at,
                        second: entry.at,
                    });
                }
            }
            let mut dropped = dropped.into_iter();
            entries.retain(|_| !dropped.next().unwrap_or(false));
            for entry in entries {
                drop_duplicates(&mut entry.node, found);
            }
        }
        _ => {}
    }
}

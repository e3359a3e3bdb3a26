//! `list`: what is in a folder, to a depth.
//!
//! Promises: at most 500 entries, the ones nearest to the folder first in line, shown in the order
//! of their paths; the rest is counted. Symbolic links are named as such, never followed.

use std::{collections::BinaryHeap, path::PathBuf};

use cap_std::fs::FileType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Answer,
    error::WorkspaceError,
    path,
    root::Root,
    stop::Stop,
    walk::{End, Entry, Visit, Walk},
};

const SHOWN: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Folder, relative to the workspace; default: all of it.
    path: Option<String>,
    /// Levels of folders; default: 1.
    #[schemars(range(min = 1, max = 20))]
    depth: Option<u32>,
    /// Also names that begin with a dot.
    hidden: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listing {
    path: String,
    entries: Vec<Listed>,
    /// Entries that are not shown.
    more: usize,
    /// Names with a dot in front that were passed over.
    hidden: usize,
    /// What could not be looked into.
    unreadable: usize,
    /// False when the folder is too large to be seen whole; then `more` is a lower bound.
    complete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    /// Relative to the workspace.
    path: String,
    kind: Kind,
    /// In bytes, of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    File,
    Folder,
    Link,
    Other,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Folder
        } else if kind.is_symlink() {
            Self::Link
        } else {
            Self::Other
        }
    }
}

/// The entries nearest to the top, and how many others there were.
#[derive(Default)]
struct Nearest {
    kept: BinaryHeap<(u32, PathBuf, Kind, Option<u64>)>,
    more: usize,
}

impl Nearest {
    fn add(&mut self, entry: &Entry<'_>) {
        let kind = Kind::from(entry.kind);
        let key = (entry.depth, entry.path.clone(), kind, None);
        if self.kept.len() >= SHOWN {
            self.more += 1;
            match self.kept.peek() {
                Some(last) if key < *last => {
                    self.kept.pop();
                }
                _ => return,
            }
        }
        let size = match kind {
            Kind::File => entry.inner.metadata().ok().map(|metadata| metadata.len()),
            _ => None,
        };
        self.kept.push((key.0, key.1, kind, size));
    }

    fn in_order(self) -> Vec<Listed> {
        let mut kept = self.kept.into_vec();
        kept.sort_unstable_by(|left, right| left.1.cmp(&right.1));
        kept.into_iter()
            .map(|(_, path, kind, size)| Listed {
                path: path::shown(&path),
                kind,
                size,
            })
            .collect()
    }
}

pub(super) fn list(
    root: &Root,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<Listing, WorkspaceError> {
    let place = root.locate(arguments.path.as_deref())?;
    let folder = place.open_folder()?;
    let show_hidden = arguments.hidden.unwrap_or(false);
    let mut nearest = Nearest::default();
    let mut hidden = 0;
    let mut walk = Walk::new(stop, arguments.depth.unwrap_or(1));
    let end = walk.run(&folder, &place.path, &mut |entry| {
        if !show_hidden && entry.name.as_encoded_bytes().starts_with(b".") {
            hidden += 1;
            return Ok(Visit::Pass);
        }
        nearest.add(entry);
        Ok(Visit::Enter)
    })?;
    Ok(Listing {
        path: place.shown,
        more: nearest.more,
        entries: nearest.in_order(),
        hidden,
        unreadable: walk.unreadable,
        complete: end == End::Complete,
    })
}

impl Answer for Listing {
    fn text(&self) -> String {
        if self.entries.is_empty() {
            let empty = if self.hidden == 0 {
                "is empty"
            } else {
                "has nothing to show"
            };
            return format!("{} {empty}.", path::on_one_line(&self.path));
        }
        let lines = self.entries.iter().map(|entry| {
            let path = path::on_one_line(&entry.path);
            match (entry.kind, entry.size) {
                (Kind::File, Some(size)) => format!("{path} ({size} bytes)\n"),
                (Kind::File, None) => format!("{path}\n"),
                (Kind::Folder, _) => format!("{path}/\n"),
                (Kind::Link, _) => format!("{path} (symbolic link)\n"),
                (Kind::Other, _) => format!("{path} (neither file nor folder)\n"),
            }
        });
        lines.collect()
    }

    fn note(&self) -> Option<String> {
        let mut notes = Vec::new();
        if self.more > 0 || !self.complete {
            let at_least = if self.complete { "" } else { "at least " };
            let more = self.more;
            notes.push(format!(
                "{at_least}{more} more, list a folder below to see them"
            ));
        }
        if self.hidden > 0 {
            notes.push(format!("{} hidden, set `hidden` to see them", self.hidden));
        }
        if self.unreadable > 0 {
            notes.push(format!("{} could not be looked into", self.unreadable));
        }
        (!notes.is_empty()).then(|| format!("Not shown: {}.", notes.join("; ")))
    }
}

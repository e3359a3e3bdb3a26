//! Goes through a folder and what is below it, in the order of names.
//!
//! Promises: never follows a symbolic link; bounded in entries, depth, time and memory (one folder's
//! names at a time along the way down); counts what it could not look into, and ends with the reason
//! why it did not see everything. Leaves out what to do with an entry.

use std::{
    ffi::OsString,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, DirEntry, FileType};

use super::{error::WorkspaceError, stop::Stop};

/// The most entries of one folder that are looked at, and of all together.
const FOLDER_LIMIT: usize = 50_000;
const ENTRY_LIMIT: usize = 200_000;
/// Each level holds a folder open.
const DEEPEST: u32 = 64;

/// One thing in a folder.
pub(super) struct Entry<'a> {
    pub(super) inner: &'a DirEntry,
    /// Relative to the workspace.
    pub(super) path: PathBuf,
    pub(super) name: &'a OsString,
    pub(super) kind: FileType,
    /// 1 for what is directly in the folder where the walk began.
    pub(super) depth: u32,
}

/// What the visitor wants.
pub(super) enum Visit {
    /// Go on, and into this entry if it is a folder.
    Enter,
    /// Go on, but not into this entry.
    Pass,
    /// Enough.
    End,
}

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Visitor,
    Time,
    Entries,
}

pub(super) struct Walk<'a> {
    stop: &'a Stop,
    deepest: u32,
    seen: usize,
    end: End,
    /// Folders and entries that could not be looked into.
    pub(super) unreadable: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(stop: &'a Stop, depth: u32) -> Self {
        Self {
            stop,
            deepest: depth.min(DEEPEST),
            seen: 0,
            end: End::Complete,
            unreadable: 0,
        }
    }

    /// Shows everything in `folder`, which is at `path` in the workspace, to `visit`.
    pub(super) fn run<F>(
        &mut self,
        folder: &Dir,
        path: &Path,
        visit: &mut F,
    ) -> Result<End, WorkspaceError>
    where
        F: FnMut(&Entry<'_>) -> Result<Visit, WorkspaceError>,
    {
        // Whether it ended early is told by `end`.
        let _ = self.folder(folder, path, 1, visit)?;
        Ok(self.end)
    }

    fn folder<F>(
        &mut self,
        folder: &Dir,
        path: &Path,
        depth: u32,
        visit: &mut F,
    ) -> Result<ControlFlow<()>, WorkspaceError>
    where
        F: FnMut(&Entry<'_>) -> Result<Visit, WorkspaceError>,
    {
        for (name, inner) in self.sorted_entries(folder)? {
            if self.stop.is_due()? {
                return Ok(self.ended(End::Time));
            }
            let Ok(kind) = inner.file_type() else {
                self.unreadable += 1;
                continue;
            };
            let entry = Entry {
                inner: &inner,
                path: path.join(&name),
                name: &name,
                kind,
                depth,
            };
            match visit(&entry)? {
                Visit::End => return Ok(self.ended(End::Visitor)),
                Visit::Enter if kind.is_dir() && depth < self.deepest => {
                    // Confined like every other opening, should a link have taken its place.
                    let Ok(below) = inner.open_dir() else {
                        self.unreadable += 1;
                        continue;
                    };
                    if self
                        .folder(&below, &entry.path, depth + 1, visit)?
                        .is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Visit::Enter if kind.is_dir() && depth == DEEPEST => self.unreadable += 1,
                Visit::Enter | Visit::Pass => {}
            }
        }
        let full = self.seen >= ENTRY_LIMIT;
        Ok(if full {
            self.ended(End::Entries)
        } else {
            ControlFlow::Continue(())
        })
    }

    fn sorted_entries(
        &mut self,
        folder: &Dir,
    ) -> Result<Vec<(OsString, DirEntry)>, WorkspaceError> {
        let Ok(entries) = folder.entries() else {
            self.unreadable += 1;
            return Ok(Vec::new());
        };
        let mut sorted = Vec::new();
        for entry in entries {
            if sorted.len() >= FOLDER_LIMIT || self.seen >= ENTRY_LIMIT {
                self.end = End::Entries;
                break;
            }
            if self.seen.is_multiple_of(1024) && self.stop.is_due()? {
                self.end = End::Time;
                break;
            }
            self.seen += 1;
            match entry {
                Ok(entry) => sorted.push((entry.file_name(), entry)),
                Err(_) => self.unreadable += 1,
            }
        }
        sorted.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(sorted)
    }

    fn ended(&mut self, end: End) -> ControlFlow<()> {
        self.end = end;
        ControlFlow::Break(())
    }
}

//! The folder that everything is confined to, and the way from a path in a call to what it names.
//!
//! Promises: paths are relative and stay inside, symbolic links included; what is opened is a folder
//! or a regular file, judged both before and after opening. The folder is opened anew for each call,
//! so it may appear, or be replaced, while the server runs.

use std::{
    io::Read,
    path::{Component, Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, FileType, Metadata, OpenOptions},
};

use super::{LARGEST_FILE, error::WorkspaceError, path};

pub(super) struct Root {
    folder: PathBuf,
}

/// What a path of a call names.
pub(super) struct Located {
    pub(super) folder: Dir,
    /// Relative to the workspace, without `.`; empty for the workspace itself.
    pub(super) path: PathBuf,
    /// The same for people.
    pub(super) shown: String,
    pub(super) metadata: Metadata,
}

impl Root {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// What `text` names: the workspace itself for `None`, `""` and `.`.
    pub(super) fn locate(&self, text: Option<&str>) -> Result<Located, WorkspaceError> {
        let text = text.filter(|text| !text.is_empty()).unwrap_or(".");
        if text.contains('\0') {
            return Err(WorkspaceError::Nul);
        }
        let folder =
            Dir::open_ambient_dir(&self.folder, ambient_authority()).map_err(|source| {
                WorkspaceError::Root {
                    root: self.folder.clone(),
                    source,
                }
            })?;
        let mut path = PathBuf::from(text);
        self.require_relative(&path)?;
        let mut found = folder.metadata(&path);
        if found.is_err()
            && let Some(meant) = path::unescaped(text)
            && let Ok(metadata) = folder.metadata(&meant)
        {
            (path, found) = (meant, Ok(metadata));
        }
        let shown = path::shown(&path);
        let metadata = found.map_err(|source| WorkspaceError::from_io(&shown, source))?;
        let path = path
            .components()
            .filter(|component| *component != Component::CurDir)
            .collect();
        Ok(Located {
            folder,
            path,
            shown,
            metadata,
        })
    }

    fn require_relative(&self, path: &Path) -> Result<(), WorkspaceError> {
        let absolute = path
            .components()
            .any(|component| matches!(component, Component::RootDir | Component::Prefix(_)));
        if !absolute {
            return Ok(());
        }
        let hint = match path.strip_prefix(&self.folder) {
            Ok(inside) => format!("; use {}", path::shown(inside)),
            Err(_) => String::new(),
        };
        Err(WorkspaceError::Absolute {
            path: path.display().to_string(),
            hint,
        })
    }
}

impl Located {
    /// Opens the folder that this is.
    pub(super) fn open_folder(&self) -> Result<Dir, WorkspaceError> {
        if self.metadata.is_dir() {
            let here = Path::new(".").join(&self.path);
            return self
                .folder
                .open_dir(here)
                .map_err(|source| WorkspaceError::from_io(&self.shown, source));
        }
        Err(if self.metadata.is_file() {
            WorkspaceError::IsFile {
                path: self.shown.clone(),
            }
        } else {
            self.special(self.metadata.file_type())
        })
    }

    /// The whole of the file that this is.
    pub(super) fn read_file(&self) -> Result<Vec<u8>, WorkspaceError> {
        if self.metadata.is_dir() {
            return Err(WorkspaceError::IsFolder {
                path: self.shown.clone(),
            });
        }
        if !self.metadata.is_file() {
            return Err(self.special(self.metadata.file_type()));
        }
        let failed = |source| WorkspaceError::from_io(&self.shown, source);
        let file = self
            .folder
            .open_with(&self.path, &reading())
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(self.special(metadata.file_type()));
        }
        let too_large = |size| WorkspaceError::TooLarge {
            path: self.shown.clone(),
            size,
        };
        if metadata.len() > LARGEST_FILE {
            return Err(too_large(metadata.len()));
        }
        let mut content = Vec::new();
        // The size is what it was; a file that grows, or one of `/proc`, has another.
        let read = file
            .take(LARGEST_FILE + 1)
            .read_to_end(&mut content)
            .map_err(failed)?;
        if read as u64 > LARGEST_FILE {
            return Err(too_large(read as u64));
        }
        Ok(content)
    }

    fn special(&self, kind: FileType) -> WorkspaceError {
        WorkspaceError::Special {
            path: self.shown.clone(),
            kind: special_kind(kind),
        }
    }
}

/// Opens without waiting: a pipe that was swapped in after the look must not hang.
pub(super) fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        use rustix::fs::OFlags;

        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    options
}

#[cfg(unix)]
fn special_kind(kind: FileType) -> &'static str {
    use cap_std::fs::FileTypeExt;

    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        "neither a file nor a folder"
    }
}

#[cfg(not(unix))]
fn special_kind(_kind: FileType) -> &'static str {
    "neither a file nor a folder"
}

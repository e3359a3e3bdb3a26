//! Small files that the program keeps for a person: replaced as a whole, so that a reader never
//! sees half of one, and written in turns, so that two programs never lose each other's change.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// A file that cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {what}: {reason}", path.display())]
pub struct KeptFileError {
    /// The file.
    pub path: PathBuf,
    what: &'static str,
    reason: String,
}

impl KeptFileError {
    pub(crate) fn new(path: &Path, what: &'static str, reason: &dyn ToString) -> Self {
        Self {
            path: path.to_owned(),
            what,
            reason: reason.to_string().trim().replace('\n', " "),
        }
    }

    /// One that cannot be read, for this reason.
    pub fn unreadable(path: &Path, reason: &str) -> Self {
        Self::new(path, "cannot be read", &reason)
    }

    /// One that cannot be written, for this reason.
    pub fn unwritable(path: &Path, reason: &str) -> Self {
        Self::new(path, "cannot be written", &reason)
    }

    pub(crate) fn write(path: &Path, error: &std::io::Error) -> Self {
        Self::new(path, "cannot be written", error)
    }
}

/// The text of a file; `None` when there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, KeptFileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KeptFileError::new(path, "cannot be read", &error)),
    }
}

/// Changes what a file holds, whatever others have written to it meanwhile, and gives what it holds
/// then. `read` and `write` turn it from and into text.
pub(crate) fn update<T>(
    path: &Path,
    read: impl FnOnce(&Path) -> Result<T, KeptFileError>,
    change: impl FnOnce(&mut T),
    write: impl FnOnce(&T) -> Result<String, KeptFileError>,
) -> Result<T, KeptFileError> {
    let failed = |error: std::io::Error| KeptFileError::write(path, &error);
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(failed)?;
    let _turn = turn(folder).map_err(failed)?;
    let mut held = read(path)?;
    change(&mut held);
    replace(path, write(&held)?.as_bytes()).map_err(failed)?;
    Ok(held)
}

/// Puts `content` in the place of a file. It is there whole or not at all.
pub(crate) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut aside = tempfile::NamedTempFile::new_in(folder)?;
    aside.write_all(content)?;
    aside.as_file().sync_all()?;
    aside.persist(path)?;
    Ok(())
}

/// Waits for other writers; the turn ends when what is returned is dropped. The folder itself is
/// locked, so that nothing is left beside the file; where a folder cannot be opened (Windows), writers
/// do not wait, and the last one counts.
fn turn(folder: &Path) -> std::io::Result<Option<File>> {
    let Ok(folder) = File::open(folder) else {
        return Ok(None);
    };
    folder.lock()?;
    Ok(Some(folder))
}

//! The file as it is, copied aside before it is brought up.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::private;
use crate::JournalError;

/// Copies the file to `NAME.v1-backup`, and returns when the copy is on disk. One that an interrupted
/// attempt has left is replaced: the file may have grown since.
pub(super) fn back_up(
    connection: &Connection,
    path: &Path,
    version: usize,
) -> Result<PathBuf, JournalError> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".v{version}-backup{ending}"));
        PathBuf::from(name)
    };
    let (backup, part) = (beside(""), beside(".part"));
    let failed = |error: io::Error| JournalError::io(&backup, &error);
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // SQLite takes an empty file, and leaves its mode as it is.
    let file = private().create_new(true).open(&part).map_err(failed)?;
    let copied = connection
        .execute("VACUUM INTO ?1", [part.to_string_lossy()])
        .map_err(|error| JournalError::sqlite(&backup, &error))
        .and_then(|_| file.sync_all().map_err(failed))
        .and_then(|()| fs::rename(&part, &backup).map_err(failed));
    if let Err(error) = copied {
        // What is left of it is of no use, and may be what fills the disk.
        fs::remove_file(&part).ok();
        return Err(error);
    }
    if let (Some(folder), true) = (path.parent(), cfg!(unix)) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)?;
    }
    Ok(backup)
}

//! The last steps of a pull: is this what was promised, and put it in its place.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use sha2::{Digest, Sha256};

use super::SourceError;

/// Reads the file once and compares its SHA-256. A wrong file is removed: nothing good can be added
/// to it.
pub(super) async fn verify(path: &Path, expected: &str) -> Result<(), SourceError> {
    let file = path.to_owned();
    let hashed = tokio::task::spawn_blocking(move || sha256(&file)).await;
    let failed = |source| SourceError::Write {
        path: path.to_owned(),
        source,
    };
    let actual = hashed
        .map_err(|error| failed(io::Error::other(error)))?
        .map_err(failed)?;
    if actual.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    fs::remove_file(path).map_err(failed)?;
    Err(SourceError::WrongHash {
        expected: expected.to_owned(),
        actual,
    })
}

/// SHA-256 of a file in lower-case hex.
fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
    }
    let hex: Vec<String> = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(hex.concat())
}

/// Moves a verified file to where models are looked for. After this it survives a crash.
pub(super) fn put_in_place(partial: &Path, path: &Path) -> Result<(), SourceError> {
    let failed = |source| SourceError::Write {
        path: path.to_owned(),
        source,
    };
    File::open(partial)
        .and_then(|file| file.sync_all())
        .map_err(failed)?;
    fs::rename(partial, path).map_err(failed)?;
    // The new name lives in the folder, which is written separately. Not every system can do this.
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        drop(folder.sync_all());
    }
    Ok(())
}

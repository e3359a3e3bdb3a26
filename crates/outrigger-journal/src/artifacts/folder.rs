//! The files: one for each content, named by its digest. A file is written under another name and
//! renamed, with everything on disk before that is told.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{ObjectStoreExt as _, PutPayload};

use super::{ArtifactError, Digest};
use crate::schema::make_folder;

/// How old a file that nothing refers to is before it counts as left over: whoever is writing it
/// now would only write it again, but need not.
pub(super) const LEFT_OVER: Duration = Duration::from_hours(24);

pub(crate) struct Folder {
    path: PathBuf,
    /// Made when it is first written, so that a folder that cannot be is nobody's problem until then.
    made: Mutex<Option<Arc<LocalFileSystem>>>,
}

impl Folder {
    pub(super) fn new(path: &Path) -> Self {
        let path = path.to_path_buf();
        let made = Mutex::default();
        Self { path, made }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn store(&self) -> Result<Arc<LocalFileSystem>, ArtifactError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*made {
            return Ok(Arc::clone(store));
        }
        make_folder(&self.path).map_err(|error| ArtifactError::io(&self.path, &error))?;
        if let Some(parent) = self.path.parent() {
            sync(parent).map_err(|error| ArtifactError::io(&self.path, &error))?;
        }
        let store = LocalFileSystem::new_with_prefix(&self.path)
            .map_err(|error| ArtifactError::store(&self.path, &error))?
            .with_fsync(true);
        Ok(Arc::clone(made.insert(Arc::new(store))))
    }

    /// Returns when content and name are on disk. The bytes are not copied.
    pub(super) async fn write(&self, digest: &Digest, bytes: Bytes) -> Result<(), ArtifactError> {
        let store = self.store()?;
        store
            .put(&location(digest), PutPayload::from(bytes))
            .await
            .map_err(|error| ArtifactError::store(&self.path, &error))?;
        Ok(())
    }

    /// The bytes of a file that was seen to be there and to have them.
    pub(super) async fn read(
        &self,
        digest: &Digest,
        range: Range<u64>,
    ) -> Result<Bytes, ArtifactError> {
        let failed = |error| match error {
            object_store::Error::NotFound { .. } => {
                ArtifactError::missing(file(&self.path, digest))
            }
            error => ArtifactError::store(&self.path, &error),
        };
        let store = self.store()?;
        store
            .get_range(&location(digest), range)
            .await
            .map_err(failed)
    }
}

fn location(digest: &Digest) -> Location {
    let digits = digest.to_string();
    let (first, rest) = digits.split_at(2);
    Location::from_iter([first, rest])
}

/// The file of a content in this folder.
pub(crate) fn file(folder: &Path, digest: &Digest) -> PathBuf {
    let digits = digest.to_string();
    let (first, rest) = digits.split_at(2);
    folder.join(first).join(rest)
}

/// The size of the content; `None` where there is no file.
pub(crate) fn size(folder: &Path, digest: &Digest) -> io::Result<Option<u64>> {
    match fs::metadata(file(folder, digest)) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a content; one that is not there is no error.
pub(crate) fn remove(folder: &Path, digest: &Digest) -> io::Result<()> {
    match fs::remove_file(file(folder, digest)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Files that are older than a day: contents, and what was never finished.
pub(super) fn old_files(folder: &Path) -> io::Result<(Vec<Digest>, Vec<PathBuf>)> {
    let (mut contents, mut unfinished) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((contents, unfinished)),
        entries => entries?,
    };
    for first in entries {
        let first = first?;
        if !first.file_type()?.is_dir() {
            continue;
        }
        for entry in fs::read_dir(first.path())? {
            let entry = entry?;
            let (first, rest) = (first.file_name(), entry.file_name());
            let name = format!("{}{}", first.to_string_lossy(), rest.to_string_lossy());
            if !is_old(&entry) {
                continue;
            }
            match name.split_once('#') {
                None => contents.extend(name.parse::<Digest>().ok()),
                Some((digest, _)) if digest.parse::<Digest>().is_ok() => {
                    unfinished.push(entry.path());
                }
                Some(_) => {}
            }
        }
    }
    Ok((contents, unfinished))
}

fn is_old(entry: &fs::DirEntry) -> bool {
    let written = entry.metadata().and_then(|found| found.modified());
    written.is_ok_and(|written| {
        SystemTime::now()
            .duration_since(written)
            .is_ok_and(|age| age > LEFT_OVER)
    })
}

/// Puts what stands in a folder on disk.
fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

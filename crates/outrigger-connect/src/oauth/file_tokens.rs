//! Tokens in files that only their owner can read.
//!
//! Promises: one file for each name, mode 0600 in a folder of mode 0700, replaced as a whole; locks
//! hold between processes and end with whoever holds them. Leaves out: encryption.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Secret, StoreError, TokenLock, TokenStore};

/// Tells the new contents of files apart that are written at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Keeps tokens in a folder.
#[derive(Debug, Clone)]
pub struct FileTokens {
    folder: PathBuf,
}

impl FileTokens {
    /// `folder` is made when something is first kept in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }

    fn make_folder(&self) -> std::io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder)
    }

    fn replace(&self, name: &str, text: &Secret) -> std::io::Result<()> {
        self.make_folder()?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let aside = self.path(name, &format!("{}-{number}.new", std::process::id()));
        // What a process of this number left behind when it was killed.
        remove(&aside)?;
        let written = private()
            .create_new(true)
            .open(&aside)
            .and_then(|mut file| {
                file.write_all(text.reveal().as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&aside, self.path(name, "json")));
        if written.is_err() {
            let _ = remove(&aside);
        }
        written
    }
}

/// Files that only their owner can read and write.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn failed(path: &Path, what: &'static str, error: &std::io::Error) -> StoreError {
    StoreError {
        place: path.display().to_string(),
        what,
        reason: error.to_string(),
    }
}

impl TokenStore for FileTokens {
    fn get(&self, name: &str) -> Result<Option<Secret>, StoreError> {
        let path = self.path(name, "json");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, "read", &error)),
        }
    }

    fn set(&self, name: &str, text: &Secret) -> Result<(), StoreError> {
        let kept = self.replace(name, text);
        kept.map_err(|error| failed(&self.path(name, "json"), "kept", &error))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name, "json");
        remove(&path).map_err(|error| failed(&path, "removed", &error))
    }

    fn try_lock(&self, name: &str) -> Result<Option<TokenLock>, StoreError> {
        let path = self.path(name, "lock");
        let open = || -> std::io::Result<File> {
            self.make_folder()?;
            private().create(true).truncate(false).open(&path)
        };
        let file = open().map_err(|error| failed(&path, "locked", &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(TokenLock::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&path, "locked", &error)),
        }
    }
}

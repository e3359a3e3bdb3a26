//! Contents that are too large or too binary for an event: kept once each, in files or in objects of a
//! bucket, named by their SHA-256, with an index in the journal.
//!
//! An [`ArtifactRef`] is given out when content and index are on disk, so that nothing can be
//! referred to that a crash takes away. Contents are kept as they came: secrets are not looked for.

#[cfg(feature = "postgres")]
mod bucket;
mod contents;
mod digest;
mod error;
mod folder;
mod gc;
pub(crate) mod index;
mod settings;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

#[cfg(feature = "postgres")]
pub use self::bucket::Bucket;
pub(crate) use self::contents::Contents;
pub use self::digest::{Digest, InvalidDigest};
pub use self::error::ArtifactError;
use self::folder::Folder;
pub use self::gc::{GcReport, GcRules};
pub use self::index::{ArtifactLine, KnownOrigin};
use self::index::{IndexDone, IndexWork, Keep};
#[cfg(feature = "postgres")]
pub use self::settings::BadBucket;
pub use self::settings::BucketSettings;
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

/// How exactly it is known when an artifact was last used.
const USED: SignedDuration = SignedDuration::from_hours(1);

/// The artifacts of one journal; clones share them.
#[derive(Clone)]
pub struct Artifacts {
    inner: Arc<Inner>,
}

struct Inner {
    journal: Arc<Shared>,
    contents: Arc<Contents>,
    /// Once they are known to belong to this journal.
    owned: OnceLock<()>,
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
        Self::of(Contents::Folder(Folder::new(folder)), journal)
    }

    /// The artifacts of this journal, which has to be in a database, with their contents in a bucket.
    /// No other journal may have contents under the same address: what one does not know it removes.
    #[cfg(feature = "postgres")]
    pub fn open_in_bucket(bucket: &Bucket, journal: &Journal) -> Self {
        Self::of(Contents::Bucket(bucket.clone()), journal)
    }

    fn of(contents: Contents, journal: &Journal) -> Self {
        Self {
            inner: Arc::new(Inner {
                journal: journal.shared(),
                contents: Arc::new(contents),
                owned: OnceLock::new(),
                used: Mutex::default(),
            }),
        }
    }

    /// Where the contents are: the folder, or the address of the bucket.
    pub fn place(&self) -> &Path {
        self.contents().place()
    }

    fn contents(&self) -> &Arc<Contents> {
        &self.inner.contents
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
        // The index looks for itself; asking a bucket twice takes time.
        let there = match self.contents().folder() {
            Some(_) => self.contents().size(&digest).await? == Some(size),
            None => true,
        };
        let mut written = false;
        for attempt in 0..TRIES {
            if attempt > 0 || !there {
                self.owns().await?;
                self.contents().write(&digest, bytes.clone()).await?;
                written = true;
            }
            let keep = Keep {
                contents: Arc::clone(self.contents()),
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
        Err(ArtifactError::missing(self.contents().name(&digest)))
    }

    /// Bytes of an artifact; what is beyond its end is left out. All of it together is compared with
    /// its digest; of a part of it that is so in a bucket alone.
    pub async fn read(&self, digest: &Digest, range: Range<u64>) -> Result<Bytes, ArtifactError> {
        match self.contents().read(digest, range).await? {
            Some(bytes) => {
                self.used(digest);
                Ok(bytes)
            }
            None => Err(self.absent(digest).await?),
        }
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
        take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u64, ArtifactError> {
        match self.contents().each(digest, take).await? {
            Some(size) => {
                self.used(digest);
                Ok(size)
            }
            None => Err(self.absent(digest).await?),
        }
    }

    /// Whether what is there is this journal's; false where nobody can have anything there, since the
    /// journal is empty. An error where it is another's, or nobody can say.
    async fn owns(&self) -> Result<bool, ArtifactError> {
        if self.contents().folder().is_some() || self.inner.owned.get().is_some() {
            return Ok(true);
        }
        let beginning = self.read_index(|records| records.beginning()).await?;
        if let Some(beginning) = &beginning {
            self.contents().claim(beginning).await?;
            self.inner.owned.get_or_init(|| ());
        }
        Ok(beginning.is_some())
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
            Some(_) => ArtifactError::missing(self.contents().name(digest)),
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
        let journal = &self.inner.journal;
        let done = match self.contents().folder() {
            Some(_) => journal.index(work).await,
            // Nobody who records something waits for a bucket.
            None => journal.index_beside(work).await,
        };
        match done {
            Ok(IndexDone::Failed(error)) => Err(error),
            Ok(done) => Ok(done),
            Err(JournalError::Files { reason, .. }) => Err(ArtifactError::Unusable {
                path: self.place().to_path_buf(),
                reason,
            }),
            Err(error) => Err(error.into()),
        }
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
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}

//! Where contents are: in a folder of this machine, or in a bucket that replicas share.
//!
//! Promises the same of both: a content is there as a whole or not at all, under the name of its
//! digest, and one that is read as a whole is compared with that. Leaves out the index, which alone
//! says what may be referred to.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

#[cfg(feature = "postgres")]
use super::bucket::Bucket;
use super::folder::{self, Folder};
use super::{ArtifactError, Digest};

/// How much is read at once where everything is.
const WINDOW: u64 = 1 << 20;

/// Where contents are.
pub(crate) enum Contents {
    Folder(Folder),
    #[cfg(feature = "postgres")]
    Bucket(Bucket),
}

/// What is older than a day: contents, and files that were never finished.
pub(super) struct Old {
    pub(super) contents: Vec<Digest>,
    pub(super) unfinished: Vec<PathBuf>,
}

impl Contents {
    /// The folder, or what people know the bucket by.
    pub(crate) fn place(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder.path(),
            #[cfg(feature = "postgres")]
            Self::Bucket(bucket) => bucket.place(),
        }
    }

    /// The folder of this machine.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder.path()),
            #[cfg(feature = "postgres")]
            Self::Bucket(_) => None,
        }
    }

    /// How people know one content.
    pub(super) fn name(&self, digest: &Digest) -> PathBuf {
        folder::file(self.place(), digest)
    }

    /// Says that what is here belongs to the journal that begins with this line; an error where it
    /// belongs to another one. A folder belongs to the journal that it lies beside.
    pub(super) async fn claim(&self, beginning: &Digest) -> Result<(), ArtifactError> {
        match self {
            Self::Folder(_) => {
                let _ = beginning;
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Self::Bucket(bucket) => bucket.claim(beginning).await,
        }
    }

    /// The size of a content; `None` where it is not there. Does not take longer than those can wait
    /// who wait for a lock meanwhile.
    pub(crate) async fn size(&self, digest: &Digest) -> Result<Option<u64>, ArtifactError> {
        match self {
            Self::Folder(folder) => folder::size(folder.path(), digest)
                .map_err(|error| ArtifactError::io(folder.path(), &error)),
            #[cfg(feature = "postgres")]
            Self::Bucket(bucket) => bucket.size(digest).await,
        }
    }

    /// Returns when it is there for good. The bytes are not copied.
    pub(super) async fn write(&self, digest: &Digest, bytes: Bytes) -> Result<(), ArtifactError> {
        match self {
            Self::Folder(folder) => folder.write(digest, bytes).await,
            #[cfg(feature = "postgres")]
            Self::Bucket(bucket) => bucket.write(digest, bytes).await,
        }
    }

    /// Bytes of a content, without what is beyond its end; `None` where it is not there.
    pub(super) async fn read(
        &self,
        digest: &Digest,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, ArtifactError> {
        let folder = match self {
            Self::Folder(folder) => folder,
            #[cfg(feature = "postgres")]
            Self::Bucket(bucket) => return bucket.read(digest, range).await,
        };
        let Some(size) = self.size(digest).await? else {
            return Ok(None);
        };
        let end = range.end.min(size);
        if range.start >= end {
            return Ok(Some(Bytes::new()));
        }
        let bytes = folder.read(digest, range.start..end).await?;
        if range.start == 0 && end == size && Digest::of_large(&bytes).await != *digest {
            return Err(ArtifactError::damaged(self.name(digest)));
        }
        Ok(Some(bytes))
    }

    /// Gives the whole content to `take`, in order, and compares it with its digest; its size, or
    /// `None` where it is not there.
    pub(super) async fn each(
        &self,
        digest: &Digest,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Option<u64>, ArtifactError> {
        let mut take =
            |some: &[u8]| take(some).map_err(|error| ArtifactError::Export(error.to_string()));
        let folder = match self {
            Self::Folder(folder) => folder,
            #[cfg(feature = "postgres")]
            Self::Bucket(bucket) => {
                let Some(mut coming) = bucket.whole(digest).await? else {
                    return Ok(None);
                };
                while let Some(some) = coming.next().await? {
                    take(&some)?;
                }
                return Ok(Some(coming.size()));
            }
        };
        let Some(size) = self.size(digest).await? else {
            return Ok(None);
        };
        let mut hash = Sha256::new();
        let mut at = 0;
        while at < size {
            let end = size.min(at + WINDOW);
            let some = folder.read(digest, at..end).await?;
            hash.update(&some);
            take(&some)?;
            at = end;
        }
        if Digest::from_hash(hash) != *digest {
            return Err(ArtifactError::damaged(self.name(digest)));
        }
        Ok(Some(size))
    }

    /// Removes a content; one that is not there is no error.
    #[cfg(feature = "postgres")]
    pub(crate) async fn remove(&self, digest: &Digest) -> Result<(), ArtifactError> {
        match self {
            Self::Folder(folder) => folder::remove(folder.path(), digest)
                .map_err(|error| ArtifactError::io(folder.path(), &error)),
            Self::Bucket(bucket) => bucket.remove(digest).await,
        }
    }

    pub(super) async fn old(&self) -> Result<Old, ArtifactError> {
        match self {
            Self::Folder(folder) => {
                let (contents, unfinished) = folder::old_files(folder.path())
                    .map_err(|error| ArtifactError::io(folder.path(), &error))?;
                Ok(Old {
                    contents,
                    unfinished,
                })
            }
            // An upload that was not finished is nothing yet.
            #[cfg(feature = "postgres")]
            Self::Bucket(bucket) => Ok(Old {
                contents: bucket.old().await?,
                unfinished: Vec::new(),
            }),
        }
    }
}

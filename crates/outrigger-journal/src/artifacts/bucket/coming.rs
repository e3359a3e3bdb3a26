//! A content, or a part of one, while it comes.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::GetResult;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::{ArtifactError, Bucket, Digest};

/// What the service sends.
pub(in crate::artifacts) struct Coming {
    bucket: Bucket,
    digest: Digest,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    /// Of what comes, and how much of that has come.
    size: u64,
    at: u64,
    /// How long it may still be waited for; whoever takes it may take their time.
    patience: Duration,
    /// What it comes to, where it is the whole content.
    hash: Option<Sha256>,
    tag: Option<String>,
}

impl Coming {
    pub(super) fn new(bucket: Bucket, digest: Digest, got: GetResult, is_whole: bool) -> Self {
        let size = got.range.end.saturating_sub(got.range.start);
        Self {
            patience: bucket.time_for(size),
            bucket,
            digest,
            size,
            at: 0,
            hash: is_whole.then(Sha256::new),
            tag: got.meta.e_tag.clone(),
            stream: got.into_stream(),
        }
    }

    /// The same when it has been waited for already.
    pub(super) fn after(mut self, spent: Duration) -> Self {
        self.patience = self.patience.saturating_sub(spent);
        self
    }

    /// How many bytes there are.
    pub(in crate::artifacts) fn size(&self) -> u64 {
        self.size
    }

    /// The next bytes. A whole content is compared with its digest before its end is told.
    pub(in crate::artifacts) async fn next(&mut self) -> Result<Option<Bytes>, ArtifactError> {
        let begun = Instant::now();
        let next = timeout(self.patience, self.stream.next()).await;
        self.patience = self.patience.saturating_sub(begun.elapsed());
        let place = (&self.digest, "read");
        match next {
            Err(_) => {
                let name = self.bucket.name(place.0);
                let patience = self.bucket.time_for(self.size);
                Err(self.bucket.late((&name, place.1), patience))
            }
            Ok(Some(Err(error))) => Err(self.bucket.failed(place, &error)),
            Ok(Some(Ok(some))) => {
                self.at += some.len() as u64;
                if let Some(hash) = &mut self.hash {
                    hash.update(&some);
                }
                Ok(Some(some))
            }
            Ok(None) => self.ended().map(|()| None),
        }
    }

    /// All bytes together.
    pub(super) async fn all(&mut self) -> Result<Bytes, ArtifactError> {
        let mut all = BytesMut::with_capacity(usize::try_from(self.size).unwrap_or(0));
        while let Some(some) = self.next().await? {
            all.extend_from_slice(&some);
        }
        Ok(all.freeze())
    }

    fn ended(&mut self) -> Result<(), ArtifactError> {
        if self.at != self.size {
            let name = self.bucket.name(&self.digest);
            let said = format!("{} of {} bytes came", self.at, self.size);
            return Err(ArtifactError::bucket(name, "read", said));
        }
        let Some(hash) = self.hash.take() else {
            return Ok(());
        };
        if Digest::from_hash(hash) != self.digest {
            let name = self.bucket.name(&self.digest);
            return Err(ArtifactError::damaged(name.into()));
        }
        self.bucket.see(&self.digest, self.tag.take(), self.size);
        Ok(())
    }
}

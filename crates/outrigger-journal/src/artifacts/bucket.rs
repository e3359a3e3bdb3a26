//! A bucket of S3, or of something that speaks as S3 does: each content is one object, named by its
//! digest as files are.
//!
//! Promises: no request is waited for longer than is said here, and a bucket that let one wait is not
//! asked again for a while; what is read is what was kept, also a part of it: a content is compared
//! with its digest once, and from then on the service is asked for that very version of it (`ETag`).
//! Leaves out: uploads in parts, since a content is in memory as a whole, and encryption, which a
//! bucket is set up for.

mod coming;
mod reason;

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::SpawnedReqwestConnector;
use object_store::path::Path as Location;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, Error, GetOptions, ObjectStore as _,
    ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

pub(super) use self::coming::Coming;
use self::reason::reason;
use super::folder::LEFT_OVER;
use super::settings::{BadBucket, BucketSettings, PATIENCE};
use super::{ArtifactError, Digest};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a request may take at most that others wait for meanwhile, who hold a lock in the database.
const GLANCE: Duration = Duration::from_secs(8);
/// How long a bucket that let somebody wait is left alone.
const REST: Duration = Duration::from_secs(10);
/// Bytes that come or go in a second where it is slow.
const SLOW: u64 = 1 << 20;
/// The object that says whose contents these are.
const OWNER: &str = "outrigger-journal";
/// Versions that are remembered.
const SEEN: usize = 8192;

/// A bucket; clones share it.
#[derive(Clone)]
pub struct Bucket {
    inner: Arc<Inner>,
}

struct Inner {
    store: AmazonS3,
    /// As it is written: `s3://BUCKET/PREFIX`.
    place: PathBuf,
    prefix: Location,
    /// How long a request may take, beside the time for what it carries.
    patience: Duration,
    /// Contents that were compared with their digests.
    seen: Mutex<HashMap<Digest, Seen>>,
    /// When somebody last waited in vain, and for what.
    trouble: Mutex<Option<(Instant, String)>>,
}

/// A content that was compared with its digest.
#[derive(Clone)]
struct Seen {
    tag: String,
    size: u64,
}

impl Bucket {
    /// Looks at the settings; the service is not asked. To be called in the runtime that its connections
    /// are to live in.
    pub fn open(settings: &BucketSettings) -> Result<Self, BadBucket> {
        let unusable = |error: &dyn std::error::Error| BadBucket::Unusable(error.to_string());
        let (bucket, prefix) = settings.parts()?;
        // Whoever came first has installed the same one.
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = Handle::try_current().map_err(|error| unusable(&error))?;
        let store = builder(settings)?
            .with_bucket_name(bucket)
            // One connection is used by several runtimes, which do not all run at all times.
            .with_http_connector(SpawnedReqwestConnector::new(runtime))
            .build()
            .map_err(|error| unusable(&error))?;
        let prefix = Location::parse(prefix).map_err(|error| unusable(&error))?;
        let inner = Inner {
            store,
            place: PathBuf::from(settings.url.trim().trim_end_matches('/')),
            prefix,
            patience: settings.timeout.unwrap_or(PATIENCE),
            seen: Mutex::default(),
            trouble: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub(super) fn place(&self) -> &Path {
        &self.inner.place
    }

    pub(super) async fn size(&self, digest: &Digest) -> Result<Option<u64>, ArtifactError> {
        let location = self.location(digest);
        let found = self.inner.store.head(&location);
        match self
            .patiently(self.glance(), (digest, "looked at"), found)
            .await?
        {
            Ok(found) => Ok(Some(found.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed((digest, "looked at"), &error)),
        }
    }

    pub(super) async fn write(&self, digest: &Digest, bytes: Bytes) -> Result<(), ArtifactError> {
        let size = bytes.len() as u64;
        let patience = self.time_for(size);
        let location = self.location(digest);
        let put = self.inner.store.put(&location, PutPayload::from(bytes));
        match self.patiently(patience, (digest, "written"), put).await? {
            Ok(put) => {
                self.see(digest, put.e_tag, size);
                Ok(())
            }
            Err(error) => Err(self.failed((digest, "written"), &error)),
        }
    }

    /// See [`super::contents::Contents::read`].
    pub(super) async fn read(
        &self,
        digest: &Digest,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, ArtifactError> {
        let seen = lock(&self.inner.seen).get(digest).cloned();
        if let Some(Seen { tag, size }) = seen {
            let end = range.end.min(size);
            if range.start >= end {
                return Ok(Some(Bytes::new()));
            }
            let of = GetOptions::new()
                .with_range(Some(range.start..end))
                .with_if_match(Some(tag));
            match self.get(digest, of).await? {
                Ok(None) => return Ok(None),
                Ok(Some(mut coming)) => return coming.all().await.map(Some),
                // Somebody has written it anew.
                Err(Changed) => drop(lock(&self.inner.seen).remove(digest)),
            }
        }
        let Some(mut coming) = self.whole(digest).await? else {
            return Ok(None);
        };
        let end = range.end.min(coming.size());
        let room = usize::try_from(end.saturating_sub(range.start)).unwrap_or(0);
        let mut part = BytesMut::with_capacity(room);
        let mut at = 0;
        while let Some(some) = coming.next().await? {
            let within = |place: u64| {
                let place = place.clamp(at, at + some.len() as u64) - at;
                usize::try_from(place).unwrap_or(usize::MAX)
            };
            if let Some(wanted) = some.get(within(range.start)..within(end)) {
                part.extend_from_slice(wanted);
            }
            at += some.len() as u64;
        }
        Ok(Some(part.freeze()))
    }

    /// The whole content, which is compared with its digest at its end.
    pub(super) async fn whole(&self, digest: &Digest) -> Result<Option<Coming>, ArtifactError> {
        match self.get(digest, GetOptions::new()).await? {
            Ok(coming) => Ok(coming),
            Err(Changed) => Ok(None),
        }
    }

    async fn get(
        &self,
        digest: &Digest,
        of: GetOptions,
    ) -> Result<Result<Option<Coming>, Changed>, ArtifactError> {
        let is_whole = of.range.is_none();
        let location = self.location(digest);
        let begun = Instant::now();
        let got = self.inner.store.get_opts(&location, of);
        match self
            .patiently(self.inner.patience, (digest, "read"), got)
            .await?
        {
            Ok(got) => {
                let spent = begun.elapsed();
                let coming = Coming::new(self.clone(), *digest, got, is_whole);
                Ok(Ok(Some(coming.after(spent))))
            }
            Err(Error::Precondition { .. }) => Ok(Err(Changed)),
            Err(error) if is_missing(&error) => Ok(Ok(None)),
            Err(error) => Err(self.failed((digest, "read"), &error)),
        }
    }

    pub(super) async fn remove(&self, digest: &Digest) -> Result<(), ArtifactError> {
        lock(&self.inner.seen).remove(digest);
        let location = self.location(digest);
        let removed = self.inner.store.delete(&location);
        match self
            .patiently(self.glance(), (digest, "removed"), removed)
            .await?
        {
            Err(error) if !matches!(error, Error::NotFound { .. }) => {
                Err(self.failed((digest, "removed"), &error))
            }
            _ => Ok(()),
        }
    }

    /// Contents that were written more than a day ago.
    pub(super) async fn old(&self) -> Result<Vec<Digest>, ArtifactError> {
        let since = SystemTime::now() - LEFT_OVER;
        let place = self.place().display().to_string();
        let mut listed = self.inner.store.list(Some(&self.inner.prefix));
        let mut old = Vec::new();
        loop {
            let next = self.within(self.inner.patience, (&place, "listed"), listed.next());
            let Some(found) = next.await? else {
                return Ok(old);
            };
            let found = found
                .map_err(|error| ArtifactError::bucket(place.clone(), "listed", reason(&error)))?;
            if SystemTime::from(found.last_modified) < since {
                old.extend(self.digest(&found.location));
            }
        }
    }

    /// Says that what is here belongs to the journal that begins with this line; an error where it
    /// belongs to another one.
    pub(super) async fn claim(&self, beginning: &Digest) -> Result<(), ArtifactError> {
        let own = format!("{beginning}\n");
        let name = self.place().join(OWNER).display().to_string();
        let failed = |did, error: &Error| ArtifactError::bucket(name.clone(), did, reason(error));
        let location = self.inner.prefix.clone().join(OWNER);
        let store = &self.inner.store;
        // What is written is read once more: another one may have come first.
        for _ in 0..2 {
            let read = async { store.get(&location).await?.bytes().await };
            match self
                .within(self.inner.patience, (&name, "read"), read)
                .await?
            {
                Ok(found) if found == own => return Ok(()),
                Ok(_) => break,
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(failed("read", &error)),
            }
            let put = self.put_first(&location, own.clone());
            let put = self.within(self.inner.patience, (&name, "written"), put);
            put.await?.map_err(|error| failed("written", &error))?;
        }
        let said = "what is there belongs to another journal; give each a prefix of its own";
        Err(ArtifactError::bucket(name, "used", said.to_owned()))
    }

    /// Writes an object unless there is one; where a service cannot be asked for that, the last one counts.
    async fn put_first(&self, location: &Location, text: String) -> Result<(), Error> {
        let store = &self.inner.store;
        let create = PutOptions::from(PutMode::Create);
        let put = store.put_opts(location, PutPayload::from(text.clone()), create);
        match put.await {
            Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(()),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                store.put(location, PutPayload::from(text)).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    fn location(&self, digest: &Digest) -> Location {
        let digits = digest.to_string();
        let (first, rest) = digits.split_at(2);
        self.inner.prefix.clone().join(first).join(rest)
    }

    /// Which content an object is; others have nothing to do with us.
    fn digest(&self, location: &Location) -> Option<Digest> {
        let rest: Vec<_> = location.prefix_match(&self.inner.prefix)?.collect();
        match rest.as_slice() {
            [first, rest] if first.as_ref().len() == 2 => {
                format!("{}{}", first.as_ref(), rest.as_ref()).parse().ok()
            }
            _ => None,
        }
    }

    /// Remembers which version of a content was compared with its digest.
    fn see(&self, digest: &Digest, tag: Option<String>, size: u64) {
        let mut seen = lock(&self.inner.seen);
        if seen.len() >= SEEN {
            seen.clear();
        }
        // Without a tag it is compared each time.
        if let Some(tag) = tag {
            seen.insert(*digest, Seen { tag, size });
        }
    }

    async fn patiently<T>(
        &self,
        patience: Duration,
        (digest, did): (&Digest, &'static str),
        work: impl Future<Output = T>,
    ) -> Result<T, ArtifactError> {
        let name = self.name(digest);
        self.within(patience, (&name, did), work).await
    }

    /// Waits so long and no longer, and not at all where that was in vain a moment ago.
    async fn within<T>(
        &self,
        patience: Duration,
        (name, did): (&str, &'static str),
        work: impl Future<Output = T>,
    ) -> Result<T, ArtifactError> {
        let rest = lock(&self.inner.trouble).clone();
        if let Some((_, said)) = rest.filter(|(when, _)| when.elapsed() < REST) {
            return Err(ArtifactError::bucket(name.to_owned(), did, said));
        }
        match timeout(patience, work).await {
            Ok(done) => Ok(done),
            Err(_) => Err(self.late((name, did), patience)),
        }
    }

    fn glance(&self) -> Duration {
        self.inner.patience.min(GLANCE)
    }

    /// How long so many bytes may take to come or go.
    fn time_for(&self, size: u64) -> Duration {
        self.inner.patience + Duration::from_secs(size / SLOW)
    }

    /// An error for what did not come in time.
    fn late(&self, (name, did): (&str, &'static str), patience: Duration) -> ArtifactError {
        let said = silent(patience);
        *lock(&self.inner.trouble) = Some((Instant::now(), said.clone()));
        ArtifactError::bucket(name.to_owned(), did, said)
    }

    fn failed(&self, (digest, did): (&Digest, &'static str), error: &Error) -> ArtifactError {
        ArtifactError::bucket(self.name(digest), did, reason(error))
    }

    /// The object of a content, as people know it.
    fn name(&self, digest: &Digest) -> String {
        let name = super::folder::file(self.place(), digest);
        name.display().to_string()
    }
}

/// It is another version than the one that was compared.
struct Changed;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the object is not there, though the bucket is.
fn is_missing(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && !reason::is_no_bucket(error)
}

fn silent(patience: Duration) -> String {
    format!("it did not answer within {} seconds", patience.as_secs())
}

fn builder(settings: &BucketSettings) -> Result<AmazonS3Builder, BadBucket> {
    let service = settings.service()?;
    let mut client = ClientOptions::new()
        .with_allow_http(service.as_ref().is_some_and(|url| url.scheme() == "http"))
        .with_connect_timeout(CONNECT)
        // Each request has its own.
        .with_timeout_disabled();
    for path in &settings.ca_files {
        let bad = |reason: String| BadBucket::Authorities {
            path: path.clone(),
            reason,
        };
        let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
        let all = Certificate::from_pem_bundle(&pem).map_err(|error| bad(error.to_string()))?;
        for certificate in all {
            client = client.with_root_certificate(certificate);
        }
    }
    let mut builder = AmazonS3Builder::new();
    let own_key = settings.access_key_id.is_some();
    for (name, value) in &settings.environment {
        let key: AmazonS3ConfigKey = match name.to_ascii_lowercase().parse() {
            Ok(key) => key,
            Err(error) => return Err(BadBucket::Unusable(format!("`{name}`: {error}"))),
        };
        // A token belongs to the key that it came with.
        if !(own_key && key == AmazonS3ConfigKey::Token) {
            builder = builder.with_config(key, value);
        }
    }
    let said = [
        (AmazonS3ConfigKey::Region, &settings.region),
        (AmazonS3ConfigKey::AccessKeyId, &settings.access_key_id),
        (
            AmazonS3ConfigKey::SecretAccessKey,
            &settings.secret_access_key,
        ),
        (AmazonS3ConfigKey::Token, &settings.session_token),
        (AmazonS3ConfigKey::S3Endpoint, &settings.endpoint),
    ];
    for (key, value) in said {
        if let Some(value) = value {
            builder = builder.with_config(key, value.trim());
        }
    }
    let retry = RetryConfig {
        backoff: BackoffConfig {
            max_backoff: Duration::from_secs(1),
            ..BackoffConfig::default()
        },
        max_retries: 2,
        retry_timeout: GLANCE / 2,
    };
    Ok(builder
        .with_virtual_hosted_style_request(settings.virtual_hosted_style_request)
        // Not every service has it.
        .with_disable_bulk_delete(true)
        .with_client_options(client)
        .with_retry(retry))
}

//! Where state is kept that several replicas share.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_connect::Secret;
use outrigger_journal::BucketSettings;

use super::gap::Gap;
use super::server::WrittenKey;

/// `[storage]`: a database in the place of the files on this machine. The nearest file that has the
/// table counts, as a whole; those of a project do not.
#[derive(Debug, Clone, Default)]
pub struct StorageSettings {
    /// What is said in text, by key below `storage`.
    pub(crate) texts: BTreeMap<String, Secret>,
    /// How long a replica may be away from the database before its calls are ended.
    pub grace: Option<Duration>,
    /// Truths and times of `[storage.artifacts]`; the texts are among the others.
    pub(crate) bucket: BucketBounds,
    /// What was written, in the order of the file.
    pub(crate) written: Vec<WrittenKey>,
    /// Values with secrets still missing.
    pub(crate) gaps: Vec<Gap>,
}

/// What is said of a bucket beside texts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BucketBounds {
    pub(crate) allow_http: bool,
    pub(crate) virtual_hosted_style_request: bool,
    pub(crate) timeout: Option<Duration>,
}

impl StorageSettings {
    /// Whether anything is to be kept in a database.
    pub fn is_database(&self) -> bool {
        self.url().is_some()
    }

    /// The address of the database, as other programs take it. Holds a password, mostly.
    pub fn url(&self) -> Option<&str> {
        self.text("url")
    }

    /// How people know this replica.
    pub fn replica(&self) -> Option<&str> {
        self.text("replica")
    }

    /// The bucket that holds the contents of artifacts, where one is said, without what only the
    /// environment and other tables know.
    pub fn bucket(&self) -> Option<BucketSettings> {
        let text = |key: &str| {
            let found = self.text(&format!("artifacts.{key}"));
            found.map(|text| text.trim().to_owned())
        };
        let BucketBounds {
            allow_http,
            virtual_hosted_style_request,
            timeout,
        } = self.bucket;
        Some(BucketSettings {
            url: text("url")?,
            endpoint: text("endpoint"),
            region: text("region"),
            access_key_id: text("access_key_id"),
            secret_access_key: text("secret_access_key"),
            session_token: text("session_token"),
            allow_http,
            virtual_hosted_style_request,
            timeout,
            ..BucketSettings::default()
        })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(Secret::reveal)
    }
}

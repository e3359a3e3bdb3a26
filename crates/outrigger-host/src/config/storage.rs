//! Where state is kept that several replicas share.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_connect::Secret;

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
    /// What was written, in the order of the file.
    pub(crate) written: Vec<WrittenKey>,
    /// Values with secrets still missing.
    pub(crate) gaps: Vec<Gap>,
}

/// A bucket for artifacts: `[storage.artifacts]`.
#[derive(Debug, Clone)]
pub struct BucketSettings {
    /// `s3://BUCKET` or `s3://BUCKET/FOLDER`.
    pub url: String,
    /// Where the service is, when it is not Amazon's.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` where nothing is said.
    pub region: Option<String>,
    /// The two halves of the key, and what a temporary one has beside them.
    pub access_key: Option<Secret>,
    /// See `access_key`.
    pub secret_key: Option<Secret>,
    /// See `access_key`.
    pub session_token: Option<Secret>,
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

    /// Where artifacts are kept, when not in a folder.
    pub fn bucket(&self) -> Option<BucketSettings> {
        let text = |key: &str| self.text(&format!("artifacts.{key}"));
        let secret = |key| text(key).map(|value| Secret::new(value.to_owned()));
        Some(BucketSettings {
            url: text("url")?.to_owned(),
            endpoint: text("endpoint").map(ToOwned::to_owned),
            region: text("region").map(ToOwned::to_owned),
            access_key: secret("access_key"),
            secret_key: secret("secret_key"),
            session_token: secret("session_token"),
        })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(Secret::reveal)
    }
}

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

    fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(Secret::reveal)
    }
}

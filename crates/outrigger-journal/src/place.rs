//! Where a journal is kept: a file of this machine, or a database that several replicas share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::JournalError;

/// How long a host may be away from the database before its calls are ended, unless said otherwise.
pub const GRACE: Duration = Duration::from_secs(20);

/// Where a journal is kept.
#[derive(Debug, Clone)]
pub enum Place {
    /// One SQLite file.
    File(PathBuf),
    /// A database in PostgreSQL; needs the feature `postgres`.
    Database(Database),
}

/// A database in PostgreSQL, and how it is used.
#[derive(Clone)]
pub struct Database {
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "used by what the feature brings")
    )]
    pub(crate) url: String,
    pub(crate) name: PathBuf,
    /// How long a host may be away from the database before it counts as gone.
    pub grace: Duration,
    /// How people know this replica; it is shown where another one has what is wanted.
    pub replica: String,
}

impl Database {
    /// A database by its address, `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=…`, as other
    /// programs take it. A server that is not on this machine has to show a certificate that is
    /// valid for its name, unless the address says otherwise.
    pub fn new(url: &str, replica: &str) -> Result<Self, JournalError> {
        let url = url.trim();
        Ok(Self {
            url: url.to_owned(),
            name: shown(url)?,
            grace: GRACE,
            replica: replica.to_owned(),
        })
    }

    /// Its address without the password.
    pub fn name(&self) -> &Path {
        &self.name
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Database").field(&self.name).finish()
    }
}

impl Place {
    /// As messages name it.
    pub fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Database(database) => database.name(),
        }
    }
}

/// An address without user, password and settings, which may hold one.
fn shown(url: &str) -> Result<PathBuf, JournalError> {
    let bad = |reason: &str| JournalError::Unusable {
        path: PathBuf::from("postgres://…"),
        reason: reason.to_owned(),
    };
    let rest = url
        .strip_prefix("postgres://")
        .or_else(|| url.strip_prefix("postgresql://"));
    let Some(rest) = rest else {
        return Err(bad(
            "its address has to be `postgres://USER:PASSWORD@HOST:PORT/NAME`",
        ));
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    // A password may hold an `@` that nobody has escaped.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let database = rest.split_once('/').map_or("", |(_, database)| database);
    if database.is_empty() {
        return Err(bad("its address names no database: `postgres://…/NAME`"));
    }
    Ok(PathBuf::from(format!("postgres://{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_an_address_has_no_password() {
        for (url, name) in [
            (
                "postgres://out:s3cret@db.example:5433/outrigger?sslmode=require",
                "postgres://db.example:5433/outrigger",
            ),
            (
                "postgresql://out:s3@cret@db.example/outrigger?password=s3cret",
                "postgres://db.example/outrigger",
            ),
            (
                " postgres:///outrigger?host=/run/postgresql",
                "postgres:///outrigger",
            ),
        ] {
            let database = Database::new(url, "one").unwrap();
            assert_eq!(database.name(), Path::new(name));
            assert_eq!(format!("{database:?}"), format!("Database({name:?})"));
        }
        for url in ["mysql://db/x", "postgres://out:s3cret@db.example"] {
            let error = Database::new(url, "one").unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}

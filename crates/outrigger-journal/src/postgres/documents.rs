//! Small texts that replicas share, each under a name: changed in turns, so that no change is lost.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sqlx::{Connection as _, PgConnection};

use super::apart::Apart;
use super::connect::connect;
use super::error::PgError;
use super::schema;
use crate::JournalError;
use crate::place::Database;

/// Small texts in a database; each call blocks for as long as the server takes.
pub struct Documents {
    database: Database,
    runtime: Apart,
    connection: Mutex<Option<PgConnection>>,
}

/// A text, and which version of it that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The text.
    pub text: String,
    /// Grows with each change.
    pub version: i64,
}

/// Why a text was not changed.
#[derive(Debug)]
pub enum Unchanged<E> {
    /// Whoever was to change it would not.
    Refused(E),
    /// The database could not be used.
    Store(JournalError),
}

impl Documents {
    /// The texts in this database, whose tables are made or brought up first.
    pub fn open(database: &Database) -> Result<Self, JournalError> {
        let opened = Apart::new().and_then(|runtime| {
            let connection = runtime.run(async {
                let mut connection = connect(database).await?;
                schema::migrate(&mut connection).await?;
                Ok::<_, PgError>(connection)
            })?;
            Ok(Self {
                database: database.clone(),
                runtime,
                connection: Mutex::new(Some(connection)),
            })
        });
        opened.map_err(|error| error.of_store(database.name()))
    }

    /// The address of the database, without its password.
    pub fn place(&self) -> &Path {
        self.database.name()
    }

    /// The text of this name, unless it has `known` as its version; `None` then, and where there is
    /// none.
    pub fn read(&self, name: &str, known: Option<i64>) -> Result<Option<Document>, JournalError> {
        let mut guard = self.held();
        let held = &mut *guard;
        let read = self.runtime.run(async {
            let mut connection = usable(&self.database, held).await?;
            let found: Option<(String, i64)> = sqlx::query_as(
                "SELECT text, version FROM documents WHERE name = $1 AND version <> $2",
            )
            .bind(name)
            // None has this one: the first change makes it 1.
            .bind(known.unwrap_or(0))
            .fetch_optional(&mut connection)
            .await?;
            *held = Some(connection);
            Ok::<_, PgError>(found.map(|(text, version)| Document { text, version }))
        });
        read.map_err(|error| error.of_store(self.database.name()))
    }

    /// Changes the text of this name, whatever others have made of it meanwhile; they wait until it is
    /// done. `None` is given where there is no text.
    pub fn change<E: Send>(
        &self,
        name: &str,
        change: impl FnOnce(Option<&str>) -> Result<String, E> + Send,
    ) -> Result<Document, Unchanged<E>> {
        let mut guard = self.held();
        let held = &mut *guard;
        let changed = self.runtime.run(async {
            let mut connection = usable(&self.database, held).await?;
            let changed = turn(&mut connection, name, change).await?;
            *held = Some(connection);
            Ok::<_, PgError>(changed)
        });
        match changed {
            Ok(changed) => changed.map_err(Unchanged::Refused),
            Err(error) => Err(Unchanged::Store(error.of_store(self.database.name()))),
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<PgConnection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Documents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Documents").field(&self.database).finish()
    }
}

/// The connection, made again where it broke. Whoever takes it gives it back when all went well.
async fn usable(
    database: &Database,
    held: &mut Option<PgConnection>,
) -> Result<PgConnection, PgError> {
    if let Some(mut connection) = held.take()
        && connection.ping().await.is_ok()
    {
        return Ok(connection);
    }
    connect(database).await
}

async fn turn<E>(
    connection: &mut PgConnection,
    name: &str,
    change: impl FnOnce(Option<&str>) -> Result<String, E>,
) -> Result<Result<Document, E>, PgError> {
    let mut transaction = connection.begin().await?;
    sqlx::query(
        "INSERT INTO documents (name, text, version) VALUES ($1, '', 0) ON CONFLICT (name) DO NOTHING",
    )
    .bind(name)
    .execute(&mut *transaction)
    .await?;
    let (text, version): (String, i64) =
        sqlx::query_as("SELECT text, version FROM documents WHERE name = $1 FOR UPDATE")
            .bind(name)
            .fetch_one(&mut *transaction)
            .await?;
    let text = match change((version > 0).then_some(text.as_str())) {
        Ok(text) => text,
        Err(refused) => {
            transaction.rollback().await?;
            return Ok(Err(refused));
        }
    };
    let version: i64 = sqlx::query_scalar(
        "UPDATE documents SET text = $2, version = version + 1 WHERE name = $1 RETURNING version",
    )
    .bind(name)
    .bind(&text)
    .fetch_one(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(Ok(Document { text, version }))
}

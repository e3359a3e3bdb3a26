//! Changes of the index of artifacts beside the writer, on a connection of their own: while it is looked
//! whether a content in a bucket is there, nobody who records something waits for that. One after the
//! other, so that a process has one such connection and no more.

use std::sync::{Mutex, PoisonError};

use sqlx::{Connection as _, PgConnection};

use super::apart::Apart;
use super::connect::connect;
use super::error::PgError;
use super::index;
use crate::JournalError;
use crate::artifacts::index::{IndexDone, IndexWork};
use crate::place::Database;

pub(super) struct Beside {
    database: Database,
    /// `None` until it is wanted.
    link: Mutex<Option<(PgConnection, Apart)>>,
}

impl Beside {
    pub(super) fn of(database: Database) -> Self {
        let link = Mutex::default();
        Self { database, link }
    }

    /// One change, in a transaction of its own.
    pub(super) fn index(&self, work: &IndexWork) -> Result<IndexDone, JournalError> {
        let name = self.database.name();
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.transact(&mut link, work);
        done.map_err(|error| match error.refusal(name) {
            Ok(refused) => refused,
            Err(error) => error.of_store(name),
        })
    }

    fn link(&self) -> Result<(PgConnection, Apart), PgError> {
        let runtime = Apart::new()?;
        let connection = runtime.run(connect(&self.database))?;
        Ok((connection, runtime))
    }

    fn transact(
        &self,
        kept: &mut Option<(PgConnection, Apart)>,
        work: &IndexWork,
    ) -> Result<IndexDone, PgError> {
        let link = kept.take().and_then(if_there);
        let (mut connection, runtime) = link.map_or_else(|| self.link(), Ok)?;
        let done = runtime.run(async {
            let mut transaction = connection.begin().await?;
            let done = index::work(&mut transaction, work).await?;
            transaction.commit().await?;
            Ok(done)
        });
        if done.as_ref().err().is_none_or(PgError::leaves_connection) {
            *kept = Some((connection, runtime));
        }
        done
    }
}

/// The same, unless it was lost while nobody used it.
fn if_there((mut connection, runtime): (PgConnection, Apart)) -> Option<(PgConnection, Apart)> {
    let ping = async { Ok::<_, PgError>(connection.ping().await?) };
    runtime.run(ping).is_ok().then_some((connection, runtime))
}

//! The journal in PostgreSQL, which several replicas share.
//!
//! One transaction for each batch, on disk when it returns. Whoever writes holds the row with the end
//! of the chain, so that all replicas' lines are in one order. A connection that broke is made again
//! with the next batch; whether the last one had arrived is looked up then, so that no line is written
//! twice. Which hosts are there: `hosts.rs`. Leaves out: connections through a pool between, which
//! would hand our locks to others.

mod apart;
mod approvals;
mod beside;
mod connect;
mod documents;
mod error;
mod hosts;
mod index;
mod leases;
mod ledger;
mod read;
mod schema;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use self::apart::Apart;
use self::connect::connect;
pub use self::documents::{Document, Documents, Unchanged};
use self::error::PgError;
use self::hosts::Host;
pub(crate) use self::leases::Leases;
use self::ledger::{Batch, Head};
pub(crate) use self::read::Readers;
use crate::JournalError;
use crate::ledger::{Change, Entry, NewRun, int};
use crate::place::Database;
use crate::store::{Done, Failure, Pending, Store};

/// How often it is looked whether all hosts are there, at most and at least.
const TENDING: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The one connection of this process that writes.
pub(crate) struct Postgres {
    database: Database,
    runtime: Arc<Apart>,
    /// `None` until it is made again.
    connection: Option<PgConnection>,
    host: Host,
    /// Whether lines that are still pending may be there already.
    doubtful: bool,
}

/// Lines that are there already, by run and position.
#[derive(Default)]
struct Arrived {
    stored: HashSet<(i64, i64)>,
    /// In their places stands that their fence did not stand any more.
    refused: HashSet<(i64, i64)>,
}

/// Why a batch was not written, with the entry that it is about.
struct Stopped {
    at: Option<usize>,
    error: PgError,
}

impl From<PgError> for Stopped {
    fn from(error: PgError) -> Self {
        Self { at: None, error }
    }
}

impl From<sqlx::Error> for Stopped {
    fn from(error: sqlx::Error) -> Self {
        PgError::from(error).into()
    }
}

impl Stopped {
    /// Because of this entry.
    fn by(at: usize) -> impl FnOnce(PgError) -> Self {
        move |error| Self {
            at: Some(at),
            error,
        }
    }
}

impl Postgres {
    /// Connects, brings the tables up, and ends what hosts left open that are gone.
    pub(crate) fn open(database: &Database) -> Result<Self, JournalError> {
        let opened = Apart::new().and_then(|runtime| {
            let (connection, host) = runtime.run(async {
                let mut connection = connect(database).await?;
                schema::migrate(&mut connection).await?;
                let host = hosts::register(&mut connection, &database.replica).await?;
                hosts::look_after(&mut connection, &host, database.grace).await?;
                Ok((connection, host))
            })?;
            Ok(Self {
                database: database.clone(),
                runtime: Arc::new(runtime),
                connection: Some(connection),
                host,
                doubtful: false,
            })
        });
        opened.map_err(|error| error.of_store(database.name()))
    }

    /// The connection, made again where it broke.
    async fn connected(&mut self) -> Result<PgConnection, PgError> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let mut connection = connect(&self.database).await?;
        self.doubtful = true;
        if !hosts::come_back(&mut connection, &self.host).await? {
            self.register_anew(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Others have ended what this host left open. What begins from now on is another host's.
    async fn register_anew(&mut self, connection: &mut PgConnection) -> Result<(), PgError> {
        tracing::warn!(
            "this replica was away from the database for too long; the calls of its runs were ended by another"
        );
        self.host = hosts::register(connection, &self.database.replica).await?;
        Ok(())
    }

    async fn write_all(
        &mut self,
        batch: &[Pending],
        one_by_one: bool,
    ) -> Result<Vec<Done>, Stopped> {
        let mut connection = self.connected().await?;
        let written = self.transact(&mut connection, batch, one_by_one).await;
        if written
            .as_ref()
            .err()
            .is_none_or(|stopped| stopped.error.leaves_connection())
        {
            self.connection = Some(connection);
        }
        if written.is_ok() {
            self.doubtful = false;
        }
        written
    }

    async fn transact(
        &self,
        connection: &mut PgConnection,
        batch: &[Pending],
        one_by_one: bool,
    ) -> Result<Vec<Done>, Stopped> {
        let mut transaction = connection.begin().await?;
        // Before others have to wait for this: contents are looked at.
        let mut all = index_works(&mut transaction, batch).await?;
        let has_lines = batch
            .iter()
            .any(|entry| matches!(entry, Pending::Begin(_) | Pending::Line(_)));
        if has_lines {
            let mut head = Head::load(&mut transaction).await?;
            self.lines(&mut transaction, batch, &mut head, (one_by_one, &mut all))
                .await?;
            head.store(&mut transaction).await?;
        }
        // What waits belongs to a call, whose line may be one of these.
        self.approval_works(&mut transaction, batch, &mut all)
            .await?;
        transaction.commit().await?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Runs begin, then all lines are written.
    async fn lines(
        &self,
        connection: &mut PgConnection,
        batch: &[Pending],
        head: &mut Head,
        (one_by_one, all): (bool, &mut [Option<Done>]),
    ) -> Result<(), Stopped> {
        let there = self.there_already(connection, batch).await?;
        let mut lines = Vec::with_capacity(batch.len());
        for (at, (entry, done)) in batch.iter().zip(all.iter_mut()).enumerate() {
            match entry {
                Pending::Begin(begin) => {
                    let run = NewRun {
                        name: &begin.name,
                        host: &self.host.name,
                        at: begin.at,
                        start: &begin.start,
                        body: &begin.body,
                    };
                    let fresh = ledger::begin(connection, &run)
                        .await
                        .map_err(Stopped::by(at))?;
                    lines.extend(fresh.map(|key| (at, first_of(key, &run))));
                    let known = match fresh {
                        None if self.doubtful => ledger::known(connection, &run).await?,
                        fresh => fresh,
                    };
                    *done = Some(Done::Begun(known));
                }
                Pending::Line(line) => {
                    let place = (line.recording.key, int(line.seq));
                    *done = Some(if there.refused.contains(&place) {
                        Done::Fenced
                    } else if there.stored.contains(&place) {
                        Done::Added
                    } else if let Some(instead) = refused(connection, line).await? {
                        lines.push((at, instead));
                        Done::Fenced
                    } else {
                        lines.push((at, entry_of(line)));
                        Done::Added
                    });
                }
                Pending::Index(..) | Pending::Approval(..) => {}
            }
        }
        if !one_by_one {
            return Batch::of(lines).write(connection, head).await;
        }
        for line in lines {
            Batch::of(vec![line]).write(connection, head).await?;
        }
        Ok(())
    }

    /// Does all that is to be done with what waits for a person.
    async fn approval_works(
        &self,
        connection: &mut PgConnection,
        batch: &[Pending],
        all: &mut [Option<Done>],
    ) -> Result<(), Stopped> {
        for (at, (entry, done)) in batch.iter().zip(all).enumerate() {
            let Pending::Approval(work, _) = entry else {
                continue;
            };
            let mut changed = approvals::work(connection, work)
                .await
                .map_err(Stopped::by(at))?;
            if !changed && self.doubtful {
                changed = approvals::was_done(connection, work).await?;
            }
            *done = Some(Done::Approval(changed));
        }
        Ok(())
    }

    /// After a connection has broken, which lines have arrived all the same.
    async fn there_already(
        &self,
        connection: &mut PgConnection,
        batch: &[Pending],
    ) -> Result<Arrived, PgError> {
        if !self.doubtful {
            return Ok(Arrived::default());
        }
        let lines = batch.iter().filter_map(|entry| match entry {
            Pending::Line(line) => Some(entry_of(line)),
            Pending::Begin(_) | Pending::Index(..) | Pending::Approval(..) => None,
        });
        let lines: Vec<_> = lines.collect();
        let instead = batch.iter().filter_map(|entry| match entry {
            Pending::Line(line) => instead_of(line),
            Pending::Begin(_) | Pending::Index(..) | Pending::Approval(..) => None,
        });
        let instead: Vec<_> = instead.collect();
        Ok(Arrived {
            stored: ledger::there_already(connection, &lines).await?,
            refused: ledger::there_already(connection, &instead).await?,
        })
    }

    async fn look_after(&mut self) -> Result<(), PgError> {
        let mut connection = self.connected().await?;
        let looked = hosts::look_after(&mut connection, &self.host, self.database.grace).await;
        let known = match looked {
            Ok(known) => known,
            Err(error) => {
                // Without its connection, others would miss this host.
                self.connection = Some(connection).filter(|_| error.leaves_connection());
                return Err(error);
            }
        };
        if !known {
            self.register_anew(&mut connection).await?;
        }
        self.connection = Some(connection);
        Ok(())
    }
}

impl Store for Postgres {
    /// Each transaction is durable: what is on the way to the server costs more than its disk.
    fn write(&mut self, batch: &[Pending], _durable: bool) -> Result<Vec<Done>, Failure> {
        let runtime = Arc::clone(&self.runtime);
        let mut written = runtime.run_here(self.write_all(batch, false));
        if let Err(Stopped { at: None, error }) = &written
            && error.is_lost_connection()
        {
            // It may have been lost long ago, and nobody noticed.
            written = runtime.run_here(self.write_all(batch, false));
        }
        if let Err(Stopped { at: None, error }) = &written
            && error.is_refusal()
        {
            // Which of the lines it was.
            written = runtime.run_here(self.write_all(batch, true));
        }
        let name = self.database.name();
        written.map_err(|Stopped { at, error }| match (at, error.refusal(name)) {
            (Some(at), Ok(refused)) => Failure::Entry(at, refused),
            (None, Ok(refused)) => Failure::Store(refused),
            (_, Err(error)) => Failure::Store(error.of_store(name)),
        })
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn tend(&mut self) -> Option<Duration> {
        let runtime = Arc::clone(&self.runtime);
        if let Err(error) = runtime.run_here(self.look_after()) {
            tracing::warn!(%error, "the database is out of reach");
        }
        let (least, most) = TENDING;
        Some((self.database.grace / 4).clamp(least, most))
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        let Self {
            database,
            runtime,
            connection,
            host,
            ..
        } = *self;
        // Without one it is gone already; others will notice.
        let Some(mut connection) = connection else {
            return Ok(());
        };
        let closed = runtime.run_here(async {
            hosts::leave(&mut connection, &host).await?;
            Ok::<_, PgError>(connection.close().await?)
        });
        closed.map_err(|error| error.of_store(database.name()))
    }
}

/// Does all that is to be done with the index; the others are left open.
async fn index_works(
    connection: &mut PgConnection,
    batch: &[Pending],
) -> Result<Vec<Option<Done>>, Stopped> {
    let mut all = Vec::with_capacity(batch.len());
    for (at, entry) in batch.iter().enumerate() {
        all.push(match entry {
            Pending::Index(work, _) => {
                let done = index::work(connection, work).await;
                Some(Done::Indexed(done.map_err(Stopped::by(at))?))
            }
            Pending::Begin(_) | Pending::Line(_) | Pending::Approval(..) => None,
        });
    }
    Ok(all)
}

fn first_of<'a>(key: i64, run: &NewRun<'a>) -> Entry<'a> {
    Entry {
        run: key,
        name: run.name,
        seq: 1,
        at: run.at,
        body: run.body,
        change: &Change::Nothing,
    }
}

fn entry_of(line: &crate::writer::Line) -> Entry<'_> {
    Entry {
        run: line.recording.key,
        name: &line.recording.name,
        seq: line.seq,
        at: line.at,
        body: &line.body,
        change: &line.change,
    }
}

/// What is stored in the place of a line whose fence does not stand any more.
async fn refused<'a>(
    connection: &mut PgConnection,
    line: &'a crate::writer::Line,
) -> Result<Option<Entry<'a>>, PgError> {
    match &line.fenced {
        Some(fenced) if !leases::stands(connection, &fenced.fence).await? => Ok(instead_of(line)),
        _ => Ok(None),
    }
}

/// What may have to be stored in the place of a line.
fn instead_of(line: &crate::writer::Line) -> Option<Entry<'_>> {
    line.fenced.as_ref().map(|fenced| Entry {
        body: &fenced.instead,
        change: &Change::Nothing,
        ..entry_of(line)
    })
}

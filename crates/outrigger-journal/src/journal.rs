//! The journal of all runs: opening it, beginning runs, reading, closing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::approvals::ApprovalWork;
use crate::artifacts::index::{IndexDone, IndexWork};
use crate::host::Hosts;
use crate::leases::{FileLeases, LeaseStore};
use crate::queue::Queue;
use crate::read::{CallLine, Readers, RunSummary, UnknownCall};
use crate::recovery::recover;
use crate::schema::{self, Opened, make_folder};
use crate::sqlite::Sqlite;
use crate::store::{Records, Source, Store};
use crate::writer::{Command, Meter, Writer};
use crate::{Event, GRACE, JournalError, Misplaced, Place, Recorded, Run, RunId, RunOptions};

/// Bytes that may wait for the disk; then durable events wait and others break off their run.
const QUEUE_LIMIT: u64 = 64 << 20;

/// A journal; clones share it. Several processes can use one at once.
///
/// Beside a file lie those of SQLite (`-wal`, `-shm`) and a folder `-hosts`, whose locks tell
/// which processes are alive; it must not be removed while one is.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

/// What the handles of one open journal share.
pub(crate) struct Shared {
    /// The file, or what is shown of the database's address.
    pub(crate) path: PathBuf,
    backup: Option<PathBuf>,
    source: Box<dyn Source>,
    pub(crate) leasing: Leasing,
    pub(crate) meter: Arc<Meter>,
    queue: Arc<Queue>,
    closed: watch::Receiver<Option<Result<(), JournalError>>>,
}

/// Where leases are kept, how others know this holder of some, and how long they last.
pub(crate) type Leasing = (Arc<dyn LeaseStore>, Arc<str>, Duration);

/// What a journal is made of.
struct Kept {
    backup: Option<PathBuf>,
    store: Box<dyn Store>,
    source: Box<dyn Source>,
    leasing: Leasing,
}

/// What tests make smaller.
pub(crate) struct Settings {
    pub(crate) queue_limit: u64,
    pub(crate) patience: Duration,
    /// Largest size of the database, in pages.
    pub(crate) max_pages: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queue_limit: QUEUE_LIMIT,
            patience: schema::PATIENCE,
            max_pages: None,
        }
    }
}

impl Journal {
    /// Opens, makes or migrates the file, with its folder (mode 0700; file 0600).
    ///
    /// Calls that a host left open when it was stopped get their end here: unknown where an intent
    /// was written, not sent otherwise. Runs of processes that live are not touched. A file of an
    /// older format is copied aside, see [`Self::backup`], and brought up, which takes some seconds
    /// for a large one. Blocks for up to 10 seconds where other processes hold the file.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_with(path, &Settings::default())
    }

    pub(crate) fn open_with(path: &Path, settings: &Settings) -> Result<Self, JournalError> {
        let (store, backup) = open_file(path, settings)?;
        let kept = Kept {
            backup,
            store: Box::new(store),
            source: Box::new(Readers {
                path: path.to_path_buf(),
            }),
            leasing: (
                Arc::new(FileLeases::of(path.to_path_buf())),
                holder(None),
                GRACE,
            ),
        };
        Self::begin_writing(path, kept, settings)
    }

    /// Opens the journal in this place: see [`Self::open`] for a file.
    ///
    /// In a database, calls get their end here whose host has been away for the grace of
    /// [`Database`](crate::Database), and then in whatever process has it open. Blocks for some
    /// seconds where the server does not answer.
    pub fn open_in(place: &Place) -> Result<Self, JournalError> {
        match place {
            Place::File(path) => Self::open(path),
            #[cfg(feature = "postgres")]
            Place::Database(database) => {
                let kept = Kept {
                    backup: None,
                    store: Box::new(crate::postgres::Postgres::open(database)?),
                    source: Box::new(crate::postgres::Readers::new(database.clone())),
                    leasing: (
                        Arc::new(crate::postgres::Leases::of(database.clone())),
                        holder(Some(&database.replica)),
                        database.grace,
                    ),
                };
                Self::begin_writing(database.name(), kept, &Settings::default())
            }
            #[cfg(not(feature = "postgres"))]
            Place::Database(database) => Err(JournalError::no_database(database)),
        }
    }

    fn begin_writing(path: &Path, kept: Kept, settings: &Settings) -> Result<Self, JournalError> {
        let Kept {
            backup,
            store,
            source,
            leasing,
        } = kept;
        let meter = Arc::new(Meter::new(settings.queue_limit));
        let queue = Arc::<Queue>::default();
        let (closed, was_closed) = watch::channel(None);
        let writer = Writer {
            store,
            meter: Arc::clone(&meter),
            closed,
        };
        let commands = Arc::clone(&queue);
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&commands))
            .map_err(|error| JournalError::io(path, &error))?;
        let shared = Shared {
            path: path.to_path_buf(),
            backup,
            source,
            leasing,
            meter,
            queue,
            closed: was_closed,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The file, or the address of the database without its password.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Where the file as it was is kept, when it had an older format and opening has brought it up.
    pub fn backup(&self) -> Option<&Path> {
        self.shared.backup.as_deref()
    }

    /// How many transactions this handle and its clones have written: fewer than durable events
    /// when those came together.
    pub fn commits(&self) -> u64 {
        self.shared.meter.commits()
    }

    /// Bytes that wait for the disk.
    pub fn queued(&self) -> u64 {
        self.shared.meter.queued()
    }

    /// Begins a run; `started` must be [`Event::RunStarted`]. Returns when that is on disk.
    pub async fn begin(&self, started: Event, options: RunOptions) -> Result<Run, JournalError> {
        Run::begin(Arc::clone(&self.shared), started, options).await
    }

    /// The latest runs, newest first.
    pub async fn runs(&self, limit: u32) -> Result<Vec<RunSummary>, JournalError> {
        self.shared.read(move |reader| reader.runs(limit)).await
    }

    /// One run by its name, an unambiguous beginning of it, or its last part alone; `None` when
    /// there is none, [`JournalError::Ambiguous`] when there are several.
    pub async fn find(&self, name: &str) -> Result<Option<RunSummary>, JournalError> {
        let name = name.trim().to_ascii_lowercase();
        self.shared.read(move |reader| reader.find(&name)).await
    }

    /// All events of a run, in order.
    pub async fn events(&self, run: &RunId) -> Result<Vec<Recorded>, JournalError> {
        let keep = |events: &mut Vec<_>, event| {
            events.push(event);
            true
        };
        self.fold_events(run, Vec::new(), keep).await
    }

    /// Gives the events of a run to `take`, in order, until it says false, and gives `state` back:
    /// for runs of any length. Away from the runtime.
    pub async fn fold_events<T: Send + 'static>(
        &self,
        run: &RunId,
        mut state: T,
        mut take: impl FnMut(&mut T, Recorded) -> bool + Send + 'static,
    ) -> Result<T, JournalError> {
        let run = run.clone();
        let read = move |records: &dyn Records| {
            records.events(&run, &mut |event| take(&mut state, event))?;
            Ok(state)
        };
        self.shared.read(read).await
    }

    /// The ledger lines of a run, in order.
    pub async fn calls(&self, run: &RunId) -> Result<Vec<CallLine>, JournalError> {
        let run = run.clone();
        self.shared.read(move |reader| reader.calls(&run)).await
    }

    /// The calls of all runs whose outcome is unknown and that nobody has settled, the oldest first.
    /// Those of runs that go on are among them.
    pub async fn unknown(&self) -> Result<Vec<UnknownCall>, JournalError> {
        self.shared.read(|reader| reader.unknown()).await
    }

    /// Waits until everything recorded so far is on disk, then ends the writer. Idempotent.
    /// Reading stays possible.
    pub async fn close(&self) -> Result<(), JournalError> {
        self.shared.queue.close();
        let mut closed = self.shared.closed.clone();
        let result = closed
            .wait_for(Option::is_some)
            .await
            .map(|result| result.clone());
        result
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(self.shared.closed()))
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}

/// The writer ends with the last handle.
impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Shared {
    /// Queues a command; false once closed.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.queue.push(command)
    }

    /// Waits until everything queued so far is on disk.
    pub(crate) async fn flush(&self) -> Result<(), JournalError> {
        let (answer, answered) = oneshot::channel();
        if !self.send(Command::Flush(answer)) {
            return Err(self.closed());
        }
        answered.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Reads on a connection of its own, away from the runtime.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        reading: impl FnOnce(&dyn Records) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let shared = Arc::clone(self);
        let read = move || reading(&*shared.source.open()?);
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| {
            Err(JournalError::Unusable {
                path: self.path.clone(),
                reason: error.to_string(),
            })
        })
    }

    /// Changes the index of artifacts, and returns when that is on disk.
    pub(crate) async fn index(&self, work: IndexWork) -> Result<IndexDone, JournalError> {
        let (answer, answered) = oneshot::channel();
        if !self.send(Command::Index(work, answer)) {
            return Err(self.closed());
        }
        answered.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// The same beside the writer, for contents that are far away.
    pub(crate) async fn index_beside(
        self: &Arc<Self>,
        work: IndexWork,
    ) -> Result<IndexDone, JournalError> {
        if !self.is_open() {
            return Err(self.closed());
        }
        let shared = Arc::clone(self);
        let index = move || match shared.source.index(&work) {
            Some(done) => done,
            None => Err(JournalError::Unusable {
                path: shared.path.clone(),
                reason: "artifacts in a bucket need a journal in a database".to_owned(),
            }),
        };
        let done = tokio::task::spawn_blocking(index).await;
        done.unwrap_or_else(|_| Err(self.closed()))
    }

    fn is_open(&self) -> bool {
        self.queue.is_open()
    }

    /// Changes what waits for a person, and returns when that is on disk, or was found not to be so
    /// any more.
    pub(crate) async fn approval(&self, work: ApprovalWork) -> Result<bool, JournalError> {
        let (answer, answered) = oneshot::channel();
        if !self.send(Command::Approval(work, answer)) {
            return Err(self.closed());
        }
        answered.await.unwrap_or_else(|_| Err(self.closed()))
    }

    pub(crate) fn closed(&self) -> JournalError {
        JournalError::Closed {
            path: self.path.clone(),
        }
    }

    pub(crate) fn refused(&self, reason: Misplaced) -> JournalError {
        JournalError::Refused {
            path: self.path.clone(),
            reason,
        }
    }
}

/// How others know this process.
fn holder(replica: Option<&str>) -> Arc<str> {
    let process = format!("process {}", std::process::id());
    let replica = replica.map(|replica| format!("replica {replica}, "));
    (replica.unwrap_or_default() + &process).into()
}

/// Opens a file for writing; with it, where it was copied to when it had to be brought up.
fn open_file(path: &Path, settings: &Settings) -> Result<(Sqlite, Option<PathBuf>), JournalError> {
    if let Some(folder) = path.parent() {
        make_folder(folder).map_err(|error| JournalError::io(path, &error))?;
    }
    let hosts = Hosts::of(path);
    let opening = hosts.opening(settings.patience)?;
    let Opened {
        mut connection,
        backup,
    } = schema::open_writer(path, settings.patience, || hosts.any_alive())?;
    let host = hosts.register()?;
    recover(&mut connection, path, &hosts)?;
    hosts.sweep();
    drop(opening);
    if let Some(pages) = settings.max_pages {
        connection
            .pragma_update(None, "max_page_count", pages)
            .map_err(|error| JournalError::sqlite(path, &error))?;
    }
    let path = path.to_path_buf();
    let store = Sqlite {
        path,
        connection,
        host,
        syncs: true,
        behind: false,
    };
    Ok((store, backup))
}

#[cfg(test)]
mod tests;

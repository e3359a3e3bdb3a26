//! The journal in one SQLite file.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::approvals;
use crate::artifacts::index;
use crate::chain::Chain;
use crate::host::Host;
use crate::leases;
use crate::ledger::{self, Begun, Change, Entry, LedgerError, NewRun};
use crate::store::{Done, Failure, Pending, Store};
use crate::writer::{Begin, Line};
use crate::{JournalError, Misplaced};

/// The one connection of this process that writes.
pub(crate) struct Sqlite {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) host: Host,
    /// What a transaction ends with, as it is set: an fsync, or none.
    pub(crate) syncs: bool,
    /// Something may not have reached the disk.
    pub(crate) behind: bool,
}

impl Store for Sqlite {
    fn write(&mut self, batch: &[Pending], durable: bool) -> Result<Vec<Done>, Failure> {
        let Self {
            path,
            connection,
            host,
            syncs,
            behind,
        } = self;
        let failed = |error: LedgerError| Failure::Store(error.of_store(path));
        let failed_plainly = |error: rusqlite::Error| failed(error.into());
        if *syncs != durable {
            // A log without an fsync outlives the process, and one fsync later does for all of it.
            let how = if durable { "FULL" } else { "NORMAL" };
            let set = connection.pragma_update(None, "synchronous", how);
            set.map_err(failed_plainly)?;
            *syncs = durable;
        }
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed_plainly)?;
        let mut chain = Chain::load(&transaction).map_err(failed)?;
        let mut all = Vec::with_capacity(batch.len());
        let mut lines = Begun::default();
        let told = |at, error| match refusal(path, error) {
            Ok(refused) => Failure::Entry(at, refused),
            Err(error) => failed(error),
        };
        for (at, entry) in batch.iter().enumerate() {
            if needs_lines(entry) {
                lines
                    .write(&transaction)
                    .map_err(|(at, error)| told(at, error))?;
            }
            let done = match entry {
                Pending::Begin(begin) => {
                    begin_run(&transaction, &mut chain, host, begin).map(Done::Begun)
                }
                Pending::Line(line) => {
                    append_line(&transaction, &mut chain, (line, at), &mut lines)
                }
                Pending::Index(work, _) => index::work(&transaction, work).map(Done::Indexed),
                Pending::Approval(work, _) => {
                    approvals::work(&transaction, work).map(Done::Approval)
                }
            };
            all.push(done.map_err(|error| told(at, error))?);
        }
        lines
            .write(&transaction)
            .map_err(|(at, error)| told(at, error))?;
        chain.store(&transaction).map_err(failed)?;
        transaction.commit().map_err(failed_plainly)?;
        *behind = !durable;
        Ok(all)
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        if !self.behind {
            return Ok(());
        }
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        // Whatever is not in the log any more was synced when it was taken out of it.
        let synced = match File::open(&log) {
            Ok(log) => log.sync_data(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        synced.map_err(|error| JournalError::io(Path::new(&log), &error))?;
        self.behind = false;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        let Self {
            path,
            connection,
            host,
            ..
        } = *self;
        let shut = connection
            .close()
            .map_err(|(_, error)| JournalError::sqlite(&path, &error));
        // Only now: until here this process was writing.
        drop(host);
        shut
    }
}

/// It looks at the lines of calls, which may have begun in the same transaction.
fn needs_lines(entry: &Pending) -> bool {
    match entry {
        Pending::Begin(_) => false,
        Pending::Line(line) => line.change.needs_a_line(),
        Pending::Index(..) | Pending::Approval(..) => true,
    }
}

fn begin_run(
    connection: &Connection,
    chain: &mut Chain,
    host: &Host,
    begin: &Begin,
) -> Result<Option<i64>, LedgerError> {
    let Begin {
        name,
        at,
        start,
        body,
        answer: _,
    } = begin;
    let run = NewRun {
        name,
        host: host.name(),
        at: *at,
        start,
        body,
    };
    ledger::begin(connection, chain, &run)
}

fn append_line<'a>(
    connection: &Connection,
    chain: &mut Chain,
    (line, of): (&'a Line, usize),
    begun: &mut Begun<'a>,
) -> Result<Done, LedgerError> {
    let Line {
        recording,
        seq,
        at,
        body,
        change,
        fenced,
        ..
    } = line;
    let refused = match fenced {
        Some(fenced) if !leases::stands(connection, &fenced.fence)? => Some(fenced),
        _ => None,
    };
    let (body, change) = match refused {
        Some(fenced) => (&fenced.instead, &Change::Nothing),
        None => (body, change),
    };
    let entry = Entry {
        run: recording.key,
        name: &recording.name,
        seq: *seq,
        at: *at,
        body,
        change,
    };
    ledger::append(connection, chain, (&entry, of), begun)?;
    Ok(match refused {
        Some(_) => Done::Fenced,
        None => Done::Added,
    })
}

/// How an entry was refused for what it is; else the error of the store.
fn refusal(path: &Path, error: LedgerError) -> Result<JournalError, LedgerError> {
    let path = path.to_path_buf();
    let reason = match error {
        LedgerError::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => error.to_string(),
            _ => return Err(error.into()),
        },
        LedgerError::File(error) => {
            let reason = error.to_string();
            return Ok(JournalError::Files { path, reason });
        }
        LedgerError::BrokenChain { .. } => return Err(error),
        LedgerError::NoLine { .. } | LedgerError::NoOpenRun => error.to_string(),
    };
    let reason = Misplaced::Elsewhere { reason };
    Ok(JournalError::Refused { path, reason })
}

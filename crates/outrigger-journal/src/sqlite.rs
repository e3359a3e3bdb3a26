//! The journal in one SQLite file.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::approvals;
use crate::artifacts::index;
use crate::chain::Chain;
use crate::host::Host;
use crate::leases;
use crate::ledger::{self, Change, Entry, LedgerError, NewRun};
use crate::store::{Done, Failure, Pending, Store};
use crate::writer::{Begin, Line};
use crate::{JournalError, Misplaced};

/// The one connection of this process that writes.
pub(crate) struct Sqlite {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) host: Host,
}

impl Store for Sqlite {
    fn write(&mut self, batch: &[Pending]) -> Result<Vec<Done>, Failure> {
        let Self {
            path,
            connection,
            host,
        } = self;
        let failed = |error: LedgerError| Failure::Store(error.of_store(path));
        let failed_plainly = |error: rusqlite::Error| failed(error.into());
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed_plainly)?;
        let mut chain = Chain::load(&transaction).map_err(failed)?;
        let mut all = Vec::with_capacity(batch.len());
        for (at, entry) in batch.iter().enumerate() {
            let done = match entry {
                Pending::Begin(begin) => {
                    begin_run(&transaction, &mut chain, host, begin).map(Done::Begun)
                }
                Pending::Line(line) => append_line(&transaction, &mut chain, line),
                Pending::Index(work, _) => index::work(&transaction, work).map(Done::Indexed),
                Pending::Approval(work, _) => {
                    approvals::work(&transaction, work).map(Done::Approval)
                }
            };
            all.push(done.map_err(|error| match refusal(path, error) {
                Ok(refused) => Failure::Entry(at, refused),
                Err(error) => failed(error),
            })?);
        }
        chain.store(&transaction).map_err(failed)?;
        transaction.commit().map_err(failed_plainly)?;
        Ok(all)
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        let Self {
            path,
            connection,
            host,
        } = *self;
        let shut = connection
            .close()
            .map_err(|(_, error)| JournalError::sqlite(&path, &error));
        // Only now: until here this process was writing.
        drop(host);
        shut
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

fn append_line(
    connection: &Connection,
    chain: &mut Chain,
    line: &Line,
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
    ledger::append(connection, chain, &entry)?;
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

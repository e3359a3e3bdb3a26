//! Opening the SQLite file: its modes, what marks it as a journal, its versions.
//!
//! `application_id` says that it is a journal, `user_version` which schema it has. A new schema is
//! one more entry in [`MIGRATIONS`]; all missing ones are applied in one transaction, after the file
//! as it is was copied aside.

mod backup;

use std::fs::{DirBuilder, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::JournalError;
use crate::chain;
use crate::ledger::LedgerError;

/// "Outr", in the header of the file.
const APPLICATION: i64 = 0x4F75_7472;

/// From one version to the next.
struct Migration {
    sql: &'static str,
    /// What SQL alone cannot do.
    then: fn(&Connection) -> Result<(), LedgerError>,
}

impl Migration {
    const fn of(sql: &'static str) -> Self {
        Self {
            sql,
            then: |_| Ok(()),
        }
    }
}

/// Each leads from the version before it; the first makes version 1 of nothing.
const MIGRATIONS: &[Migration] = &[
    Migration::of(include_str!("schema/v1.sql")),
    Migration {
        sql: include_str!("schema/v2.sql"),
        then: chain::fill,
    },
    Migration::of(include_str!("schema/v3.sql")),
    Migration::of(include_str!("schema/v4.sql")),
    Migration::of(include_str!("schema/v5.sql")),
    Migration::of(include_str!("schema/v6.sql")),
];

/// How long to wait for other processes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that may write.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// The file as it was, when it had to be brought up.
    pub(crate) backup: Option<PathBuf>,
}

/// Opens a file that is made or brought up where needed; the latter only while nobody else uses it,
/// which is asked of `in_use`.
pub(crate) fn open_writer(
    path: &Path,
    patience: Duration,
    in_use: impl FnOnce() -> bool,
) -> Result<Opened, JournalError> {
    make_file(path)?;
    let mut connection = connect(path, patience)?;
    // Before anything is changed in a file that may be somebody else's.
    let found = version(&connection, path, MIGRATIONS.len())?;
    let older = found > 0 && found < MIGRATIONS.len();
    if older && in_use() {
        return Err(JournalError::OlderInUse {
            path: path.to_path_buf(),
            found: u32::try_from(found).unwrap_or(u32::MAX),
        });
    }
    let backup = older
        .then(|| backup::back_up(&connection, path, found))
        .transpose()?;
    set_modes(&connection, path)?;
    migrate(&mut connection, path, MIGRATIONS)?;
    if let Some(backup) = &backup {
        tracing::info!(backup = %backup.display(), "the journal was brought up");
    }
    Ok(Opened { connection, backup })
}

/// Write-ahead log, and on disk when a transaction ends.
fn set_modes(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let failed = |error: &rusqlite::Error| JournalError::sqlite(path, error);
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(|error| failed(&error))?;
    if mode != "wal" {
        let reason =
            format!("its file system does not support write-ahead logs (SQLite answered `{mode}`)");
        return Err(JournalError::Unusable {
            path: path.to_path_buf(),
            reason,
        });
    }
    for (pragma, value) in [
        ("synchronous", "FULL"),
        ("foreign_keys", "ON"),
        ("journal_size_limit", "67108864"),
        // Pages that many transactions change are copied into the file once.
        ("wal_autocheckpoint", "4000"),
    ] {
        connection
            .pragma_update(None, pragma, value)
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// A connection that only reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, JournalError> {
    let connection = connect(path, PATIENCE)?;
    connection
        .pragma_update(None, "query_only", "ON")
        .map_err(|error| JournalError::sqlite(path, &error))?;
    Ok(connection)
}

/// A connection for leases, to a file that this process has opened.
pub(crate) fn open_leases(path: &Path) -> Result<Connection, JournalError> {
    connect(path, PATIENCE)
}

/// A connection that only reads, to a file that nobody has opened before; it is not brought up.
pub(crate) fn open_as_it_is(path: &Path) -> Result<Connection, JournalError> {
    let connection = open_reader(path)?;
    let found = version(&connection, path, MIGRATIONS.len())?;
    if found == MIGRATIONS.len() {
        return Ok(connection);
    }
    let reason = if found == 0 {
        "it is empty".to_owned()
    } else {
        format!("it has format {found}, which the next run brings up")
    };
    Err(JournalError::Unusable {
        path: path.to_path_buf(),
        reason,
    })
}

fn connect(path: &Path, patience: Duration) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|error| JournalError::sqlite(path, &error))?;
    connection
        .busy_timeout(patience)
        .map_err(|error| JournalError::sqlite(path, &error))?;
    Ok(connection)
}

/// Makes a folder for this user alone; one that exists stays as it is.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// For this user alone; SQLite gives the files beside it the same mode.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn make_file(path: &Path) -> Result<(), JournalError> {
    let failed = |error: std::io::Error| JournalError::io(path, &error);
    let file = private().open(path).map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let found = file.metadata().map_err(failed)?.permissions();
        if found.mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))
                .map_err(failed)?;
        }
    }
    #[cfg(not(unix))]
    drop(file);
    Ok(())
}

/// Which of so many versions the file has, 0 while it is empty; refuses files that are not journals,
/// or too new.
fn version(connection: &Connection, path: &Path, known: usize) -> Result<usize, JournalError> {
    let read = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let read = |sql| read(sql).map_err(|error| JournalError::sqlite(path, &error));
    let application = read("PRAGMA application_id")?;
    let version = read("PRAGMA user_version")?;
    if application != APPLICATION {
        if application == 0 && version == 0 && read("SELECT count(*) FROM sqlite_schema")? == 0 {
            return Ok(0);
        }
        let reason = "it is an SQLite file of another program".to_owned();
        return Err(JournalError::Corrupt {
            path: path.to_path_buf(),
            reason,
        });
    }
    match usize::try_from(version) {
        Ok(version) if (1..=known).contains(&version) => Ok(version),
        Ok(found) if found > known => Err(JournalError::TooNew {
            path: path.to_path_buf(),
            found: u32::try_from(found).unwrap_or(u32::MAX),
            known: u32::try_from(known).unwrap_or(u32::MAX),
        }),
        _ => Err(JournalError::Corrupt {
            path: path.to_path_buf(),
            reason: format!("its format {version} never existed"),
        }),
    }
}

fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<(), JournalError> {
    if version(connection, path, migrations.len())? == migrations.len() {
        return Ok(());
    }
    let failed = |error: rusqlite::Error| JournalError::sqlite(path, &error);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    // Asked again: another process may have been first.
    let version = version(&transaction, path, migrations.len())?;
    for migration in migrations.iter().skip(version) {
        transaction.execute_batch(migration.sql).map_err(failed)?;
        (migration.then)(&transaction).map_err(|error| error.of_store(path))?;
    }
    transaction
        .pragma_update(None, "application_id", APPLICATION)
        .map_err(failed)?;
    let reached = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    transaction
        .pragma_update(None, "user_version", reached)
        .map_err(failed)?;
    transaction.commit().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{OutcomeKind, RunStatus};

    const KNOWN: usize = MIGRATIONS.len();

    fn open(path: &Path) -> Connection {
        open_writer(path, PATIENCE, || false).unwrap().connection
    }

    /// The known ones, and one more.
    fn and(sql: &'static str) -> Vec<Migration> {
        let known = MIGRATIONS.iter().map(|known| Migration {
            sql: known.sql,
            then: known.then,
        });
        known.chain([Migration::of(sql)]).collect()
    }

    #[test]
    fn an_older_file_is_brought_up_and_then_too_new_for_the_older_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let mut connection = open(&path);
        assert_eq!(version(&connection, &path, KNOWN).unwrap(), KNOWN);
        let next = and("ALTER TABLE events ADD COLUMN more BLOB");
        migrate(&mut connection, &path, &next).unwrap();
        assert_eq!(version(&connection, &path, KNOWN + 1).unwrap(), KNOWN + 1);
        connection
            .query_row("SELECT count(more) FROM events", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap();
        let error = version(&connection, &path, KNOWN).unwrap_err();
        assert!(matches!(error, JournalError::TooNew { .. }), "{error}");
    }

    #[test]
    fn a_failed_migration_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let mut connection = open(&path);
        let broken = and("ALTER TABLE events ADD COLUMN more BLOB; ALTER TABLE nowhere ADD x");
        migrate(&mut connection, &path, &broken).unwrap_err();
        assert_eq!(version(&connection, &path, KNOWN).unwrap(), KNOWN);
        connection
            .query_row("SELECT count(more) FROM events", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap_err();
    }

    /// A word that the program can write and the file refuses would lose the end of a call.
    #[test]
    fn every_word_of_an_end_fits_the_constraints() {
        let words = |all: Vec<&str>| {
            let quoted: Vec<_> = all.iter().map(|word| format!("'{word}'")).collect();
            format!("IN ({})", quoted.join(", "))
        };
        let statuses = words(RunStatus::ALL.iter().map(|word| word.as_str()).collect());
        let outcomes = words(OutcomeKind::ALL.iter().map(|word| word.as_str()).collect());
        for constraint in [statuses, outcomes] {
            assert!(MIGRATIONS[0].sql.contains(&constraint), "{constraint}");
        }
    }

    #[test]
    fn it_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open(&folder.path().join("journal.db"));
        let read = |sql| {
            connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(read("PRAGMA synchronous"), 2, "FULL");
    }
}

//! Why something could not be done in the database, and how that becomes an error of the journal.

use std::path::Path;

use sqlx::error::DatabaseError;

use crate::{JournalError, Misplaced};

/// Why something could not be done in the database.
#[derive(Debug, thiserror::Error)]
pub(super) enum PgError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(
        "another program has removed or added lines at its end: the chain ends at line {line}, the table at line {last}, and `outrigger audit verify` says more"
    )]
    BrokenChain { line: i64, last: i64 },
    #[error("call {call} has no line")]
    NoLine { call: u32 },
    #[error("the run has no line, or has ended")]
    NoOpenRun,
    #[error("what stands in it cannot be read: {0}")]
    Unreadable(String),
    #[error("it did not answer within {0} seconds")]
    Silent(u64),
    #[error("it has format {found}; this version reads up to {known}")]
    TooNew { found: u32, known: u32 },
    #[error("it has no journal yet; the first run makes one")]
    Empty,
    #[error("it has format {found}, which the next run brings up")]
    Older { found: u32 },
    #[error("{0}")]
    Settings(String),
}

impl PgError {
    /// As an error of the whole database.
    pub(super) fn of_store(self, name: &Path) -> JournalError {
        let path = name.to_path_buf();
        let reason = match &self {
            Self::Sql(sqlx::Error::Database(error)) => error.message().to_owned(),
            other => other.to_string(),
        };
        match self {
            Self::Sql(sqlx::Error::Database(error)) => of_code(&*error, name, reason),
            Self::Sql(sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_))
            | Self::BrokenChain { .. }
            | Self::NoLine { .. }
            | Self::NoOpenRun
            | Self::Unreadable(_) => JournalError::Corrupt { path, reason },
            Self::TooNew { found, known } => JournalError::TooNew { path, found, known },
            Self::Sql(_)
            | Self::Silent(_)
            | Self::Empty
            | Self::Older { .. }
            | Self::Settings(_) => JournalError::Unusable { path, reason },
        }
    }

    /// How an entry was refused for what it is; else the error again.
    pub(super) fn refusal(self, name: &Path) -> Result<JournalError, Self> {
        let path = name.to_path_buf();
        let reason = match &self {
            Self::Sql(sqlx::Error::Database(error)) if is_refusal(&**error) => {
                error.message().to_owned()
            }
            Self::Sql(sqlx::Error::Encode(error)) => error.to_string(),
            Self::NoLine { .. } | Self::NoOpenRun => self.to_string(),
            _ => return Err(self),
        };
        let reason = Misplaced::Elsewhere { reason };
        Ok(JournalError::Refused { path, reason })
    }

    /// Whether the database refused what an entry is.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Sql(sqlx::Error::Database(error)) if is_refusal(&**error))
    }

    /// Whether the connection was lost, other than by waiting for too long.
    pub(super) fn is_lost_connection(&self) -> bool {
        !self.leaves_connection() && !matches!(self, Self::Silent(_))
    }

    /// Whether the connection may still be used: the server has answered, and did not hang up.
    pub(super) fn leaves_connection(&self) -> bool {
        match self {
            Self::Sql(sqlx::Error::Database(error)) => {
                error.code().is_none_or(|code| !code.starts_with("57P"))
            }
            Self::Sql(error) => matches!(
                error,
                sqlx::Error::RowNotFound
                    | sqlx::Error::ColumnDecode { .. }
                    | sqlx::Error::Decode(_)
                    | sqlx::Error::Encode(_)
            ),
            Self::Silent(_) => false,
            _ => true,
        }
    }
}

/// Classes of SQLSTATE that are about values: data exception, integrity constraint, limits of the
/// program.
fn is_refusal(error: &dyn DatabaseError) -> bool {
    error.code().is_some_and(|code| {
        ["22", "23", "54"]
            .iter()
            .any(|class| code.starts_with(class))
    })
}

fn of_code(error: &dyn DatabaseError, name: &Path, reason: String) -> JournalError {
    let path = name.to_path_buf();
    match error.code().as_deref() {
        // disk_full
        Some("53100") => JournalError::DiskFull { path },
        // insufficient_privilege, read_only_sql_transaction
        Some("42501" | "25006") => JournalError::ReadOnly { path, reason },
        // lock_not_available, query_canceled, idle_in_transaction_session_timeout
        Some("55P03" | "57014" | "25P03") => JournalError::Locked { path },
        // undefined_table, undefined_column, data_corrupted
        Some("42P01" | "42703" | "XX001") => JournalError::Corrupt { path, reason },
        _ => JournalError::Unusable { path, reason },
    }
}

/// What a text may not hold in PostgreSQL is replaced: only the columns that are for looking at have
/// it, events are JSON and escape it.
pub(super) fn text(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{FFFD}").into()
    } else {
        text.into()
    }
}

//! The tables, and their versions. A new version is one more entry in [`MIGRATIONS`]; all missing ones
//! are applied in one transaction. One host at a time brings them up. Programs of the version before that are
//! using the database meanwhile go on, so what a version adds is optional for who does not know it.

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use super::connect::SCHEMA;
use super::error::PgError;

/// Each leads from the version before it; the first makes version 1 of nothing.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/p1.sql"),
    include_str!("schema/p2.sql"),
    include_str!("schema/p3.sql"),
    include_str!("schema/p4.sql"),
];

/// Held while somebody opens; "Outr" in the first half of the number.
const OPENING: i64 = 0x4F75_7472_0000_0001;

/// Makes the tables or brings them up.
pub(super) async fn migrate(connection: &mut PgConnection) -> Result<(), PgError> {
    let known = MIGRATIONS.len();
    if version(connection).await? == Some(known) {
        return Ok(());
    }
    let mut transaction = connection.begin().await?;
    // Bringing up takes its time.
    transaction
        .execute(sqlx::raw_sql(
            "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0",
        ))
        .await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(OPENING)
        .execute(&mut *transaction)
        .await?;
    // Asked again: another host may have been first.
    let found = version(&mut transaction).await?.unwrap_or(0);
    if found == known {
        return Ok(transaction.rollback().await?);
    }
    if found == 0 {
        let make = format!(
            "CREATE SCHEMA IF NOT EXISTS {SCHEMA};
             CREATE TABLE {SCHEMA}.format (version INTEGER NOT NULL);
             INSERT INTO {SCHEMA}.format VALUES (0)"
        );
        transaction
            .execute(sqlx::raw_sql(AssertSqlSafe(make)))
            .await?;
    }
    for sql in MIGRATIONS.iter().skip(found) {
        transaction.execute(sqlx::raw_sql(*sql)).await?;
    }
    sqlx::query("UPDATE format SET version = $1")
        .bind(i32::try_from(known).unwrap_or(i32::MAX))
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    if found > 0 {
        tracing::info!(from = found, to = known, "the journal was brought up");
    }
    Ok(())
}

/// That this version of the program reads it as it is.
pub(super) async fn check(connection: &mut PgConnection) -> Result<(), PgError> {
    let narrow = |version: usize| u32::try_from(version).unwrap_or(u32::MAX);
    match version(connection).await? {
        Some(version) if version == MIGRATIONS.len() => Ok(()),
        Some(version) => Err(PgError::Older {
            found: narrow(version),
        }),
        None => Err(PgError::Empty),
    }
}

/// The version that is there; refuses those that are too new.
async fn version(connection: &mut PgConnection) -> Result<Option<usize>, PgError> {
    // Not by name: names that were once not found are remembered until the next transaction.
    let there: bool = connection
        .fetch_one(
            "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_tables
                 WHERE schemaname = 'outrigger' AND tablename = 'format')",
        )
        .await?
        .try_get(0)?;
    if !there {
        return Ok(None);
    }
    let version: i32 = connection
        .fetch_one("SELECT version FROM outrigger.format")
        .await?
        .try_get(0)?;
    let known = MIGRATIONS.len();
    match usize::try_from(version) {
        Ok(found) if found <= known => Ok(Some(found)),
        _ => Err(PgError::TooNew {
            found: version.unsigned_abs(),
            known: u32::try_from(known).unwrap_or(u32::MAX),
        }),
    }
}

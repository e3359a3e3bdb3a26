//! The index of artifacts in PostgreSQL: the twin of `artifacts/index.rs`. Looking at a content and
//! noting it, and removing one, exclude each other by a lock on its digest until the transaction ends,
//! so that nothing is indexed that is being removed; other writers do not wait for that.

use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::error::{PgError, text};
use super::read::{count, narrow, time};
use crate::artifacts::index::{
    ArtifactLine, Chosen, DIGITS, IndexDone, IndexWork, Keep, KnownOrigin, after,
};
use crate::ledger::int;
use crate::{ArtifactOrigin, Digest, SCHEME};

/// A run that goes on was given it.
const IN_USE: &str =
    "EXISTS (SELECT 1 FROM artifact_origins AS given JOIN runs ON runs.key = given.run
    WHERE given.artifact = artifacts.key AND ended_at IS NULL AND stopped_at IS NULL)";

const COLUMNS: &str =
    "SELECT digest, handle, bytes, artifacts.media_type, created_at, used_at, collected_at,
    (SELECT count(*) FROM artifact_origins WHERE artifact = artifacts.key),
    runs.name, call, server, raw_tool, block, latest.name, latest.media_type, at";

const TABLES: &str = "FROM artifacts
    LEFT JOIN artifact_origins AS latest ON latest.key =
        (SELECT max(key) FROM artifact_origins WHERE artifact = artifacts.key)
    LEFT JOIN runs ON runs.key = latest.run";

pub(super) async fn work(
    connection: &mut PgConnection,
    work: &IndexWork,
) -> Result<IndexDone, PgError> {
    match work {
        IndexWork::Keep(keep) => note(connection, keep).await,
        IndexWork::Use { digest, at } => {
            sqlx::query("UPDATE artifacts SET used_at = greatest(used_at, $2) WHERE digest = $1")
                .bind(digest.to_string())
                .bind(at.as_microsecond())
                .execute(connection)
                .await?;
            Ok(IndexDone::Digests(vec![*digest]))
        }
        IndexWork::Collect { chosen, at } => collect(connection, chosen, *at).await,
        IndexWork::Remove { contents, digests } => {
            let mut removed = Vec::new();
            for digest in digests {
                lock(connection, digest).await?;
                if is_here(connection, digest).await? {
                    continue;
                }
                if let Err(error) = contents.remove(digest).await {
                    return Ok(IndexDone::Failed(error));
                }
                removed.push(*digest);
            }
            Ok(IndexDone::Digests(removed))
        }
    }
}

/// Until the transaction ends. Two digests that share the number wait for each other, no more.
async fn lock(connection: &mut PgConnection, digest: &Digest) -> Result<(), PgError> {
    let number = digest.as_bytes().first_chunk().copied().unwrap_or_default();
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(i64::from_be_bytes(number))
        .execute(connection)
        .await?;
    Ok(())
}

async fn is_here(connection: &mut PgConnection, digest: &Digest) -> Result<bool, PgError> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM artifacts WHERE digest = $1 AND collected_at IS NULL)",
    )
    .bind(digest.to_string())
    .fetch_one(connection)
    .await?)
}

async fn note(connection: &mut PgConnection, keep: &Keep) -> Result<IndexDone, PgError> {
    lock(connection, &keep.digest).await?;
    let digest = keep.digest.to_string();
    let known: Option<(i64, String, bool)> =
        sqlx::query_as("SELECT key, handle, collected_at IS NULL FROM artifacts WHERE digest = $1")
            .bind(&digest)
            .fetch_optional(&mut *connection)
            .await?;
    let settled = keep.written || known.as_ref().is_some_and(|(.., here)| *here);
    if !settled {
        return Ok(IndexDone::NotThere);
    }
    match keep.contents.size(&keep.digest).await {
        Ok(there) if there == Some(keep.bytes) => {}
        Ok(_) => return Ok(IndexDone::NotThere),
        Err(error) => return Ok(IndexDone::Failed(error)),
    }
    let at = keep.at.as_microsecond();
    let (key, handle) = if let Some((key, handle, _)) = known {
        sqlx::query(
            "UPDATE artifacts SET used_at = greatest(used_at, $2), collected_at = NULL WHERE key = $1",
        )
        .bind(key)
        .bind(at)
        .execute(&mut *connection)
        .await?;
        (key, handle)
    } else {
        let handle = free_handle(connection, &digest).await?;
        let key: i64 = sqlx::query_scalar(
            "INSERT INTO artifacts (digest, handle, bytes, media_type, created_at, used_at)
             VALUES ($1, $2, $3, $4, $5, $5) RETURNING key",
        )
        .bind(&digest)
        .bind(&handle)
        .bind(int(keep.bytes))
        .bind(text(&keep.media_type))
        .bind(at)
        .fetch_one(&mut *connection)
        .await?;
        (key, handle)
    };
    note_origin(connection, key, keep).await?;
    Ok(IndexDone::Kept(handle))
}

async fn note_origin(
    connection: &mut PgConnection,
    artifact: i64,
    keep: &Keep,
) -> Result<(), PgError> {
    let ArtifactOrigin {
        run,
        call,
        server,
        tool,
        block,
    } = &keep.origin;
    let run: i64 = sqlx::query_scalar("SELECT key FROM runs WHERE name = $1")
        .bind(run.as_str())
        .fetch_optional(&mut *connection)
        .await?
        .ok_or(PgError::NoOpenRun)?;
    sqlx::query(
        "INSERT INTO artifact_origins (artifact, run, call, server, raw_tool, block, name, media_type, at)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE NOT EXISTS (
            SELECT 1 FROM artifact_origins WHERE artifact = $1 AND run = $2 AND call = $3
                AND server = $4 AND raw_tool = $5 AND block IS NOT DISTINCT FROM $6
                AND name IS NOT DISTINCT FROM $7 AND media_type = $8)",
    )
    .bind(artifact)
    .bind(run)
    .bind(i64::from(*call))
    .bind(text(server))
    .bind(text(tool))
    .bind(block.map(i64::from))
    .bind(keep.name.as_deref().map(text))
    .bind(text(&keep.media_type))
    .bind(keep.at.as_microsecond())
    .execute(connection)
    .await?;
    Ok(())
}

/// The shortest beginning of this digest, from 16 digits, that no other artifact begins with.
async fn free_handle(connection: &mut PgConnection, digest: &str) -> Result<String, PgError> {
    for digits in DIGITS..digest.len() {
        let Some(handle) = digest.get(..digits) else {
            break;
        };
        let taken: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM artifacts
                 WHERE digest COLLATE \"C\" >= $1 AND digest COLLATE \"C\" < $2)",
        )
        .bind(handle)
        .bind(after(handle))
        .fetch_one(&mut *connection)
        .await?;
        if !taken {
            return Ok(handle.to_owned());
        }
    }
    Ok(digest.to_owned())
}

/// Only what nobody has used since, and no run that goes on.
async fn collect(
    connection: &mut PgConnection,
    chosen: &[Chosen],
    at: Timestamp,
) -> Result<IndexDone, PgError> {
    let sql = format!(
        "UPDATE artifacts SET collected_at = $3
         WHERE digest = $1 AND used_at = $2 AND collected_at IS NULL AND NOT {IN_USE}"
    );
    let mut marked = Vec::new();
    for Chosen { digest, used } in chosen {
        lock(connection, digest).await?;
        let done = sqlx::query(AssertSqlSafe(sql.as_str()))
            .bind(digest.to_string())
            .bind(used.as_microsecond())
            .bind(at.as_microsecond())
            .execute(&mut *connection)
            .await?;
        if done.rows_affected() == 1 {
            marked.push(*digest);
        }
    }
    Ok(IndexDone::Digests(marked))
}

/// Those that were used last, first; those that were collected too.
pub(super) async fn list(
    connection: &mut PgConnection,
    limit: u32,
) -> Result<Vec<ArtifactLine>, PgError> {
    let sql = format!("{COLUMNS} {TABLES} ORDER BY used_at DESC, artifacts.key DESC LIMIT $1");
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?;
    rows.iter().map(line).collect()
}

/// The one with this very handle, or at most `limit` whose digest begins with these digits.
pub(super) async fn named(
    connection: &mut PgConnection,
    digits: &str,
    limit: u32,
) -> Result<Vec<ArtifactLine>, PgError> {
    let sql = format!("{COLUMNS} {TABLES} WHERE handle = $1");
    let found = sqlx::query(AssertSqlSafe(sql))
        .bind(digits)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(found) = found {
        return Ok(vec![line(&found)?]);
    }
    let sql = format!(
        "{COLUMNS} {TABLES} WHERE digest COLLATE \"C\" >= $1 AND digest COLLATE \"C\" < $2
         ORDER BY digest COLLATE \"C\" LIMIT $3"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(digits)
        .bind(after(digits))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?;
    rows.iter().map(line).collect()
}

/// All places that an artifact came from, the earliest first.
pub(super) async fn origins(
    connection: &mut PgConnection,
    digest: &Digest,
) -> Result<Vec<KnownOrigin>, PgError> {
    let rows = sqlx::query(
        "SELECT runs.name, call, server, raw_tool, block, origin.name, origin.media_type, at
         FROM artifact_origins AS origin JOIN runs ON runs.key = run
         WHERE artifact = (SELECT key FROM artifacts WHERE digest = $1) ORDER BY origin.key",
    )
    .bind(digest.to_string())
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| origin(row, 0)).collect()
}

/// What garbage collection has to know of each that is here, the longest unused first.
pub(super) async fn candidates(
    connection: &mut PgConnection,
) -> Result<Vec<(ArtifactLine, bool)>, PgError> {
    let sql = format!(
        "{COLUMNS}, {IN_USE} {TABLES} WHERE collected_at IS NULL ORDER BY used_at, artifacts.key"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| Ok((line(row)?, row.try_get(16)?)))
        .collect()
}

/// Of these, those that are not here, or were collected.
pub(super) async fn strangers(
    connection: &mut PgConnection,
    digests: &[Digest],
) -> Result<Vec<Digest>, PgError> {
    let mut strangers = Vec::new();
    for digest in digests {
        if !is_here(connection, digest).await? {
            strangers.push(*digest);
        }
    }
    Ok(strangers)
}

fn line(row: &PgRow) -> Result<ArtifactLine, PgError> {
    let digest: String = row.try_get(0)?;
    let handle: String = row.try_get(1)?;
    let collected: Option<i64> = row.try_get(6)?;
    let origins = count(row, 7)?;
    Ok(ArtifactLine {
        handle: format!("{SCHEME}{handle}"),
        digest: digest
            .parse()
            .map_err(|_| PgError::Unreadable(format!("the digest `{digest}`")))?,
        bytes: count(row, 2)?,
        media_type: row.try_get(3)?,
        created: time(row, 4)?,
        used: time(row, 5)?,
        collected: collected.map(|_| time(row, 6)).transpose()?,
        origins,
        origin: (origins > 0).then(|| origin(row, 8)).transpose()?,
    })
}

fn origin(row: &PgRow, from: usize) -> Result<KnownOrigin, PgError> {
    let run: String = row.try_get(from)?;
    let run = run
        .parse()
        .map_err(|_| PgError::Unreadable(format!("the run `{run}`")))?;
    Ok(KnownOrigin {
        origin: ArtifactOrigin {
            run,
            call: narrow(row.try_get(from + 1)?)?,
            server: row.try_get(from + 2)?,
            tool: row.try_get(from + 3)?,
            block: row
                .try_get::<Option<i64>, _>(from + 4)?
                .map(narrow)
                .transpose()?,
        },
        name: row.try_get(from + 5)?,
        media_type: row.try_get(from + 6)?,
        at: time(row, from + 7)?,
    })
}

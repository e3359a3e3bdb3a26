//! The index of artifacts in the journal's file: which there are, and where each came from. All
//! functions that write work inside a transaction of the caller, which alone may look at the files
//! and remove them: so nothing is indexed that is being removed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::folder;
use super::{ArtifactError, ArtifactOrigin, Contents, Digest, SCHEME};
use crate::RunId;
use crate::ledger::{LedgerError, int};
use crate::read::{count, time, unreadable};

/// Digits of a handle, unless another artifact has the same.
pub(crate) const DIGITS: usize = 16;

/// What the writer is asked to do with the index.
pub(crate) enum IndexWork {
    /// Note an artifact and where it came from.
    Keep(Box<Keep>),
    /// It was used.
    Use { digest: Digest, at: Timestamp },
    /// Say of these that their contents are gone, unless they have been used since.
    Collect { chosen: Vec<Chosen>, at: Timestamp },
    /// Remove the files of these, unless they are in use again.
    Remove {
        contents: Arc<Contents>,
        digests: Vec<Digest>,
    },
}

/// An artifact to note.
pub(crate) struct Keep {
    pub(crate) contents: Arc<Contents>,
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
    pub(crate) media_type: String,
    pub(crate) name: Option<String>,
    pub(crate) origin: ArtifactOrigin,
    pub(crate) at: Timestamp,
    /// Whoever asks has written the file; else it must have been here before.
    pub(crate) written: bool,
}

/// An artifact to be collected, as it was when that was decided.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) digest: Digest,
    pub(crate) used: Timestamp,
}

/// What became of that.
#[derive(Debug, Clone)]
pub(crate) enum IndexDone {
    /// It is noted under this handle.
    Kept(String),
    /// Its file has to be written first.
    NotThere,
    /// Done to these.
    Digests(Vec<Digest>),
    /// A content could not be looked at or removed; nothing is noted.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "a store in a file says so otherwise")
    )]
    Failed(ArtifactError),
}

/// One artifact, as `outrigger artifacts list` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct ArtifactLine {
    /// As it is written: `artifact://` and hex digits.
    pub handle: String,
    /// Of its content.
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
    /// As the server that gave it first said.
    pub media_type: String,
    /// When it was first kept.
    pub created: Timestamp,
    /// When it was last kept or read, to the hour.
    pub used: Timestamp,
    /// When its content was removed to make room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collected: Option<Timestamp>,
    /// From how many places it came.
    pub origins: u64,
    /// The latest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<KnownOrigin>,
}

/// Where an artifact came from, as noted.
#[derive(Debug, Clone, Serialize)]
pub struct KnownOrigin {
    /// Run, call, server, tool, position.
    #[serde(flatten)]
    pub origin: ArtifactOrigin,
    /// The name that it had there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it was said to be there.
    pub media_type: String,
    /// When.
    pub at: Timestamp,
}

pub(crate) fn work(connection: &Connection, work: &IndexWork) -> Result<IndexDone, LedgerError> {
    match work {
        IndexWork::Keep(keep) => note(connection, keep),
        IndexWork::Use { digest, at } => {
            connection
                .prepare_cached(
                    "UPDATE artifacts SET used_at = max(used_at, ?2) WHERE digest = ?1",
                )?
                .execute(params![digest.to_string(), at.as_microsecond()])?;
            Ok(IndexDone::Digests(vec![*digest]))
        }
        IndexWork::Collect { chosen, at } => collect(connection, chosen, *at),
        IndexWork::Remove { contents, digests } => remove(connection, near(contents)?, digests),
    }
}

/// The folder: what is in a bucket is not indexed in a file, whose one writer would wait for it.
fn near(contents: &Contents) -> Result<&Path, LedgerError> {
    let far = || io::Error::other("contents in a bucket need a journal in a database");
    contents.folder().ok_or_else(|| LedgerError::File(far()))
}

fn note(connection: &Connection, keep: &Keep) -> Result<IndexDone, LedgerError> {
    let digest = keep.digest.to_string();
    let known = connection
        .prepare_cached(
            "SELECT key, handle, collected_at IS NULL FROM artifacts WHERE digest = ?1",
        )?
        .query_row([&digest], |row| {
            Ok((
                row.get(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, bool>(2)?,
            ))
        })
        .optional()?;
    // A file that is there and not indexed may be another process's, whose name is not on disk yet.
    let settled = keep.written || known.as_ref().is_some_and(|(.., here)| *here);
    let there = folder::size(near(&keep.contents)?, &keep.digest).map_err(LedgerError::File)?;
    if !settled || there != Some(keep.bytes) {
        return Ok(IndexDone::NotThere);
    }
    let at = keep.at.as_microsecond();
    let (key, handle): (i64, String) = if let Some((key, handle, _)) = known {
        connection
            .prepare_cached(
                "UPDATE artifacts SET used_at = max(used_at, ?2), collected_at = NULL WHERE key = ?1",
            )?
            .execute(params![key, at])?;
        (key, handle)
    } else {
        let handle = free_handle(connection, &digest)?;
        let key = connection
            .prepare_cached(
                "INSERT INTO artifacts (digest, handle, bytes, media_type, created_at, used_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5) RETURNING key",
            )?
            .query_row(
                params![digest, handle, int(keep.bytes), keep.media_type, at],
                |row| row.get(0),
            )?;
        (key, handle)
    };
    note_origin(connection, key, keep)?;
    Ok(IndexDone::Kept(handle))
}

fn note_origin(connection: &Connection, artifact: i64, keep: &Keep) -> Result<(), LedgerError> {
    let ArtifactOrigin {
        run,
        call,
        server,
        tool,
        block,
    } = &keep.origin;
    let run: i64 = connection
        .prepare_cached("SELECT key FROM runs WHERE name = ?1")?
        .query_row([run.as_str()], |row| row.get(0))
        .optional()?
        .ok_or(LedgerError::NoOpenRun)?;
    connection
        .prepare_cached(
            "INSERT INTO artifact_origins (artifact, run, call, server, raw_tool, block, name, media_type, at)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT EXISTS (
                SELECT 1 FROM artifact_origins WHERE artifact = ?1 AND run = ?2 AND call = ?3
                    AND server = ?4 AND raw_tool = ?5 AND block IS ?6 AND name IS ?7 AND media_type = ?8)",
        )?
        .execute(params![
            artifact,
            run,
            call,
            server,
            tool,
            block,
            keep.name,
            keep.media_type,
            keep.at.as_microsecond()
        ])?;
    Ok(())
}

/// The shortest beginning of this digest, from 16 digits, that no other artifact begins with.
fn free_handle(connection: &Connection, digest: &str) -> rusqlite::Result<String> {
    let mut taken = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM artifacts WHERE digest >= ?1 AND digest < ?2)",
    )?;
    for digits in DIGITS..digest.len() {
        let Some(handle) = digest.get(..digits) else {
            break;
        };
        if !taken.query_row([handle, &after(handle)], |row| row.get::<_, bool>(0))? {
            return Ok(handle.to_owned());
        }
    }
    Ok(digest.to_owned())
}

/// Greater than every digest that begins so: no hex digit comes after `f`.
pub(crate) fn after(prefix: &str) -> String {
    format!("{prefix}g")
}

/// Only what nobody has used since, and no run that goes on.
fn collect(
    connection: &Connection,
    chosen: &[Chosen],
    at: Timestamp,
) -> Result<IndexDone, LedgerError> {
    let mut mark = connection.prepare_cached(&format!(
        "UPDATE artifacts SET collected_at = ?3
         WHERE digest = ?1 AND used_at = ?2 AND collected_at IS NULL AND NOT {IN_USE}"
    ))?;
    let mut marked = Vec::new();
    for Chosen { digest, used } in chosen {
        let values = params![
            digest.to_string(),
            used.as_microsecond(),
            at.as_microsecond()
        ];
        if mark.execute(values)? == 1 {
            marked.push(*digest);
        }
    }
    Ok(IndexDone::Digests(marked))
}

fn remove(
    connection: &Connection,
    folder: &Path,
    digests: &[Digest],
) -> Result<IndexDone, LedgerError> {
    let mut used = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM artifacts WHERE digest = ?1 AND collected_at IS NULL)",
    )?;
    let mut removed = Vec::new();
    for digest in digests {
        if !used.query_row([digest.to_string()], |row| row.get::<_, bool>(0))? {
            folder::remove(folder, digest).map_err(LedgerError::File)?;
            removed.push(*digest);
        }
    }
    Ok(IndexDone::Digests(removed))
}

/// A run that goes on was given it.
const IN_USE: &str =
    "EXISTS (SELECT 1 FROM artifact_origins AS given JOIN runs ON runs.key = given.run
    WHERE given.artifact = artifacts.key AND ended_at IS NULL AND stopped_at IS NULL)";

const COLUMNS: &str =
    "SELECT digest, handle, bytes, artifacts.media_type, created_at, used_at, collected_at,
    (SELECT count(*) FROM artifact_origins WHERE artifact = artifacts.key),
    runs.name, call, server, raw_tool, block, latest.name, latest.media_type, at";

const TABLES: &str = "FROM artifacts
    LEFT JOIN artifact_origins AS latest ON latest.rowid =
        (SELECT max(rowid) FROM artifact_origins WHERE artifact = artifacts.key)
    LEFT JOIN runs ON runs.key = latest.run";

/// Those that were used last, first; those that were collected too.
pub(crate) fn list(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<ArtifactLine>> {
    let sql = format!("{COLUMNS} {TABLES} ORDER BY used_at DESC, artifacts.key DESC LIMIT ?1");
    connection
        .prepare(&sql)?
        .query_map([limit], line)?
        .collect()
}

/// Those whose handle or digest is or begins with these digits: the one with this very handle, or
/// at most `limit`.
pub(crate) fn named(
    connection: &Connection,
    digits: &str,
    limit: u32,
) -> rusqlite::Result<Vec<ArtifactLine>> {
    let exact = format!("{COLUMNS} {TABLES} WHERE handle = ?1");
    let found = connection
        .prepare(&exact)?
        .query_row([digits], line)
        .optional()?;
    if let Some(found) = found {
        return Ok(vec![found]);
    }
    let sql =
        format!("{COLUMNS} {TABLES} WHERE digest >= ?1 AND digest < ?2 ORDER BY digest LIMIT ?3");
    connection
        .prepare(&sql)?
        .query_map(params![digits, after(digits), limit], line)?
        .collect()
}

/// All places that an artifact came from, the earliest first.
pub(crate) fn origins(
    connection: &Connection,
    digest: &Digest,
) -> rusqlite::Result<Vec<KnownOrigin>> {
    connection
        .prepare(
            "SELECT runs.name, call, server, raw_tool, block, origin.name, origin.media_type, at
             FROM artifact_origins AS origin JOIN runs ON runs.key = run
             WHERE artifact = (SELECT key FROM artifacts WHERE digest = ?1) ORDER BY origin.rowid",
        )?
        .query_map([digest.to_string()], |row| origin(row, 0))?
        .collect()
}

/// What garbage collection has to know of each that is here, the longest unused first.
pub(crate) fn candidates(connection: &Connection) -> rusqlite::Result<Vec<(ArtifactLine, bool)>> {
    let sql = format!(
        "{COLUMNS}, {IN_USE} {TABLES} WHERE collected_at IS NULL ORDER BY used_at, artifacts.key"
    );
    connection
        .prepare(&sql)?
        .query_map([], |row| Ok((line(row)?, row.get(16)?)))?
        .collect()
}

/// Of these, those that are not here, or were collected.
pub(crate) fn strangers(
    connection: &Connection,
    digests: &[Digest],
) -> rusqlite::Result<Vec<Digest>> {
    let mut here = connection.prepare(
        "SELECT EXISTS (SELECT 1 FROM artifacts WHERE digest = ?1 AND collected_at IS NULL)",
    )?;
    let mut strangers = Vec::new();
    for digest in digests {
        if !here.query_row([digest.to_string()], |row| row.get::<_, bool>(0))? {
            strangers.push(*digest);
        }
    }
    Ok(strangers)
}

fn line(row: &Row) -> rusqlite::Result<ArtifactLine> {
    let digest: String = row.get(0)?;
    let handle: String = row.get(1)?;
    let collected = row
        .get::<_, Option<i64>>(6)?
        .map(|_| time(row, 6))
        .transpose()?;
    let origins = count(row, 7)?;
    Ok(ArtifactLine {
        handle: format!("{SCHEME}{handle}"),
        digest: digest.parse().map_err(|error| unreadable(0, error))?,
        bytes: count(row, 2)?,
        media_type: row.get(3)?,
        created: time(row, 4)?,
        used: time(row, 5)?,
        collected,
        origins,
        origin: (origins > 0).then(|| origin(row, 8)).transpose()?,
    })
}

fn origin(row: &Row, from: usize) -> rusqlite::Result<KnownOrigin> {
    let run: String = row.get(from)?;
    let run: RunId = run.parse().map_err(|error| unreadable(from, error))?;
    Ok(KnownOrigin {
        origin: ArtifactOrigin {
            run,
            call: row.get(from + 1)?,
            server: row.get(from + 2)?,
            tool: row.get(from + 3)?,
            block: row.get(from + 4)?,
        },
        name: row.get(from + 5)?,
        media_type: row.get(from + 6)?,
        at: time(row, from + 7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{PATIENCE, open_writer};

    #[test]
    fn a_handle_has_more_digits_where_another_has_those_already() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let connection = open_writer(&path, PATIENCE, || false).unwrap().connection;
        let common = "0123456789abcdef";
        for (rest, digits) in [("0", 16), ("1", 17), ("11", 18), ("f", 17)] {
            let digest = format!("{common}{rest}{}", "e".repeat(48 - rest.len()));
            let handle = free_handle(&connection, &digest).unwrap();
            assert_eq!(handle, digest[..digits]);
            let sql =
                "INSERT INTO artifacts (digest, handle, bytes, media_type, created_at, used_at)
                 VALUES (?1, ?2, 0, '', 0, 0)";
            connection.execute(sql, [&digest, &handle]).unwrap();
        }
        // The first is still found by the digits that it was given.
        let found = named(&connection, common, 6).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].digest.to_string()[..17], format!("{common}0"));
        assert_eq!(named(&connection, &common[..15], 6).unwrap().len(), 4);
    }
}

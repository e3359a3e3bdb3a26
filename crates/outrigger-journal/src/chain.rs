//! The chain over all lines of a journal, in their order: each line has the SHA-256 over the hash of
//! the line before it and its own content, the first over 32 zero bytes in that place.
//!
//! A line that is changed, removed, added or moved breaks the chain there; the end of the chain is
//! kept in a row of its own, so that missing last lines break it too. Whoever may write the file can
//! compute the whole chain anew: only a hash that is kept elsewhere shows that.
//!
//! The content of a line is this text in UTF-8, with `line`, `seq`, `at` (microseconds since
//! 1970-01-01 UTC) and `v` in decimal, and `body` as it is stored, to its last byte:
//! `{line}\n{run}\n{seq}\n{at}\n{v}\n{body}`.

use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};

use crate::Digest;
use crate::ledger::LedgerError;

/// One line, with all that its hash covers.
pub(crate) struct Content<'a> {
    pub(crate) line: i64,
    pub(crate) run: &'a str,
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) v: u32,
    pub(crate) body: &'a str,
}

/// The end of the chain while a transaction adds to it.
pub(crate) struct Chain {
    line: i64,
    head: Digest,
    /// As it was read.
    stored: i64,
}

impl Content<'_> {
    /// The hash of this line after the line with that hash.
    pub(crate) fn hash_after(&self, previous: &Digest) -> Digest {
        let Self {
            line,
            run,
            seq,
            at,
            v,
            body,
        } = self;
        let mut hash = Sha256::new();
        hash.update(previous.as_bytes());
        hash.update(format!("{line}\n{run}\n{seq}\n{at}\n{v}\n"));
        hash.update(body);
        Digest::from_hash(hash)
    }
}

impl Chain {
    /// The end of the chain; an error when the file does not end there.
    pub(crate) fn load(connection: &Connection) -> Result<Self, LedgerError> {
        let (line, head, last) = connection
            .prepare_cached(
                "SELECT line, head, (SELECT coalesce(max(line), 0) FROM events) FROM chain",
            )?
            .query_row([], |row| {
                Ok((row.get(0)?, row.get::<_, [u8; 32]>(1)?, row.get(2)?))
            })?;
        if line != last {
            return Err(LedgerError::BrokenChain { line, last });
        }
        Ok(Self {
            line,
            head: head.into(),
            stored: line,
        })
    }

    /// The number of the next line.
    pub(crate) fn next(&self) -> i64 {
        self.line + 1
    }

    /// Goes on by a line; its hash.
    pub(crate) fn add(&mut self, content: &Content<'_>) -> Digest {
        self.head = content.hash_after(&self.head);
        self.line = content.line;
        self.head
    }

    /// Writes the new end.
    pub(crate) fn store(&self, connection: &Connection) -> Result<(), LedgerError> {
        if self.line != self.stored {
            connection
                .prepare_cached("UPDATE chain SET line = ?1, head = ?2")?
                .execute(params![self.line, self.head.as_bytes()])?;
        }
        Ok(())
    }
}

/// How many lines are read before they are given their hashes.
const AT_ONCE: u32 = 1_000;

/// Gives all lines their hashes that a version without a chain has written.
pub(crate) fn fill(connection: &Connection) -> Result<(), LedgerError> {
    fill_lines(connection)?.store(connection)
}

fn fill_lines(connection: &Connection) -> rusqlite::Result<Chain> {
    let mut chain = Chain {
        line: 0,
        head: [0; 32].into(),
        stored: 0,
    };
    let mut next = connection.prepare(
        "SELECT line, name, seq, at, v, body FROM events JOIN runs ON key = run
         WHERE line > ?1 ORDER BY line LIMIT ?2",
    )?;
    let mut update = connection.prepare("UPDATE events SET hash = ?2 WHERE line = ?1")?;
    loop {
        let hashes = {
            let mut rows = next.query(params![chain.line, AT_ONCE])?;
            let mut hashes = Vec::new();
            while let Some(row) = rows.next()? {
                let content = Content {
                    line: row.get(0)?,
                    run: row.get_ref(1)?.as_str()?,
                    seq: row.get(2)?,
                    at: row.get(3)?,
                    v: row.get(4)?,
                    body: row.get_ref(5)?.as_str()?,
                };
                hashes.push((content.line, chain.add(&content)));
            }
            hashes
        };
        if hashes.is_empty() {
            return Ok(chain);
        }
        for (line, hash) in hashes {
            update.execute(params![line, hash.as_bytes()])?;
        }
    }
}

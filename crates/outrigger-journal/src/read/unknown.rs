//! Calls whose outcome nobody knows, over all runs, and what people found out about such calls.

use jiff::Timestamp;
use rusqlite::{Row, params};
use serde::Serialize;

use super::{Reader, time};
use crate::{Event, JournalError, RunId};

/// A call whose outcome is unknown.
#[derive(Debug, Clone, Serialize)]
pub struct UnknownCall {
    /// Its run.
    pub run: RunId,
    /// Number within the run.
    pub call: u32,
    /// When it was proposed.
    pub at: Timestamp,
    /// The folder of its run.
    pub workspace: String,
    /// Configured name of the server.
    pub server: String,
    /// Model-facing name of the tool.
    pub tool: String,
    /// The server's own name of the tool.
    pub raw_tool: String,
    /// The arguments that were sent.
    pub arguments: String,
    /// Why the outcome is unknown, in one line.
    pub why: String,
    /// Model-facing names of tools of the same server with which it could be looked at.
    pub checks: Vec<String>,
}

/// What a person found out about a call whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// When they said so.
    pub at: Timestamp,
    /// Whether the call took effect.
    pub happened: bool,
    /// What they said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Reader {
    pub(super) fn unknown_calls(&self) -> Result<Vec<UnknownCall>, JournalError> {
        // What was sent has a server and a tool.
        let sql = "SELECT name, call, proposed_at, workspace, coalesce(server, ''), tool, coalesce(raw_tool, ''),
                 arguments, summary, key
             FROM calls JOIN runs ON key = run LEFT JOIN settled USING (run, call)
             WHERE outcome = 'unknown' AND settled.at IS NULL ORDER BY proposed_at, key, call";
        let mut calls = self.list(sql, params![], |row| {
            let call = UnknownCall {
                run: row
                    .get::<_, String>(0)?
                    .parse()
                    .map_err(|error| super::unreadable(0, error))?,
                call: row.get(1)?,
                at: time(row, 2)?,
                workspace: row.get(3)?,
                server: row.get(4)?,
                tool: row.get(5)?,
                raw_tool: row.get(6)?,
                arguments: row.get(7)?,
                why: row.get(8)?,
                checks: Vec::new(),
            };
            Ok((row.get(9)?, call))
        })?;
        for (key, call) in &mut calls {
            call.checks = self.checks(*key, call.call)?;
        }
        Ok(calls.into_iter().map(|(_, call)| call).collect())
    }

    fn checks(&self, run: i64, call: u32) -> Result<Vec<String>, JournalError> {
        let sql = "SELECT body FROM events WHERE run = ?1 AND body LIKE ?2 LIMIT 1";
        let pattern = format!(r#"{{"type":"call_checkable","call":{call},%"#);
        let found = self.list(sql, params![run, pattern], |row| row.get::<_, String>(0))?;
        let event = found
            .first()
            .and_then(|body| serde_json::from_str(body).ok());
        match event {
            Some(Event::CallCheckable { tools, .. }) => Ok(tools),
            _ => Ok(Vec::new()),
        }
    }
}

/// A finding in three columns, from `column` on; `None` where there is none.
pub(super) fn finding(row: &Row, column: usize) -> rusqlite::Result<Option<Finding>> {
    if row.get::<_, Option<i64>>(column)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Finding {
        at: time(row, column)?,
        happened: row.get(column + 1)?,
        note: row.get(column + 2)?,
    }))
}

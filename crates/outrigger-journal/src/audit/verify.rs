//! Walking over all lines once: the chain, its end, and the ledger of calls beside what lines say.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};

use super::{AuditFault, AuditReport, LINES, hash};
use crate::chain::Content;
use crate::{Digest, Event, OutcomeKind};

/// How each call ended by the lines, by the keys of the ledger: the last word, and the line with it.
type Ends = BTreeMap<(i64, u32), (OutcomeKind, i64)>;

pub(super) struct Walk {
    report: AuditReport,
    /// A line, and the hash that it had.
    expected: Option<(i64, Digest)>,
    ends: Ends,
}

impl Walk {
    pub(super) fn new(expected: Option<(i64, Digest)>) -> Self {
        let report = AuditReport {
            lines: 0,
            last: 0,
            head: [0; 32].into(),
            fault: None,
        };
        Self {
            report,
            expected,
            ends: Ends::new(),
        }
    }

    pub(super) fn over(mut self, connection: &Connection) -> rusqlite::Result<AuditReport> {
        let mut statement = connection.prepare(&format!("{LINES} ORDER BY line"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(what) = self.line(row)? {
                let line = Some(row.get(0)?);
                self.report.fault = Some(AuditFault { line, what });
                return Ok(self.report);
            }
        }
        self.report.fault = self.end(connection)?;
        if self.report.fault.is_none() {
            self.report.fault = ledger(connection, &self.ends)?;
        }
        Ok(self.report)
    }

    /// What is wrong with the next line.
    fn line(&mut self, row: &Row) -> rusqlite::Result<Option<String>> {
        let line: i64 = row.get(0)?;
        let Some(run) = row.get_ref(1)?.as_str_or_null()? else {
            return Ok(Some("the run that it belongs to was removed".to_owned()));
        };
        let content = Content {
            line,
            run,
            seq: row.get(2)?,
            at: row.get(3)?,
            v: row.get(4)?,
            body: row.get_ref(5)?.as_str()?,
        };
        let computed = content.hash_after(&self.report.head);
        let stored = row.get::<_, Option<[u8; 32]>>(6)?.map(Digest::from);
        if stored != Some(computed) {
            let next = self.report.last + 1;
            return Ok(Some(if line == next {
                "it was changed, or put where another line was".to_owned()
            } else {
                format!("lines {next} to {} before it were removed", line - 1)
            }));
        }
        self.report.lines += 1;
        self.report.last = line;
        self.report.head = computed;
        let anew = |(at, hash)| at == line && hash != computed;
        if self.expected.is_some_and(anew) {
            let what = "it is another line than expected: the file was written anew up to it";
            return Ok(Some(what.to_owned()));
        }
        self.note_end(row.get(7)?, line, content.body);
        Ok(None)
    }

    /// Remembers what the line says about the end of a call.
    fn note_end(&mut self, run: i64, line: i64, body: &str) {
        let tells = [r#"{"type":"call_ended""#, r#"{"type":"late_answer""#]
            .iter()
            .any(|tag| body.starts_with(tag));
        if !tells {
            return;
        }
        if let Ok(
            Event::CallEnded { call, outcome, .. } | Event::LateAnswer { call, outcome, .. },
        ) = serde_json::from_str(body)
        {
            self.ends.insert((run, call), (outcome, line));
        }
    }

    /// Whether the file ends where the chain does, and reaches as far as was expected.
    fn end(&self, connection: &Connection) -> rusqlite::Result<Option<AuditFault>> {
        let AuditReport { last, head, .. } = self.report;
        let kept = connection.query_row("SELECT line, head FROM chain", [], |row| {
            Ok((row.get::<_, i64>(0)?, hash(row, 1)?))
        })?;
        let what = if kept != (last, head) {
            format!(
                "the chain ends with line {}, and this is the last: lines at the end were removed or added",
                kept.0
            )
        } else if self.expected.is_some_and(|(at, _)| at > last) {
            "it is the last line, and a later one was expected".to_owned()
        } else {
            return Ok(None);
        };
        let line = Some(last);
        Ok(Some(AuditFault { line, what }))
    }
}

/// Compares the ledger of calls with the ends that the lines tell.
fn ledger(connection: &Connection, ends: &Ends) -> rusqlite::Result<Option<AuditFault>> {
    let mut statement = connection.prepare("SELECT run, call, outcome FROM calls")?;
    let mut rows = statement.query([])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        let key: (i64, u32) = (row.get(0)?, row.get(1)?);
        let stored = row.get_ref(2)?.as_str_or_null()?;
        let told = ends.get(&key);
        found += usize::from(told.is_some());
        if stored != told.map(|(outcome, _)| outcome.as_str()) {
            let what = format!(
                "the ledger was changed: call {} is `{}` there, and `{}` by this line",
                key.1,
                stored.unwrap_or("open"),
                told.map_or("open", |(outcome, _)| outcome.as_str())
            );
            let line = told.map(|(_, line)| *line);
            return Ok(Some(AuditFault { line, what }));
        }
    }
    let what = "the ledger was changed: calls that ended are not in it".to_owned();
    Ok((found != ends.len()).then_some(AuditFault { line: None, what }))
}

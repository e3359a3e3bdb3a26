//! Walking over all lines once: the chain, its end, and the ledger of calls beside what lines say.

use std::collections::BTreeMap;

use super::{AuditFault, AuditReport, StoredLine};
use crate::chain::Content;
use crate::store::Records;
use crate::{Digest, Event, JournalError, OutcomeKind};

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

    pub(super) fn over(mut self, records: &dyn Records) -> Result<AuditReport, JournalError> {
        let mut fault = None;
        records.lines(None, &mut |stored| {
            fault = self.line(&stored).map(|what| AuditFault {
                line: Some(stored.line),
                what,
            });
            fault.is_none()
        })?;
        if fault.is_none() {
            fault = self.end(records)?;
        }
        if fault.is_none() {
            fault = ledger(records, &self.ends)?;
        }
        self.report.fault = fault;
        Ok(self.report)
    }

    /// What is wrong with the next line.
    fn line(&mut self, stored: &StoredLine) -> Option<String> {
        let line = stored.line;
        let Some(run) = &stored.run else {
            return Some("the run that it belongs to was removed".to_owned());
        };
        let content = Content {
            line,
            run,
            seq: stored.seq,
            at: stored.at,
            v: stored.v,
            body: &stored.body,
        };
        let computed = content.hash_after(&self.report.head);
        if stored.hash != Some(computed) {
            let next = self.report.last + 1;
            return Some(if line == next {
                "it was changed, or put where another line was".to_owned()
            } else {
                format!("lines {next} to {} before it were removed", line - 1)
            });
        }
        self.report.lines += 1;
        self.report.last = line;
        self.report.head = computed;
        let anew = |(at, hash)| at == line && hash != computed;
        if self.expected.is_some_and(anew) {
            let what = "it is another line than expected: the journal was written anew up to it";
            return Some(what.to_owned());
        }
        self.note_end(stored.key, line, content.body);
        None
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

    /// Whether the journal ends where the chain does, and reaches as far as was expected.
    fn end(&self, records: &dyn Records) -> Result<Option<AuditFault>, JournalError> {
        let AuditReport { last, head, .. } = self.report;
        let kept = records.chain_end()?;
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
fn ledger(records: &dyn Records, ends: &Ends) -> Result<Option<AuditFault>, JournalError> {
    let (mut found, mut fault) = (0, None);
    records.ends(&mut |run, call, stored| {
        let told = ends.get(&(run, call));
        found += usize::from(told.is_some());
        if stored != told.map(|(outcome, _)| outcome.as_str()) {
            let what = format!(
                "the ledger was changed: call {call} is `{}` there, and `{}` by this line",
                stored.unwrap_or("open"),
                told.map_or("open", |(outcome, _)| outcome.as_str())
            );
            let line = told.map(|(_, line)| *line);
            fault = Some(AuditFault { line, what });
        }
        fault.is_none()
    })?;
    let what = "the ledger was changed: calls that ended are not in it".to_owned();
    let missing = (found != ends.len()).then_some(AuditFault { line: None, what });
    Ok(fault.or(missing))
}

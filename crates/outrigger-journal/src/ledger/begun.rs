//! The lines of calls that begin within one transaction: each is written once, with all that is known of
//! its call by then, in the place of a change for each event.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::{Change, Entry, LedgerError, int};
use crate::OutcomeKind;

/// Those that are not written yet, by run and number.
#[derive(Default)]
pub(crate) struct Begun<'a>(BTreeMap<(i64, u32), Row<'a>>);

/// The line of a call, as far as it is known.
struct Row<'a> {
    /// Which entry of the transaction began it.
    of: usize,
    turn: Option<u32>,
    tool: &'a str,
    arguments: &'a str,
    proposed_at: i64,
    server: Option<&'a str>,
    raw_tool: Option<&'a str>,
    decided_at: Option<i64>,
    allowed: Option<bool>,
    rule: Option<&'a str>,
    intent_at: Option<i64>,
    ended_at: Option<i64>,
    outcome: Option<OutcomeKind>,
    is_error: bool,
    summary: &'a str,
    tokens: u64,
    took_ms: u64,
}

impl<'a> Begun<'a> {
    /// Takes what an event changes, if it begins a call or its call has begun here; `of` counts the
    /// entries of the transaction.
    pub(super) fn take(&mut self, entry: &Entry<'a>, of: usize) -> bool {
        let (change, at) = (entry.change, entry.at.as_microsecond());
        let call = match change {
            Change::Proposed { call, .. } => {
                let row = Row::of(change, at, of);
                return row.is_some_and(|row| self.0.insert((entry.run, *call), row).is_none());
            }
            Change::Prepared { call, .. }
            | Change::Decided { call, .. }
            | Change::Intent { call }
            | Change::Ended { call, .. } => *call,
            _ => return false,
        };
        let row = self.0.get_mut(&(entry.run, call));
        row.is_some_and(|row| {
            row.learn(change, at);
            true
        })
    }

    /// Writes all of them; an error with the entry that it is about.
    pub(crate) fn write(&mut self, connection: &Connection) -> Result<(), (usize, LedgerError)> {
        for ((run, call), row) in std::mem::take(&mut self.0) {
            row.write(connection, run, call)
                .map_err(|error| (row.of, error))?;
        }
        Ok(())
    }
}

impl<'a> Row<'a> {
    /// As it begins.
    fn of(change: &'a Change, at: i64, of: usize) -> Option<Self> {
        let Change::Proposed {
            call: _,
            turn,
            tool,
            arguments,
        } = change
        else {
            return None;
        };
        Some(Self {
            of,
            turn: *turn,
            tool,
            arguments,
            proposed_at: at,
            server: None,
            raw_tool: None,
            decided_at: None,
            allowed: None,
            rule: None,
            intent_at: None,
            ended_at: None,
            outcome: None,
            is_error: false,
            summary: "",
            tokens: 0,
            took_ms: 0,
        })
    }

    /// Takes in what comes after.
    fn learn(&mut self, change: &'a Change, at: i64) {
        match change {
            Change::Prepared {
                call: _,
                server,
                raw_tool,
                arguments,
            } => {
                self.server = Some(server);
                self.raw_tool = Some(raw_tool);
                self.arguments = arguments;
            }
            Change::Decided {
                call: _,
                allowed,
                rule,
            } => {
                self.decided_at = Some(at);
                self.allowed = Some(*allowed);
                self.rule = Some(rule);
            }
            Change::Intent { call: _ } => {
                self.intent_at.get_or_insert(at);
            }
            Change::Ended {
                call: _,
                outcome,
                is_error,
                summary,
                tokens,
                took_ms,
            } => {
                self.ended_at = Some(at);
                self.outcome = Some(*outcome);
                self.is_error = *is_error;
                self.summary = summary;
                self.tokens = *tokens;
                self.took_ms = *took_ms;
            }
            _ => {}
        }
    }

    fn write(&self, connection: &Connection, run: i64, call: u32) -> Result<(), LedgerError> {
        connection
            .prepare_cached(
                "INSERT INTO calls (run, call, turn, tool, server, raw_tool, arguments, proposed_at, decided_at,
                     allowed, rule, intent_at, ended_at, outcome, is_error, summary, tokens, took_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
            )?
            .execute(params![
                run,
                call,
                self.turn,
                self.tool,
                self.server,
                self.raw_tool,
                self.arguments,
                self.proposed_at,
                self.decided_at,
                self.allowed,
                self.rule,
                self.intent_at,
                self.ended_at,
                self.outcome.map(OutcomeKind::as_str),
                self.is_error,
                self.summary,
                int(self.tokens),
                int(self.took_ms)
            ])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use rusqlite::types::Value;

    use super::super::{NewRun, Start, append, begin};
    use super::*;
    use crate::RunId;
    use crate::chain::Chain;
    use crate::schema::{PATIENCE, open_writer};

    /// All that may happen to a call, in its order.
    fn changes(call: u32, stages: usize) -> Vec<Change> {
        let text = |what: &str| format!("{what} of {call}");
        let all = [
            Change::Proposed {
                call,
                turn: Some(3),
                tool: text("tool"),
                arguments: text("proposed"),
            },
            Change::Prepared {
                call,
                server: text("server"),
                raw_tool: text("raw"),
                arguments: text("prepared"),
            },
            Change::Decided {
                call,
                allowed: true,
                rule: text("rule"),
            },
            Change::Intent { call },
            Change::Ended {
                call,
                outcome: OutcomeKind::Unknown,
                is_error: true,
                summary: text("summary"),
                tokens: 7,
                took_ms: 8,
            },
            Change::Late {
                call,
                outcome: OutcomeKind::Completed,
                summary: text("late"),
            },
        ];
        all.into_iter().take(stages).collect()
    }

    /// What the lines of calls are after transactions of so many events, the last size for all others.
    fn lines(changes: &[Change], sizes: &[usize]) -> Vec<Vec<Value>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let connection = open_writer(&path, PATIENCE, || false).unwrap().connection;
        let at = Timestamp::UNIX_EPOCH;
        let start = Start {
            command: String::new(),
            question: None,
            model: None,
            workspace: String::new(),
            version: String::new(),
        };
        let name = RunId::new(at, 1);
        let run = NewRun {
            name: &name,
            host: "",
            at,
            start: &start,
            body: "{}",
        };
        let mut chain = Chain::load(&connection).unwrap();
        let key = begin(&connection, &mut chain, &run).unwrap().unwrap();
        let mut seq = 1;
        let mut sizes = sizes.iter();
        let mut rest = changes;
        while !rest.is_empty() {
            let (batch, left) = rest.split_at((*sizes.next().unwrap_or(&1)).min(rest.len()));
            rest = left;
            let mut begun = Begun::default();
            for (of, change) in batch.iter().enumerate() {
                seq += 1;
                let at = Timestamp::from_microsecond(i64::try_from(seq).unwrap()).unwrap();
                let entry = Entry {
                    run: key,
                    name: &name,
                    seq,
                    at,
                    body: "{}",
                    change,
                };
                if change.needs_a_line() {
                    begun.write(&connection).unwrap();
                }
                append(&connection, &mut chain, (&entry, of), &mut begun).unwrap();
            }
            begun.write(&connection).unwrap();
        }
        let mut select = connection
            .prepare("SELECT * FROM calls ORDER BY call")
            .unwrap();
        let columns = select.column_count();
        let rows = select.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
        rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// However events are put into transactions, the lines are as if each had its own.
        #[test]
        fn lines_are_the_same_however_events_come_together(
            stages in prop::collection::vec(1_usize..=6, 1..5),
            turns in prop::collection::vec(any::<prop::sample::Index>(), 24),
            sizes in prop::collection::vec(1_usize..9, 0..12),
        ) {
            let mut calls: Vec<_> = (1..).zip(&stages).map(|(call, stages)| changes(call, *stages).into_iter()).collect();
            let mut all = Vec::new();
            for turn in &turns {
                let at = turn.index(calls.len());
                all.extend(calls[at].next());
            }
            all.extend(calls.into_iter().flatten());
            prop_assert_eq!(lines(&all, &sizes), lines(&all, &[]));
        }
    }
}

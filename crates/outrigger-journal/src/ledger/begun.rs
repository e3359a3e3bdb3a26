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

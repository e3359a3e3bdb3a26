//! Tools that break their contract again and again are set aside for the rest of the run.
//!
//! The server lives, and so do its other tools. Any answer that keeps the contract resets the count;
//! a tool with another definition has another contract.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use outrigger_journal::Event;

use crate::catalog::{CatalogTool, SetAside};
use crate::digest::Digest;
use crate::host::Host;
use crate::name::ToolName;
use crate::outcome::CallOutcome;

/// Violations in a row that a tool is allowed.
const ALLOWED: u32 = 2;

/// How often tools broke their contract in a row, and which are set aside for it.
#[derive(Debug, Default)]
pub(crate) struct Broken(Mutex<HashMap<(ToolName, Digest), State>>);

#[derive(Debug, Clone)]
enum State {
    Violations(u32),
    SetAside(String),
}

impl Broken {
    /// Why a tool is set aside.
    pub(crate) fn reason(&self, tool: &CatalogTool) -> Option<String> {
        let tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match tools.get(&(tool.name.clone(), tool.digest)) {
            Some(State::SetAside(reason)) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Takes an outcome in; the reason, when the tool is set aside because of it.
    fn judge(&self, tool: &CatalogTool, outcome: &CallOutcome) -> Option<String> {
        let key = (tool.name.clone(), tool.digest);
        let mut tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (outcome, tools.get(&key)) {
            (_, Some(State::SetAside(_))) => None,
            (CallOutcome::Completed(_), _) => {
                tools.remove(&key);
                None
            }
            (CallOutcome::Violated(violation), known) => {
                let before = match known {
                    Some(State::Violations(count)) => *count,
                    _ => 0,
                };
                if before < ALLOWED {
                    tools.insert(key, State::Violations(before + 1));
                    return None;
                }
                let reason = format!(
                    "it broke its own contract {} times in a row, the last time so: {}",
                    before + 1,
                    violation.what
                );
                tools.insert(key, State::SetAside(reason.clone()));
                Some(reason)
            }
            _ => None,
        }
    }

    /// Moves the tools that are set aside out of a catalog.
    pub(crate) fn take_out(&self, tools: &mut Vec<std::sync::Arc<CatalogTool>>) -> Vec<SetAside> {
        let mut taken = Vec::new();
        tools.retain(|tool| match self.reason(tool) {
            None => true,
            Some(reason) => {
                let tool = tool.raw_name.clone();
                taken.push(SetAside { tool, reason });
                false
            }
        });
        taken
    }
}

impl Host {
    /// Notes whether a tool kept its contract.
    pub(super) fn watch_contract(&self, tool: &CatalogTool, outcome: &CallOutcome) {
        let Some(reason) = self.broken().judge(tool, outcome) else {
            return;
        };
        self.run().record(Event::ToolSetAside {
            server: tool.server.to_string(),
            tool: tool.raw_name.clone(),
            reason: self.redactor().redact(&reason).into_owned(),
        });
        self.set_aside(tool);
    }
}

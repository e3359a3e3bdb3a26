//! What the model reads of a call that an earlier run made and did not come to tell: made from the
//! ledger, by the same rules. Nothing is sent.

use outrigger_connect::ServerName;
use outrigger_journal::OutcomeKind;
use serde_json::Value;
use serde_json::value::RawValue;

use super::hooked::{About, Shown};
use crate::config::HookEvent;
use crate::host::Host;
use crate::outcome::{CallOutcome, ContractViolation, UnknownReason};
use crate::result::{Block, ToolResult};
use crate::toolset::Toolset;
use crate::words::{self, Words};

/// A call as the ledger has it.
#[derive(Debug, Clone)]
pub struct KeptCall {
    /// Model-facing name of the tool.
    pub tool: String,
    /// The server; `None` when the tool was not found.
    pub server: Option<String>,
    /// The arguments that were sent, or would have been.
    pub arguments: String,
    /// How it ended.
    pub outcome: OutcomeKind,
    /// One line about that.
    pub summary: String,
    /// The answer as it came, where there was one.
    pub result: Option<Box<RawValue>>,
}

/// What the model reads of it.
#[derive(Debug)]
pub struct Retold {
    /// The words.
    pub words: Vec<Words>,
    /// Whether they tell of something that went wrong.
    pub is_error: bool,
    /// The server whose data may be among them.
    pub origin: Option<ServerName>,
}

impl Host {
    /// Tells of a call that an earlier run made. The hooks for results have their say, as they would
    /// have had then; where one is to be asked and the tool is not there any more, the result is kept
    /// back.
    pub async fn retell(&self, toolset: &Toolset, kept: &KeptCall) -> Retold {
        let server = kept.server.as_deref();
        if kept.outcome == OutcomeKind::Rejected {
            let why = kept.summary.trim_end_matches('.');
            let why = why.strip_prefix("Not called: ").unwrap_or(why);
            let text = format!("Not called: {why}.");
            return Retold {
                words: vec![Words::Text(crate::hidden::escape(&text).into_owned())],
                is_error: true,
                origin: None,
            };
        }
        let outcome = outcome(kept);
        let mut checks = self.checks(toolset, &kept.tool);
        checks.sent = Some(kept.arguments.clone());
        let mut words = words::for_model(&outcome, server, &checks);
        self.clean(&mut words);
        let mut shown = Shown {
            words: &mut words,
            remarks: 0,
            framed: matches!(outcome, CallOutcome::Completed(_)),
        };
        let sent = outcome.kind() != OutcomeKind::NotSent;
        match toolset.get(&kept.tool) {
            Some(tool) => {
                let arguments = RawValue::from_string(kept.arguments.clone());
                let about = About {
                    call: None,
                    turn: None,
                    tool,
                    arguments: arguments.as_deref().unwrap_or(RawValue::NULL),
                    outcome: outcome.kind(),
                    is_error: outcome.is_error(),
                };
                self.after_call(&about, shown).await;
            }
            None if sent && self.hooks().has(HookEvent::AfterCall) => {
                shown.withhold("its tool is not there any more, so it was not asked");
            }
            None => {}
        }
        let origin = server.and_then(|server| ServerName::new(server).ok());
        if let Some(origin) = &origin {
            self.came_from(origin.as_str());
        }
        Retold {
            words,
            is_error: outcome.is_error(),
            origin,
        }
    }

    /// Says that the data of these servers is in the conversation.
    pub fn carry_over(&self, origins: impl IntoIterator<Item = impl AsRef<str>>) {
        for origin in origins {
            self.came_from(origin.as_ref());
        }
    }
}

fn outcome(kept: &KeptCall) -> CallOutcome {
    let without = |prefix: &str| {
        let summary = kept.summary.strip_prefix(prefix);
        summary.unwrap_or(&kept.summary).to_owned()
    };
    match kept.outcome {
        OutcomeKind::Completed => match kept.result.clone().map(ToolResult::read) {
            Some(Ok(result)) => CallOutcome::Completed(result),
            Some(Err((raw, _))) => CallOutcome::Completed(error(raw, &kept.summary)),
            None => CallOutcome::Completed(error(RawValue::NULL.to_owned(), &kept.summary)),
        },
        OutcomeKind::Violated => {
            match ServerName::new(kept.server.as_deref().unwrap_or_default()) {
                Ok(server) => CallOutcome::Violated(ContractViolation {
                    server,
                    tool: kept.tool.clone(),
                    what: without("contract broken: "),
                }),
                Err(_) => CallOutcome::Unknown(UnknownReason::Earlier(kept.summary.clone())),
            }
        }
        OutcomeKind::Unknown => {
            CallOutcome::Unknown(UnknownReason::Earlier(without("outcome unknown: ")))
        }
        OutcomeKind::Rejected | OutcomeKind::NotSent => CallOutcome::NotSent(without("not sent: ")),
    }
}

/// An answer that was no result, but an error of the protocol.
fn error(raw: Box<RawValue>, summary: &str) -> ToolResult {
    let told = serde_json::from_str::<Value>(raw.get())
        .ok()
        .and_then(|value| {
            let error = value.get("error")?;
            Some(format!(
                "error {}: {}",
                error.get("code")?,
                error.get("message")?.as_str()?
            ))
        });
    ToolResult {
        raw,
        content: vec![Block::Text(told.unwrap_or_else(|| summary.to_owned()))],
        structured: None,
        is_error: true,
    }
}

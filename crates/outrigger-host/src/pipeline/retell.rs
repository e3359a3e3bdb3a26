//! What the model reads of a call that an earlier run made and did not come to tell: made from the
//! ledger, by the same rules. Nothing is sent.

use std::sync::Arc;

use outrigger_connect::ServerName;
use outrigger_journal::{ArtifactOrigin, CallRef, Kept, OutcomeKind};
use serde_json::Value;
use serde_json::value::RawValue;

use super::hooked::{About, Shown};
use crate::catalog::CatalogTool;
use crate::config::HookEvent;
use crate::host::Host;
use crate::outcome::{CallOutcome, ContractViolation, UnknownReason};
use crate::policy::Origins;
use crate::result::ToolResult;
use crate::toolset::Toolset;
use crate::words::{self, Whose, Words};

/// A call as the ledger has it.
#[derive(Debug, Clone)]
pub struct KeptCall {
    /// The call.
    pub of: CallRef,
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
    /// The answer as it came, where there was one and it was not too large for the ledger.
    pub result: Option<Box<RawValue>>,
    /// Where the answer is kept, when it was.
    pub kept: Option<Kept>,
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
        let tool = toolset.get(&kept.tool);
        let outcome = self.outcome_of(kept, tool).await;
        let origins: Origins = kept.server.iter().map(String::as_str).collect();
        let mut checks = self.checks(toolset, &kept.tool);
        checks.sent = Some(kept.arguments.clone());
        let whose = Whose {
            server,
            tool: Some(&kept.tool),
            origins: &origins,
            is_ours: tool.is_some_and(|tool| tool.standing.builtin),
        };
        let mut words = words::for_model(&outcome, whose, &checks);
        self.clean(&mut words);
        let mut shown = Shown {
            words: &mut words,
            remarks: 0,
            framed: matches!(outcome, CallOutcome::Completed(_)),
            changed: false,
        };
        self.after_kept(kept, &outcome, tool, &mut shown).await;
        let whose = (&origins, shown.changed);
        self.hand_out(&outcome, whose, &mut words).await;
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

    /// How it ended, with what it returned cut to what a model is shown.
    async fn outcome_of(&self, kept: &KeptCall, tool: Option<&Arc<CatalogTool>>) -> CallOutcome {
        let mut outcome = outcome(kept, self.answer_of(kept).await);
        if let CallOutcome::Completed(result) = &mut outcome {
            let origin = ArtifactOrigin {
                run: kept.of.run.clone(),
                call: kept.of.call,
                server: kept.server.clone().unwrap_or_default(),
                tool: tool.map_or_else(|| kept.tool.clone(), |tool| tool.raw_name.clone()),
                block: None,
            };
            self.keep_told(result, origin, &kept.tool).await;
        }
        outcome
    }

    async fn after_kept(
        &self,
        kept: &KeptCall,
        outcome: &CallOutcome,
        tool: Option<&Arc<CatalogTool>>,
        shown: &mut Shown<'_>,
    ) {
        let sent = outcome.kind() != OutcomeKind::NotSent;
        match tool {
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
    }

    async fn answer_of(&self, kept: &KeptCall) -> Option<Box<RawValue>> {
        let at = match (&kept.result, &kept.kept) {
            (Some(result), _) => return Some(result.clone()),
            (None, at) => at.as_ref()?,
        };
        let bytes = self.artifacts()?.read(&at.digest, 0..at.bytes).await.ok()?;
        RawValue::from_string(String::from_utf8(bytes.into()).ok()?).ok()
    }

    /// Says that the data of these servers is in the conversation.
    pub fn carry_over(&self, origins: impl IntoIterator<Item = impl AsRef<str>>) {
        for origin in origins {
            self.came_from(origin.as_ref());
        }
    }
}

fn outcome(kept: &KeptCall, answer: Option<Box<RawValue>>) -> CallOutcome {
    let without = |prefix: &str| {
        let summary = kept.summary.strip_prefix(prefix);
        summary.unwrap_or(&kept.summary).to_owned()
    };
    match kept.outcome {
        OutcomeKind::Completed => match answer.map(ToolResult::read) {
            Some(Ok(result)) => CallOutcome::Completed(Box::new(result)),
            Some(Err((raw, _))) => CallOutcome::Completed(Box::new(error(raw, &kept.summary))),
            None => {
                CallOutcome::Completed(Box::new(error(RawValue::NULL.to_owned(), &kept.summary)))
            }
        },
        OutcomeKind::Violated => {
            match ServerName::new(kept.server.as_deref().unwrap_or_default()) {
                Ok(server) => CallOutcome::Violated(ContractViolation {
                    server,
                    tool: kept.tool.clone(),
                    pointer: None,
                    what: broken(&kept.summary),
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

/// What is wrong, out of the line about a broken contract.
fn broken(summary: &str) -> String {
    let named = summary.strip_prefix("contract broken by ");
    let what = named.and_then(|rest| rest.split_once(": "));
    what.map_or(summary, |(_, what)| what).to_owned()
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
    ToolResult::text(raw, told.unwrap_or_else(|| summary.to_owned()), true)
}

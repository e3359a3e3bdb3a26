//! Second stage: may it run? Only this file can make a [`Permit`], and only a permit is dispatched.

use std::collections::HashSet;
use std::sync::Arc;

use outrigger_journal::{DecidedBy, Event};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::LedgerLine;
use super::prepare::Prepared;
use crate::approve::{Answer, Question};
use crate::arguments::Arguments;
use crate::catalog::CatalogTool;
use crate::config::Decision;
use crate::digest::Digest;
use crate::host::Host;
use crate::name::ToolName;
use crate::outcome::Rejection;

/// Leave to make one call. It cannot be made elsewhere, copied, or used twice.
#[derive(Debug)]
pub struct Permit {
    tool: Arc<CatalogTool>,
    arguments: Arguments,
}

impl Permit {
    /// The tool.
    pub fn tool(&self) -> &CatalogTool {
        &self.tool
    }

    pub(super) fn redeem(self) -> (Arc<CatalogTool>, Arguments) {
        (self.tool, self.arguments)
    }
}

/// What a person allowed until the program ends: a tool, as it was defined then. Held while a
/// question is open, so that a yes for the session is known to the next question.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashSet<(ToolName, Digest)>>);

impl Host {
    pub(super) async fn authorize(
        &self,
        prepared: Prepared,
        cancel: &CancellationToken,
        line: &LedgerLine,
    ) -> Result<Permit, Rejection> {
        let Prepared { tool, arguments } = prepared;
        let verdict = self.policy().decide(&tool);
        let decided = |allowed, by, reason: Option<String>| {
            line.run.record(Event::CallDecided {
                call: line.call,
                allowed,
                rule: verdict.rule.clone(),
                by,
                reason,
            });
        };
        match verdict.decision {
            Decision::Allow => {
                decided(true, DecidedBy::Policy, verdict.reason.clone());
                return Ok(Permit { tool, arguments });
            }
            Decision::Deny => {
                decided(false, DecidedBy::Policy, verdict.reason.clone());
                return Err(Rejection::Denied {
                    rule: verdict.rule,
                    reason: verdict.reason,
                });
            }
            Decision::Ask => {}
        }
        let key = (tool.name.clone(), tool.digest);
        let server = self.identity(&tool.server);
        let question = Question {
            tool: &tool,
            server: server.as_ref(),
            arguments: arguments.raw.get(),
            rule: &verdict.rule,
        };
        let answer = tokio::select! {
            () = cancel.cancelled() => return Err(Rejection::Cancelled),
            answer = self.ask(question, key) => answer,
        };
        match answer {
            Answer::Once | Answer::Session => {
                decided(true, DecidedBy::Person, None);
                Ok(Permit { tool, arguments })
            }
            Answer::Granted { grant } => {
                decided(true, DecidedBy::Grant, Some(grant));
                Ok(Permit { tool, arguments })
            }
            Answer::No { reason } => {
                decided(false, DecidedBy::Person, reason.clone());
                Err(Rejection::Declined { reason })
            }
            Answer::Nobody => {
                decided(false, DecidedBy::Nobody, None);
                Err(Rejection::NobodyToAsk { rule: verdict.rule })
            }
        }
    }

    async fn ask(&self, question: Question<'_>, key: (ToolName, Digest)) -> Answer {
        let mut sessions = self.sessions().0.lock().await;
        if sessions.contains(&key) {
            return Answer::Session;
        }
        let asking = self.person().turn().await;
        let answer = self.approver().ask(question).await;
        drop(asking);
        if answer == Answer::Session {
            sessions.insert(key);
        }
        answer
    }
}

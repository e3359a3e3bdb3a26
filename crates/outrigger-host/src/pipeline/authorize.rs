//! Second stage: may it run? Only this file can make a [`Permit`], and only a permit is dispatched.

use std::collections::HashSet;
use std::sync::Arc;

use outrigger_journal::{DecidedBy, Event};
use tokio::sync::Mutex;

use super::prepare::Prepared;
use super::{CallContext, LedgerLine};
use crate::approve::{Answer, Question};
use crate::arguments::Arguments;
use crate::catalog::CatalogTool;
use crate::config::Decision;
use crate::digest::Digest;
use crate::host::Host;
use crate::name::ToolName;
use crate::outcome::Rejection;
use crate::policy::{Call, Subject};

/// Leave to make one call. It cannot be made elsewhere, copied, or used twice.
///
/// ```compile_fail,E0451
/// # use outrigger_host::Permit;
/// fn forge(tool: std::sync::Arc<outrigger_host::catalog::CatalogTool>) -> Permit {
///     Permit { tool, arguments: todo!() }
/// }
/// ```
///
/// ```compile_fail,E0599
/// fn use_twice(permit: outrigger_host::Permit) -> (outrigger_host::Permit, outrigger_host::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
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

/// What a person allowed until the program ends: a tool, as it was defined then, where the same rule
/// asks; another rule may ask because of something that was not there then. Held while a question is
/// open, so that a yes for the session is known to the next question.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashSet<Yes>>);

/// The tool, its definition, and the rule that asked.
type Yes = (ToolName, Digest, String);

impl Host {
    pub(super) async fn authorize(
        &self,
        prepared: Prepared,
        context: &CallContext,
        line: &LedgerLine,
    ) -> Result<Permit, Rejection> {
        let Prepared { tool, arguments } = prepared;
        let verdict = self.policy().decide(&Call {
            subject: Subject::from(&*tool),
            arguments: arguments.raw.get(),
            principal: context.principal,
            origins: &self.origins(),
        });
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
        let key = (tool.name.clone(), tool.digest, verdict.rule.clone());
        let server = self.identity(&tool.server);
        let question = Question {
            tool: &tool,
            server: server.as_ref(),
            arguments: arguments.raw.get(),
            rule: &verdict.rule,
        };
        let answer = tokio::select! {
            () = context.cancel.cancelled() => return Err(Rejection::Cancelled),
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

    async fn ask(&self, question: Question<'_>, key: Yes) -> Answer {
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

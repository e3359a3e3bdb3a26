//! Second stage: may it run? Only this file can make a [`Permit`], and only a permit is dispatched.

use std::collections::HashSet;
use std::sync::Arc;

use outrigger_connect::ServerName;
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
use crate::offers::Target;
use crate::outcome::Rejection;
use crate::policy::Call;

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

/// The tool, its definition, and the rule that asked, with the server that the call was about.
type Yes = (ToolName, Digest, String);

impl Host {
    pub(super) async fn authorize(
        &self,
        prepared: Prepared,
        context: &CallContext,
        line: &LedgerLine,
    ) -> Result<Permit, Rejection> {
        let Prepared {
            tool,
            arguments,
            say,
        } = prepared;
        let target = Target::of(&tool, arguments.raw.get());
        let verdict = self.policy().decide(&Call {
            subject: self.subject(&tool, target.as_ref()),
            arguments: arguments.raw.get(),
            principal: context.principal,
            origins: &self.origins(),
        });
        let (verdict, by) = say.with(verdict);
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
                decided(true, by, verdict.reason.clone());
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
        // A hook that asks is not answered by a yes that was given before.
        let anew = by == DecidedBy::Hook;
        let whose = target
            .as_ref()
            .map_or(&tool.server, |target| &target.server);
        let server = self.identity(whose);
        let key = (!anew).then(|| yes(&tool, &verdict.rule, whose));
        let question = Question {
            tool: &tool,
            server: server.as_ref(),
            arguments: arguments.raw.get(),
            rule: &verdict.rule,
            anew,
        };
        let answer = tokio::select! {
            () = context.cancel.cancelled() => return Err(Rejection::Cancelled),
            answer = self.ask(question, key) => answer,
        };
        let (by, reason, answered) = heard(answer, &verdict.rule);
        decided(answered.is_ok(), by, reason);
        answered.map(|()| Permit { tool, arguments })
    }

    async fn ask(&self, question: Question<'_>, key: Option<Yes>) -> Answer {
        let mut sessions = self.sessions().0.lock().await;
        if key.as_ref().is_some_and(|key| sessions.contains(key)) {
            return Answer::Session;
        }
        let asking = self.person().turn().await;
        let answer = self.approver().ask(question).await;
        drop(asking);
        if answer == Answer::Session {
            sessions.extend(key);
        }
        answer
    }
}

fn yes(tool: &CatalogTool, rule: &str, whose: &ServerName) -> Yes {
    (tool.name.clone(), tool.digest, format!("{rule} ({whose})"))
}

/// What an answer comes to: who is to be named for it, with what words, and whether the call may run.
fn heard(answer: Answer, rule: &str) -> (DecidedBy, Option<String>, Result<(), Rejection>) {
    match answer {
        Answer::Once | Answer::Session => (DecidedBy::Person, None, Ok(())),
        Answer::Granted { grant } => (DecidedBy::Grant, Some(grant), Ok(())),
        Answer::No { reason } => {
            let declined = Rejection::Declined {
                reason: reason.clone(),
            };
            (DecidedBy::Person, reason, Err(declined))
        }
        Answer::Nobody => {
            let rule = rule.to_owned();
            (
                DecidedBy::Nobody,
                None,
                Err(Rejection::NobodyToAsk { rule }),
            )
        }
    }
}

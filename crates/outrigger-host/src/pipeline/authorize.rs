//! Second stage: may it run? Only this file can make a [`Permit`], and only a permit is dispatched.

use std::collections::HashSet;
use std::sync::Arc;

use outrigger_connect::ServerName;
use outrigger_journal::{DecidedBy, Event};
use tokio::sync::Mutex;

use super::prepare::Prepared;
use super::unknown::Repeat;
use super::{CallContext, LedgerLine};
use crate::approve::{Answer, Question};
use crate::arguments::{Arguments, filled};
use crate::artifact::SCHEME;
use crate::catalog::CatalogTool;
use crate::config::Decision;
use crate::digest::Digest;
use crate::discovery::{self, Facility};
use crate::host::Host;
use crate::name::ToolName;
use crate::offers::Target;
use crate::outcome::Rejection;
use crate::policy::{Call, Origins, Verdict};

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
            repeats,
            ..
        } = prepared;
        let target = Target::of(&tool, arguments.raw.get());
        let verdict = self.decide(&tool, &arguments, target.as_ref(), context);
        let (verdict, by) = say.with(verdict);
        let verdict = with_repeat(verdict, repeats.as_ref());
        let decided = |allowed, by, reason| line.decided(&verdict.rule, allowed, by, reason);
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
        // A hook that asks is not answered by a yes that was given before; nor is this question, which
        // is about one call.
        let anew = by == DecidedBy::Hook || repeats.is_some();
        let whose = target
            .as_ref()
            .map_or(&tool.server, |target| &target.server);
        let server = self.identity(whose);
        let key = (!anew).then(|| yes(&tool, &verdict.rule, whose));
        let exact = exact(&arguments);
        let question = Question {
            run: &line.run,
            call: line.call,
            principal: context.principal,
            tool: &tool,
            server: server.as_ref(),
            arguments: arguments.raw.get(),
            exact: exact.as_deref().unwrap_or(arguments.raw.get()),
            artifacts: &arguments.artifacts,
            rule: &verdict.rule,
            anew,
            repeats: repeats.as_ref(),
        };
        let answer = tokio::select! {
            () = context.cancel.cancelled() => return Err(Rejection::Cancelled),
            answer = self.ask(question, key) => answer,
        };
        let (by, reason, answered) = heard(answer, &verdict.rule, repeats);
        decided(answered.is_ok(), by, reason);
        answered.map(|()| Permit { tool, arguments })
    }

    fn decide(
        &self,
        tool: &CatalogTool,
        arguments: &Arguments,
        target: Option<&Target>,
        context: &CallContext,
    ) -> Verdict {
        let mut subject = self.subject(tool, target);
        let wanted;
        match Facility::named(tool.name.as_str()) {
            None => {}
            // Rules about this server are about starting it too; without one, it is there to be started.
            Some(Facility::Connect) => {
                wanted = discovery::wanted_server(arguments.raw.get()).unwrap_or_default();
                subject.server = &wanted;
            }
            Some(_) => return Verdict::of_the_host(),
        }
        self.policy().decide(&Call {
            subject,
            arguments: arguments.raw.get(),
            principal: context.principal,
            origins: &self.origins(),
            args_from: &args_from(arguments),
        })
    }

    async fn ask(&self, question: Question<'_>, key: Option<Yes>) -> Answer {
        if !self.approver().is_one_person() {
            // Nobody's yes for a session is another's.
            return self.approver().ask(question).await;
        }
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

impl LedgerLine {
    fn decided(&self, rule: &str, allowed: bool, by: DecidedBy, reason: Option<String>) {
        self.run.record(Event::CallDecided {
            call: self.call,
            allowed,
            rule: rule.to_owned(),
            by,
            reason,
        });
    }
}

/// What the rule is called, with the call behind it, that asks about the repeat of an unknown call.
pub const SAME_IS_UNKNOWN: &str = "the outcome of the same call is unknown";

/// A call that was made before, and of which nobody knows what came, is made again only by somebody
/// who says so.
fn with_repeat(verdict: Verdict, repeats: Option<&Repeat>) -> Verdict {
    let Some(repeat) = repeats.filter(|_| verdict.decision != Decision::Deny) else {
        return verdict;
    };
    let of = if repeat.here {
        format!("call {}", repeat.of.call)
    } else {
        format!("call {} of {}", repeat.of.call, repeat.of.run)
    };
    Verdict {
        decision: Decision::Ask,
        rule: format!("{SAME_IS_UNKNOWN}: {of}"),
        reason: None,
    }
}

/// The servers that the artifacts in the arguments came from.
fn args_from(arguments: &Arguments) -> Origins {
    let artifacts = arguments.artifacts.iter();
    artifacts
        .flat_map(|given| given.origins.servers())
        .collect()
}

/// The arguments with the whole digest of each artifact, where there are any: what is said about calls
/// to come is said about these very contents.
fn exact(arguments: &Arguments) -> Option<String> {
    if arguments.artifacts.is_empty() {
        return None;
    }
    Some(filled::renamed(&arguments.raw, |digits| {
        let digests = arguments.artifacts.iter();
        let mut digests = digests.map(|given| given.artifact.digest.to_string());
        let digest = digests.find(|digest| digest.starts_with(digits))?;
        Some(format!("{SCHEME}{digest}"))
    }))
}

fn yes(tool: &CatalogTool, rule: &str, whose: &ServerName) -> Yes {
    (tool.name.clone(), tool.digest, format!("{rule} ({whose})"))
}

/// What an answer comes to: who is to be named for it, with what words, and whether the call may run.
fn heard(
    answer: Answer,
    rule: &str,
    repeats: Option<Repeat>,
) -> (DecidedBy, Option<String>, Result<(), Rejection>) {
    let (allowed, by, reason) = answer.heard();
    let end = if allowed {
        Ok(())
    } else if by == DecidedBy::Nobody {
        let rule = rule.to_owned();
        Err(repeats.map_or(Rejection::NobodyToAsk { rule }, Rejection::Repeats))
    } else {
        let reason = reason.clone();
        Err(Rejection::Declined { reason })
    };
    (by, reason, end)
}

//! Hooks: programs and addresses of the person's that hear of calls and sessions, and may have a say.
//!
//! Promises: a hook that fails, answers what cannot be read, or is too slow says no: the call is not
//! made, the result is withheld, the run does not begin. No hook opens what policy keeps shut.
//! Leaves out: starting programs and sending requests, which is the [`HookRunner`]'s, and the places
//! in a call's life at which hooks are run (`pipeline/hooked.rs`).

mod answer;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use globset::GlobMatcher;
use outrigger_journal::{DecidedBy, Event, HookSaid, Run};
use serde_json::json;

use crate::catalog::CatalogTool;
use crate::config::{Decision, HookEvent, HookSettings};
use crate::policy::{BadGlob, Verdict, glob};

pub(crate) use answer::{AfterAnswer, BeforeAnswer, Word, read};

/// Runs one hook. The only one there is starts programs and sends requests.
#[async_trait]
pub trait HookRunner: Send + Sync {
    /// Gives `input`, one JSON object, to the hook, and returns what it answered; the error says
    /// what went wrong, in words that complete "the hook …". Is dropped when the time is over, and
    /// must then leave nothing running.
    async fn run(&self, hook: &HookSettings, input: &str) -> Result<Heard, String>;
}

/// What came back from a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It ended well, and said this: JSON, or nothing at all.
    Said(String),
    /// It ended with exit code 2, the sign for no, and gave this reason.
    Blocked(String),
}

/// The hooks of a run.
pub struct Hooks {
    hooks: Vec<Hook>,
    runner: Option<Arc<dyn HookRunner>>,
}

struct Hook {
    settings: HookSettings,
    tool: Option<GlobMatcher>,
    server: Option<GlobMatcher>,
}

/// A hook that said no to a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{hook} does not let the run begin: {reason}")]
pub struct HookRefusal {
    /// The hook, as a person would find it.
    pub hook: String,
    /// Its reason, or why it failed.
    pub reason: String,
}

/// What hooks say together about whether a call may run.
#[derive(Debug, Default)]
pub(crate) struct Say {
    /// The strictest, with the hook and its reason. Never [`Decision::Deny`], which ends the call.
    decision: Option<(Decision, String, Option<String>)>,
}

impl Say {
    pub(crate) fn add(&mut self, decision: Decision, hook: &str, reason: Option<String>) {
        let stricter = self
            .decision
            .as_ref()
            .is_none_or(|(held, ..)| decision > *held);
        if stricter {
            self.decision = Some((decision, hook.to_owned(), reason));
        }
    }

    /// What policy says together with the hooks, and who is to be named for it. A hook may answer
    /// an ask, and may make one; it never lifts a deny.
    pub(crate) fn with(self, verdict: Verdict) -> (Verdict, DecidedBy) {
        let Some((decision, rule, reason)) = self.decision else {
            return (verdict, DecidedBy::Policy);
        };
        let answers = decision == Decision::Allow && verdict.decision == Decision::Ask;
        let asks = decision == Decision::Ask && verdict.decision != Decision::Deny;
        if !answers && !asks {
            return (verdict, DecidedBy::Policy);
        }
        let verdict = Verdict {
            decision,
            rule,
            reason,
        };
        (verdict, DecidedBy::Hook)
    }
}

/// How a hook fared.
pub(crate) struct Answered<T> {
    pub(crate) hook: String,
    /// The answer, or why there is none.
    pub(crate) answer: Result<Option<T>, Fault>,
    place: String,
    event: HookEvent,
    took: Duration,
}

/// Why there is no answer to go by.
pub(crate) enum Fault {
    /// Exit code 2, with its reason.
    Blocked(String),
    /// Everything else.
    Failed(String),
}

impl<T> Answered<T> {
    pub(crate) fn record(&self, run: &Run, call: Option<u32>, said: HookSaid, note: Note) {
        run.record(Event::HookRan {
            call,
            event: self.event.as_str().to_owned(),
            hook: self.place.clone(),
            said,
            changed: note.changed,
            reason: note.reason,
            took_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        });
    }
}

/// What is recorded of a hook besides its decision.
#[derive(Debug, Default)]
pub(crate) struct Note {
    pub(crate) changed: bool,
    pub(crate) reason: Option<String>,
}

impl Note {
    pub(crate) fn reason(reason: impl Into<String>) -> Self {
        Self {
            changed: false,
            reason: Some(reason.into()),
        }
    }
}

impl Fault {
    /// The sign and the words for the record; a failure counts as no.
    pub(crate) fn told(&self) -> (HookSaid, String) {
        match self {
            Self::Blocked(reason) => (HookSaid::Deny, reason.clone()),
            Self::Failed(why) => (HookSaid::Failed, format!("the hook {why}")),
        }
    }
}

impl Hooks {
    /// No hooks.
    pub fn none() -> Self {
        Self {
            hooks: Vec::new(),
            runner: None,
        }
    }

    /// These hooks, in this order, but for those of a project that is not trusted.
    pub fn new(settings: &[HookSettings], runner: Arc<dyn HookRunner>) -> Result<Self, BadGlob> {
        let compiled = |text: &Option<String>| text.as_deref().map(glob).transpose();
        let trusted = settings.iter().filter(|settings| settings.is_trusted());
        let hooks = trusted.map(|settings| {
            Ok(Hook {
                settings: settings.clone(),
                tool: compiled(&settings.tool)?,
                server: compiled(&settings.server)?,
            })
        });
        Ok(Self {
            hooks: hooks.collect::<Result<_, _>>()?,
            runner: Some(runner),
        })
    }

    /// The hooks for an event about a call of this tool, in their order.
    pub(crate) fn about<'h>(
        &'h self,
        event: HookEvent,
        tool: &'h CatalogTool,
    ) -> impl Iterator<Item = &'h HookSettings> {
        self.hooks.iter().filter_map(move |hook| {
            let fits = |glob: &Option<GlobMatcher>, name: &str| {
                glob.as_ref().is_none_or(|glob| glob.is_match(name))
            };
            let wanted = hook.settings.event == event
                && fits(&hook.tool, tool.name.as_str())
                && fits(&hook.server, tool.server.as_str());
            wanted.then_some(&hook.settings)
        })
    }

    /// Whether any hook is for this event.
    pub(crate) fn has(&self, event: HookEvent) -> bool {
        self.hooks.iter().any(|hook| hook.settings.event == event)
    }

    /// Runs the hooks for the start of a run, which `started` describes. One that says no, or fails,
    /// is the error.
    pub async fn session_start(&self, run: &Run, started: &Event) -> Result<(), HookRefusal> {
        for hook in self.of(HookEvent::SessionStart) {
            let input = about_session(HookEvent::SessionStart, run, started);
            let answered: Answered<answer::StartAnswer> = self.ask(hook, &input).await;
            let (said, reason) = match &answered.answer {
                Ok(Some(answer::StartAnswer { deny: true, reason })) => {
                    let reason = reason.clone();
                    (HookSaid::Deny, Some(reason.unwrap_or_else(no_reason)))
                }
                Ok(_) => (HookSaid::Nothing, None),
                Err(fault) => {
                    let (said, reason) = fault.told();
                    (said, Some(reason))
                }
            };
            let note = Note {
                changed: false,
                reason: reason.clone(),
            };
            answered.record(run, None, said, note);
            if let Some(reason) = reason {
                return Err(HookRefusal {
                    hook: answered.hook,
                    reason,
                });
            }
        }
        Ok(())
    }

    /// Runs the hooks for the end of a run, which `ended` describes. Nothing is held up by them; the
    /// failures are returned, in words.
    pub async fn session_end(&self, run: &Run, ended: &Event) -> Vec<String> {
        let mut failures = Vec::new();
        for hook in self.of(HookEvent::SessionEnd) {
            let input = about_session(HookEvent::SessionEnd, run, ended);
            let answered: Answered<answer::EndAnswer> = self.ask(hook, &input).await;
            match &answered.answer {
                Ok(_) => answered.record(run, None, HookSaid::Nothing, Note::default()),
                Err(fault) => {
                    let (_, reason) = fault.told();
                    failures.push(format!("{}: {reason}", answered.hook));
                    answered.record(run, None, HookSaid::Failed, Note::reason(reason));
                }
            }
        }
        failures
    }

    fn of(&self, event: HookEvent) -> impl Iterator<Item = &HookSettings> {
        let hooks = self.hooks.iter().map(|hook| &hook.settings);
        hooks.filter(move |hook| hook.event == event)
    }

    /// Runs one hook and reads its answer; `None`: it said nothing.
    pub(crate) async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        hook: &HookSettings,
        input: &str,
    ) -> Answered<T> {
        let began = Instant::now();
        let heard = match &self.runner {
            Some(runner) => tokio::time::timeout(hook.timeout, runner.run(hook, input)).await,
            None => Ok(Err("cannot be run here".to_owned())),
        };
        let answer = match heard {
            Err(_) => Err(Fault::Failed(format!(
                "gave no answer within {:.1} s",
                hook.timeout.as_secs_f64()
            ))),
            Ok(Err(why)) => Err(Fault::Failed(why)),
            Ok(Ok(Heard::Blocked(reason))) => {
                let reason = reason.trim();
                Err(Fault::Blocked(match reason {
                    "" => no_reason(),
                    _ => crate::text::shorten(reason, REASON_BYTES),
                }))
            }
            Ok(Ok(Heard::Said(text))) => read(&text).map_err(Fault::Failed),
        };
        Answered {
            hook: hook.to_string(),
            answer,
            place: hook.origin.to_string(),
            event: hook.event,
            took: began.elapsed(),
        }
    }
}

/// How much of a reason is passed on.
const REASON_BYTES: usize = 2000;

pub(crate) fn no_reason() -> String {
    "it gave no reason".to_owned()
}

/// What a hook is told about a session.
fn about_session(event: HookEvent, run: &Run, told: &Event) -> String {
    let mut input = json!({ "event": event.as_str(), "run": run.id().as_str() });
    let told = serde_json::to_value(told).unwrap_or_default();
    for key in [
        "command",
        "question",
        "model",
        "workspace",
        "status",
        "reason",
        "answer",
    ] {
        if let Some(value) = told.get(key) {
            input[key] = value.clone();
        }
    }
    input.to_string()
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.hooks.iter().map(|hook| &hook.settings);
        f.debug_list().entries(settings).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(decision: Decision) -> Verdict {
        Verdict {
            decision,
            rule: "the rule".to_owned(),
            reason: None,
        }
    }

    /// Policy and hooks together: what is decided, and whether the hook is named for it.
    fn together(policy: Decision, hooks: &[Decision]) -> (Decision, bool) {
        let mut say = Say::default();
        for decision in hooks {
            say.add(*decision, "the hook", None);
        }
        let (verdict, by) = say.with(verdict(policy));
        (verdict.decision, by == DecidedBy::Hook)
    }

    #[test]
    fn a_hook_answers_an_ask_and_never_lifts_a_deny() {
        use Decision::{Allow, Ask, Deny};
        for (policy, hooks, decided) in [
            (Allow, &[][..], (Allow, false)),
            (Ask, &[], (Ask, false)),
            (Ask, &[Allow], (Allow, true)),
            (Allow, &[Allow], (Allow, false)),
            (Allow, &[Ask], (Ask, true)),
            (Ask, &[Allow, Ask], (Ask, true)),
            (Ask, &[Ask, Allow], (Ask, true)),
            (Deny, &[Allow], (Deny, false)),
            (Deny, &[Ask], (Deny, false)),
        ] {
            assert_eq!(together(policy, hooks), decided, "{policy} with {hooks:?}");
        }
    }
}

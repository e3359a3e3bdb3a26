//! Which calls may run: rules, a default and a mode.
//!
//! Deny stands before ask, ask before allow, whatever the order of the rules. A project's own files
//! may tighten and never loosen. A rule that cannot be judged denies. What a server says about itself
//! decides nothing, unless a rule names it. Nothing here asks anybody or looks at a clock: the same
//! call gets the same answer.

mod decision;
mod expression;
mod facts;
mod layers;
mod replay;
mod rule;

use std::cell::OnceCell;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

pub use decision::{Considered, Explanation, Outlook, Verdict};
pub use expression::{BadCondition, Condition};
pub use facts::{
    Call, DataOrigin, NamedTool, OfferKind, Offered, Origins, Principal, Reach, Subject,
};
pub use replay::{Replayed, replay};
pub use rule::Effect;

use crate::catalog::CatalogTool;
use crate::config::{Decision, Mode, PolicyTable};
use expression::Facts;
use layers::{Vote, Winner};
use rule::Rule;

/// Rules, compiled; clones share them.
#[derive(Debug, Clone)]
pub struct Policy {
    default: Decision,
    mode: Mode,
    rules: Arc<[Rule]>,
    granted: Vec<(String, GlobMatcher)>,
    /// The name of the client whose calls are decided about; empty where it has none.
    client: Arc<str>,
}

/// A glob that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{glob}` is not a usable glob: {reason}")]
pub struct BadGlob {
    /// As written.
    pub glob: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A rule that is about a tool, and what it says.
struct Weighed<'p> {
    rule: &'p Rule,
    effect: Effect,
}

impl Weighed<'_> {
    /// What it votes, if it does.
    fn vote(&self) -> Option<Vote> {
        let decision = match self.effect {
            Effect::Applies => self.rule.decision,
            Effect::CannotEvaluate(_) => Decision::Deny,
            Effect::ConditionFalse | Effect::Depends | Effect::DoesNotCount => return None,
        };
        Some(Vote {
            decision,
            layer: self.rule.origin.layer,
            may_loosen: self.rule.may_loosen,
        })
    }
}

impl Policy {
    /// Compiles a table. `granted` are globs that a person gave for this run (`--allow`): they answer
    /// an ask, and never a deny. A rule that could not be read denies what it may have been about.
    pub fn new(table: &PolicyTable, granted: &[String]) -> Result<Self, BadGlob> {
        let rules = table.rules.iter().map(Rule::new);
        let granted = granted.iter().map(|text| Ok((text.clone(), glob(text)?)));
        Ok(Self {
            default: table.default.value,
            mode: table.mode.value,
            rules: rules.collect::<Result<_, BadGlob>>()?,
            granted: granted.collect::<Result<_, BadGlob>>()?,
            client: Arc::default(),
        })
    }

    /// The same rules for calls of a client of the gateway that has shown who it is.
    #[must_use]
    pub fn of_client(&self, name: &str) -> Self {
        Self {
            client: name.into(),
            ..self.clone()
        }
    }

    /// The same rules in another mode.
    #[must_use]
    pub fn in_mode(&self, mode: Mode) -> Self {
        Self {
            mode,
            ..self.clone()
        }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Decides about one call.
    pub fn decide(&self, call: &Call<'_>) -> Verdict {
        let weighed = self.weigh(&call.subject, Some(call));
        self.settle(&call.subject, &weighed).0
    }

    /// Decides about one call, and tells how.
    pub fn explain(&self, call: &Call<'_>) -> Explanation {
        self.explained(&call.subject, Some(call))
    }

    /// The same about a tool before any call. Conditions that read a call are left open, and the
    /// verdict is what holds where none of them is true; [`Policy::outlook`] has what can come.
    pub fn explain_tool(&self, subject: Subject<'_>) -> Explanation {
        self.explained(&subject, None)
    }

    fn explained(&self, subject: &Subject<'_>, call: Option<&Call<'_>>) -> Explanation {
        let weighed = self.weigh(subject, call);
        let (verdict, winner) = self.settle(subject, &weighed);
        let considered = |(index, Weighed { rule, effect }): (usize, &Weighed<'_>)| Considered {
            tools: rule.tools.clone(),
            when: rule.when.as_ref().map(ToString::to_string),
            decision: rule.decision,
            origin: rule.origin.clone(),
            effect: effect.clone(),
            won: winner == Some(index),
        };
        Explanation {
            verdict,
            rules: weighed.iter().enumerate().map(considered).collect(),
            fallback: self.fallback(subject),
        }
    }

    /// What can come of calls of a tool, as far as conditions can be judged. A tool whose outlook is
    /// deny is never called, whatever the arguments.
    pub fn outlook<'a>(&self, tool: impl Into<Subject<'a>>) -> Outlook {
        let subject = tool.into();
        let mut weighed = self.weigh(&subject, None);
        let base = self.settle(&subject, &weighed).0;
        let mut possible = vec![base.decision];
        let mut verdict = base;
        let open = open(&weighed);
        // A decision is made by one rule, or by one of a project on top of one of another.
        for (at, first) in open.iter().enumerate() {
            for second in &open[at..] {
                for index in [first, second] {
                    weighed[*index].effect = Effect::Applies;
                }
                let came = self.settle(&subject, &weighed).0;
                for index in [first, second] {
                    weighed[*index].effect = Effect::Depends;
                }
                possible.push(came.decision);
                if came.decision < verdict.decision {
                    verdict = came;
                }
            }
        }
        possible.sort_unstable();
        possible.dedup();
        Outlook { verdict, possible }
    }

    /// Whether *local* policy says that the tool only reads, so that its calls may overlap and may be
    /// repeated. The server's own hints count for built-in servers alone: those are ours.
    pub fn only_reads(&self, tool: &CatalogTool) -> bool {
        self.reads(&tool.into())
    }

    fn reads(&self, subject: &Subject<'_>) -> bool {
        let stated = |wanted: bool| {
            self.rules.iter().any(|rule| {
                rule.read_only == Some(wanted)
                    && (rule.may_loosen || !wanted)
                    && rule.is_about(subject)
            })
        };
        let builtin = subject.standing.builtin && subject.annotations.read_only == Some(true);
        !stated(false) && (stated(true) || subject.standing.read_only || builtin)
    }

    fn weigh(&self, subject: &Subject<'_>, call: Option<&Call<'_>>) -> Vec<Weighed<'_>> {
        // Facts cost more than all the rest, and most rules need none.
        let facts = OnceCell::new();
        let facts = || facts.get_or_init(|| Facts::new(subject, (self.mode, &self.client), call));
        let about = self.rules.iter().filter(|rule| rule.is_about(subject));
        about
            .map(|rule| Weighed {
                rule,
                effect: rule.effect(call.is_some(), facts),
            })
            .collect()
    }

    /// The verdict, and the index of the rule that decided.
    fn settle(&self, subject: &Subject<'_>, weighed: &[Weighed<'_>]) -> (Verdict, Option<usize>) {
        let (indices, votes): (Vec<usize>, Vec<Vote>) = weighed
            .iter()
            .enumerate()
            .filter_map(|(index, weighed)| Some((index, weighed.vote()?)))
            .unzip();
        let fallback = self.fallback(subject);
        let (decision, winner) = layers::settle(&votes, fallback.decision, self.mode);
        let index = match winner {
            Winner::Vote(vote) => indices.get(vote).copied(),
            Winner::Fallback => None,
        };
        let free = subject.is_by_hand() || self.reads(subject);
        if self.mode == Mode::Plan && decision != Decision::Deny && !free {
            return (planning(), None);
        }
        if decision == Decision::Ask
            && let Some(granted) = self.granted(subject)
        {
            return (granted, index);
        }
        let verdict = match index.and_then(|index| weighed.get(index)) {
            Some(weighed) => named(decision, weighed),
            None => fallback,
        };
        (verdict, index)
    }

    /// What a person said in advance.
    fn granted(&self, subject: &Subject<'_>) -> Option<Verdict> {
        let mut granted = self.granted.iter();
        let (text, _) = granted.find(|(_, glob)| glob.is_match(subject.name))?;
        Some(Verdict {
            decision: Decision::Allow,
            rule: format!("{GRANTED} {text}"),
            reason: None,
        })
    }

    /// What holds for a tool, prompt or resource that no rule names.
    fn fallback(&self, subject: &Subject<'_>) -> Verdict {
        let (decision, rule) = if subject.is_by_hand() {
            (Decision::Allow, "the person asked for it")
        } else if subject.standing.builtin {
            (Decision::Allow, "built-in tools may run")
        } else if self.reads(subject) && self.default != Decision::Deny {
            (
                Decision::Allow,
                "local configuration says that it only reads",
            )
        } else {
            (self.default, "the default of the policy")
        };
        Verdict {
            decision,
            rule: rule.to_owned(),
            reason: None,
        }
    }
}

/// How decisions name what a person said in advance.
const GRANTED: &str = "--allow";

impl Verdict {
    /// Whether a recorded rule was not a rule, but what a person said in advance (`--allow`), and so
    /// the answer to an ask.
    pub fn was_granted(rule: &str) -> bool {
        rule.strip_prefix(GRANTED)
            .is_some_and(|rest| rest.starts_with(' '))
    }
}

/// The rules that depend on the call, one of each kind: those of one kind do the same.
fn open(weighed: &[Weighed<'_>]) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut open = Vec::new();
    for (index, Weighed { rule, effect }) in weighed.iter().enumerate() {
        let kind = (rule.decision, rule.origin.layer, rule.may_loosen);
        if *effect == Effect::Depends && !seen.contains(&kind) {
            seen.push(kind);
            open.push(index);
        }
    }
    open
}

fn named(decision: Decision, weighed: &Weighed<'_>) -> Verdict {
    let rule = weighed.rule;
    let reason = match &weighed.effect {
        Effect::CannotEvaluate(reason) => Some(format!("its condition cannot be judged: {reason}")),
        _ => rule.reason.clone(),
    };
    Verdict {
        decision,
        rule: rule.label(),
        reason,
    }
}

fn planning() -> Verdict {
    Verdict {
        decision: Decision::Deny,
        rule: "the mode `plan`".to_owned(),
        reason: Some(
            "only tools that local configuration says only read may run while planning".to_owned(),
        ),
    }
}

/// A glob over names; `*` also matches what holds a `/`.
pub(crate) fn glob(text: &str) -> Result<GlobMatcher, BadGlob> {
    let bad = |reason: String| BadGlob {
        glob: text.to_owned(),
        reason,
    };
    if text.is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    let glob = GlobBuilder::new(text).literal_separator(false).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| bad(error.kind().to_string()))
}

//! One rule, compiled.

use globset::GlobMatcher;

use super::expression::{Condition, Facts};
use super::facts::{OfferKind, Subject};
use super::{BadGlob, glob};
use crate::config::{Decision, Origin, PolicyRule, ToolMatch};

/// A rule, ready to be asked.
#[derive(Debug)]
pub(super) struct Rule {
    tool: Option<GlobMatcher>,
    server: Option<GlobMatcher>,
    raw: Option<GlobMatcher>,
    prompt: Option<GlobMatcher>,
    resource: Option<GlobMatcher>,
    /// It could not be read far enough to tell what it is about.
    everything: bool,
    pub(super) when: Option<Condition>,
    pub(super) decision: Decision,
    pub(super) read_only: Option<bool>,
    pub(super) reason: Option<String>,
    /// Which tools, as it was written.
    pub(super) tools: String,
    pub(super) origin: Origin,
    /// It may open what is shut elsewhere.
    pub(super) may_loosen: bool,
}

/// What a rule has to say about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It applies.
    Applies,
    /// Its condition is false.
    ConditionFalse,
    /// Its condition cannot be judged, and so it denies. Says why.
    CannotEvaluate(String),
    /// Whether it applies depends on the call.
    Depends,
    /// It is an `allow` of a project that is not trusted, and so counts for nothing.
    DoesNotCount,
}

impl Rule {
    pub(super) fn new(rule: &PolicyRule) -> Result<Self, BadGlob> {
        let compile = |text: &Option<String>| text.as_deref().map(glob).transpose();
        Ok(Self {
            tool: compile(&rule.tools.tool)?,
            server: compile(&rule.tools.server)?,
            raw: compile(&rule.tools.raw)?,
            prompt: compile(&rule.tools.prompt)?,
            resource: compile(&rule.tools.resource)?,
            everything: rule.broken && rule.tools == ToolMatch::tool("*"),
            when: rule.when.clone(),
            decision: if rule.broken {
                Decision::Deny
            } else {
                rule.decision
            },
            read_only: rule.read_only,
            reason: rule.reason.clone(),
            tools: rule.tools.to_string(),
            origin: rule.origin.clone(),
            may_loosen: rule.origin.layer.may_loosen(),
        })
    }

    /// Whether it is about this tool, prompt or resource. One that names only a server is about all
    /// that the server has.
    pub(super) fn is_about(&self, subject: &Subject<'_>) -> bool {
        let matches = |glob: &Option<GlobMatcher>, text: &str| {
            glob.as_ref().is_none_or(|glob| glob.is_match(text))
        };
        if self.everything {
            return true;
        }
        if self.prompt.is_some() || self.resource.is_some() {
            let Some(offered) = &subject.offered else {
                return false;
            };
            let glob = match offered.kind {
                OfferKind::Prompt => &self.prompt,
                OfferKind::Resource => &self.resource,
            };
            let place = format!("{}/{}", offered.server, offered.name);
            return glob.as_ref().is_some_and(|glob| glob.is_match(&place))
                && matches(&self.server, offered.server);
        }
        if self.tool.is_some() || self.raw.is_some() {
            return subject.is_tool()
                && matches(&self.tool, subject.name)
                && matches(&self.server, subject.server)
                && matches(&self.raw, subject.raw);
        }
        let servers = [
            Some(subject.server),
            subject.offered.map(|offered| offered.server),
        ];
        let mut servers = servers.into_iter().flatten();
        servers.any(|server| matches(&self.server, server))
    }

    /// What it says; `facts` are made where they are needed. Without a call, conditions that read
    /// one are left open.
    pub(super) fn effect<'f>(&self, call_known: bool, facts: impl FnOnce() -> &'f Facts) -> Effect {
        if self.decision == Decision::Allow && !self.may_loosen {
            return Effect::DoesNotCount;
        }
        match &self.when {
            None => Effect::Applies,
            Some(condition) if condition.reads_call() && !call_known => Effect::Depends,
            Some(condition) => match condition.holds(facts()) {
                Ok(true) => Effect::Applies,
                Ok(false) => Effect::ConditionFalse,
                Err(reason) => Effect::CannotEvaluate(reason),
            },
        }
    }

    /// How decisions name it.
    pub(super) fn label(&self) -> String {
        format!("{} at {}", self.tools, self.origin)
    }
}

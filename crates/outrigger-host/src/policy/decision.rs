//! What policy says, as data: about one call, about a tool before any call, and how it came to it.

use std::fmt;

use super::rule::Effect;
use crate::config::{Decision, Origin};

/// What policy says about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Allow, ask or deny.
    pub decision: Decision,
    /// The rule that decided, as a person would find it.
    pub rule: String,
    /// The reason written with the rule, or why its condition could not be judged.
    pub reason: Option<String>,
}

/// What policy says about a tool before a call is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The most open of what can come.
    pub verdict: Verdict,
    /// All that can come, from the most open; more than one where it depends on the call.
    pub possible: Vec<Decision>,
}

/// How policy came to what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What it says.
    pub verdict: Verdict,
    /// The rules that are about the tool, in the order of their layers and places.
    pub rules: Vec<Considered>,
    /// What would hold without any rule, and why.
    pub fallback: Verdict,
}

/// One rule that is about the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// Which tools it is about, as written.
    pub tools: String,
    /// Its condition.
    pub when: Option<String>,
    /// What it decides where it applies.
    pub decision: Decision,
    /// Where it was written.
    pub origin: Origin,
    /// What it has to say here.
    pub effect: Effect,
    /// Whether it decided.
    pub won: bool,
}

impl Verdict {
    /// The host's own tools tell of what may be used anyway, and do nothing: no rule is about them.
    pub(crate) fn of_the_host() -> Self {
        Self {
            decision: Decision::Allow,
            rule: "the host's own tool".to_owned(),
            reason: None,
        }
    }
}

impl Outlook {
    /// Whether the same tool can be treated differently from call to call.
    pub fn depends(&self) -> bool {
        self.possible.len() > 1
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.decision, self.rule)
    }
}

/// `ask`, or `allow or deny, by the call`.
impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, decision) in self.possible.iter().enumerate() {
            let before = if index == 0 { "" } else { " or " };
            write!(f, "{before}{decision}")?;
        }
        if self.depends() {
            f.write_str(", by the call")?;
        }
        Ok(())
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applies => f.write_str("applies"),
            Self::ConditionFalse => f.write_str("its condition is false"),
            Self::CannotEvaluate(reason) => {
                write!(f, "denies: its condition cannot be judged: {reason}")
            }
            Self::Depends => f.write_str("depends on the call"),
            Self::DoesNotCount => {
                f.write_str("does not count: an `allow` in a file of a project that is not trusted")
            }
        }
    }
}

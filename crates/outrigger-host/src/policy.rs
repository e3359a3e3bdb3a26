//! Which tools may run: a table of globs over model-facing names, and a default.
//!
//! Deny stands before ask, ask before allow, whatever the order of the rules. A project's own files
//! may tighten and never loosen. What a server says about itself decides nothing.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

use crate::catalog::CatalogTool;
use crate::config::{Decision, PolicyTable};

/// Rules, compiled.
#[derive(Debug, Default)]
pub struct Policy {
    default: Option<Decision>,
    rules: Vec<Rule>,
    read_only: Vec<(GlobMatcher, bool)>,
    granted: Vec<(String, GlobMatcher)>,
}

#[derive(Debug)]
struct Rule {
    glob: GlobMatcher,
    decision: Decision,
    label: String,
    reason: Option<String>,
}

/// What policy says about one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Allow, ask or deny.
    pub decision: Decision,
    /// The rule that decided, as a person would find it.
    pub rule: String,
    /// The reason written with the rule.
    pub reason: Option<String>,
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

impl Policy {
    /// Compiles a table. `granted` are globs that a person gave for this run (`--allow`): they answer
    /// an ask, and never a deny. A rule that could not be read denies what it may have been about.
    pub fn new(table: &PolicyTable, granted: &[String]) -> Result<Self, BadGlob> {
        let mut policy = Self {
            default: Some(table.default.value),
            ..Self::default()
        };
        for rule in &table.rules {
            let loosens = rule.origin.layer.may_loosen();
            if let Some(read_only) = rule.read_only.filter(|read_only| loosens || !read_only) {
                policy.read_only.push((glob(&rule.tool)?, read_only));
            }
            let decision = if rule.broken {
                Decision::Deny
            } else {
                rule.decision
            };
            if decision == Decision::Allow && !loosens {
                continue;
            }
            policy.rules.push(Rule {
                glob: glob(&rule.tool)?,
                decision,
                label: format!("`{}` at {}", rule.tool, rule.origin),
                reason: rule.reason.clone(),
            });
        }
        for text in granted {
            policy.granted.push((text.clone(), glob(text)?));
        }
        Ok(policy)
    }

    /// Decides about one tool.
    pub fn decide(&self, tool: &CatalogTool) -> Verdict {
        let verdict = self.by_rules(tool);
        if verdict.decision != Decision::Ask {
            return verdict;
        }
        let granted = self
            .granted
            .iter()
            .find(|(_, glob)| glob.is_match(tool.name.as_str()));
        match granted {
            Some((text, _)) => Verdict {
                decision: Decision::Allow,
                rule: format!("--allow {text}"),
                reason: None,
            },
            None => verdict,
        }
    }

    /// Whether *local* policy says that the tool only reads, so that its calls may overlap and may be
    /// repeated. The server's own hints count for built-in servers alone: those are ours.
    pub fn only_reads(&self, tool: &CatalogTool) -> bool {
        let stated = |wanted: bool| {
            self.read_only
                .iter()
                .any(|(glob, stated)| *stated == wanted && glob.is_match(tool.name.as_str()))
        };
        let builtin = tool.standing.builtin && tool.annotations.read_only == Some(true);
        !stated(false) && (stated(true) || tool.standing.read_only || builtin)
    }

    fn by_rules(&self, tool: &CatalogTool) -> Verdict {
        for decision in [Decision::Deny, Decision::Ask, Decision::Allow] {
            let rule = self
                .rules
                .iter()
                .find(|rule| rule.decision == decision && rule.glob.is_match(tool.name.as_str()));
            if let Some(rule) = rule {
                return Verdict {
                    decision,
                    rule: rule.label.clone(),
                    reason: rule.reason.clone(),
                };
            }
        }
        let (decision, rule) = if tool.standing.builtin {
            (Decision::Allow, "built-in tools may run")
        } else if self.only_reads(tool) && self.default != Some(Decision::Deny) {
            (
                Decision::Allow,
                "local configuration says that it only reads",
            )
        } else {
            (
                self.default.unwrap_or(Decision::Ask),
                "the default of the policy",
            )
        };
        Verdict {
            decision,
            rule: rule.to_owned(),
            reason: None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.decision, self.rule)
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

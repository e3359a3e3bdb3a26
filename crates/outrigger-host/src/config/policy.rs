//! The policy as configured: a default and a table of rules, each knowing its line. What a rule
//! does to a call is decided elsewhere.

use std::fmt;

use super::origin::{Origin, Setting};

/// What policy says about a call, from the most open to the most strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked; without one it is refused.
    Ask,
    /// It never runs.
    Deny,
}

impl Decision {
    /// Reads a word. Besides `allow`, `ask` and `deny` those of older systems are read, and mean
    /// what they meant: `auto` ran by itself; `suggest`, `approve` and `confirm` waited for a person.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "allow" | "auto" => Some(Self::Allow),
            "ask" | "suggest" | "approve" | "confirm" => Some(Self::Ask),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }

    /// The word that configuration uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One line of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// A glob over the name the model sees (`mcp__fs__*`). It always compiles with `globset`.
    pub tool: String,
    /// What it decides.
    pub decision: Decision,
    /// Why, for whoever is refused.
    pub reason: Option<String>,
    /// The person's statement that the matching tools change nothing.
    pub read_only: Option<bool>,
    /// Set when the rule could not be read. Such a rule denies what its glob matches, or
    /// everything when the glob is what is broken; `Config::problems` says why.
    pub broken: bool,
    /// Where it was written.
    pub origin: Origin,
}

/// The whole policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTable {
    /// What happens to a tool that no rule names. A project file can make it stricter, and not
    /// more open.
    pub default: Setting<Decision>,
    /// The rules: managed files first, then `--config`, user and project; in a file as written.
    /// The order decides only which of several equally strict rules is named.
    pub rules: Vec<PolicyRule>,
}

impl Default for PolicyTable {
    fn default() -> Self {
        Self {
            default: Setting::builtin(Decision::Ask),
            rules: Vec::new(),
        }
    }
}

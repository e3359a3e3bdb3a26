//! The policy as configured: a default, a mode and a table of rules, each knowing its place. What
//! a rule does to a call is decided elsewhere.

use std::fmt;

use super::origin::{Origin, Setting};
use super::project::Brought;
use crate::policy::Condition;

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

/// How freely a run may act, from the most open to the most strict. No mode opens what a rule
/// denies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A call that a rule allows runs also where another rule asks, unless that one stands in a
    /// stronger layer.
    Auto,
    /// The rules as they stand.
    #[default]
    Default,
    /// Only tools that local configuration says only read.
    Plan,
}

impl Mode {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Plan, Self::Default, Self::Auto];

    /// Reads a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// The word that configuration and conditions use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Default => "default",
            Self::Plan => "plan",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a rule is about: tools, or prompts, or resources. All that is given must match. Every glob
/// compiles with `globset`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolMatch {
    /// A glob over the name the model sees (`mcp__fs__*`).
    pub tool: Option<String>,
    /// A glob over the configured name of the server.
    pub server: Option<String>,
    /// A glob over the server's own name for the tool.
    pub raw: Option<String>,
    /// A glob over `SERVER/PROMPT`.
    pub prompt: Option<String>,
    /// A glob over `SERVER/URI`.
    pub resource: Option<String>,
}

impl ToolMatch {
    /// Tools by the name the model sees.
    pub(crate) fn tool(glob: impl Into<String>) -> Self {
        Self {
            tool: Some(glob.into()),
            ..Self::default()
        }
    }

    /// Whether globs for tools stand beside globs for something else: nothing is both.
    pub(crate) fn mixes(&self) -> bool {
        let tools = self.tool.is_some() || self.raw.is_some();
        let (prompt, resource) = (self.prompt.is_some(), self.resource.is_some());
        u8::from(tools) + u8::from(prompt) + u8::from(resource) > 1
    }

    /// The globs in words, without marks around them.
    pub(crate) fn plain(&self) -> String {
        self.to_string().replace('`', "")
    }
}

/// As decisions name it: `` `mcp__fs__*` ``, ``raw `write` of server `fs` ``.
impl fmt::Display for ToolMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        if let Some(tool) = &self.tool {
            write!(f, "`{tool}`")?;
            before = " ";
        }
        if let Some(raw) = &self.raw {
            write!(f, "{before}raw `{raw}`")?;
            before = " ";
        }
        for (kind, glob) in [("prompt", &self.prompt), ("resource", &self.resource)] {
            if let Some(glob) = glob {
                write!(f, "{before}{kind} `{glob}`")?;
                before = " ";
            }
        }
        if let Some(server) = &self.server {
            let of = if before.is_empty() { "" } else { "of " };
            write!(f, "{before}{of}server `{server}`")?;
        }
        Ok(())
    }
}

/// One rule of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// Which tools it is about.
    pub tools: ToolMatch,
    /// Which of their calls; `None`: all.
    pub when: Option<Condition>,
    /// What it decides.
    pub decision: Decision,
    /// Why, for whoever is refused.
    pub reason: Option<String>,
    /// The person's statement that the matching tools change nothing.
    pub read_only: Option<bool>,
    /// Set when the rule could not be read. Such a rule denies what it would be about as far as that
    /// could be read, or everything; `Config::problems` says why.
    pub broken: bool,
    /// Where it was written.
    pub origin: Origin,
}

impl PolicyRule {
    /// Whether it decides anything. An `allow` of a project that is not trusted does not.
    pub fn counts(&self) -> bool {
        self.broken || self.decision != Decision::Allow || self.origin.layer.may_loosen()
    }
}

/// The whole policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTable {
    /// What happens to a tool that no rule names. A project file can make it stricter, and not
    /// more open.
    pub default: Setting<Decision>,
    /// How freely a run may act, unless it is told otherwise. A project file can make it stricter,
    /// and not more open.
    pub mode: Setting<Mode>,
    /// The mode of a managed file: nothing makes it more open, `--mode` included.
    pub managed_mode: Option<Setting<Mode>>,
    /// The rules: managed files first, then `--config`, a trusted project's, the user's, and those of
    /// a project that is not trusted; in a file as written.
    /// The order decides only which of several equally strict rules is named.
    pub rules: Vec<PolicyRule>,
    /// What files of the project would make more open, or have, besides rules.
    pub opened: Vec<Brought>,
}

/// A mode that is more open than a managed file lets it be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the mode cannot be `{wanted}`: `policy.mode` is `{}` at {}, in a managed file", managed.value, managed.origin)]
pub struct ModeRefused {
    /// What was wanted.
    pub wanted: Mode,
    /// What holds.
    pub managed: Setting<Mode>,
}

impl PolicyTable {
    /// Chooses the mode of a run, as `--mode` does. It stands above what files say, except that a
    /// managed file's mode cannot be made more open.
    pub fn choose_mode(&mut self, wanted: Mode) -> Result<(), ModeRefused> {
        match &self.managed_mode {
            Some(managed) if wanted < managed.value => Err(ModeRefused {
                wanted,
                managed: managed.clone(),
            }),
            _ => {
                self.mode.value = wanted;
                Ok(())
            }
        }
    }
}

impl Default for PolicyTable {
    fn default() -> Self {
        Self {
            default: Setting::builtin(Decision::Ask),
            mode: Setting::builtin(Mode::Default),
            managed_mode: None,
            rules: Vec::new(),
            opened: Vec::new(),
        }
    }
}

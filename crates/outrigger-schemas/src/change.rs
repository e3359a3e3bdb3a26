//! What a compiled schema says differently, for people to read.

use std::fmt;

use serde::Serialize;

/// One difference between the server's schema and the compiled one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where, as a JSON pointer (RFC 6901) into the server's schema; empty for the whole.
    pub path: String,
    /// What was done.
    pub what: String,
    /// Why the family made it necessary.
    pub why: String,
    /// What it does to the arguments that a model may write.
    pub effect: Effect,
}

/// What a change does to the arguments that a model may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The same arguments, said in other words.
    Same,
    /// More than the server takes; the host finds what does not fit.
    Looser,
    /// Less than the server would take.
    Narrower,
}

impl Effect {
    /// One word for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Looser => "looser",
            Self::Narrower => "narrower",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        write!(
            f,
            "{path}: {} ({}; {})",
            self.what,
            self.why,
            self.effect.as_str()
        )
    }
}

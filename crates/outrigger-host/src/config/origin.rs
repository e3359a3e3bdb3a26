//! Where a configured value was written. The order of [`Layer`] is the order of precedence, so
//! "the nearer one wins" is `max`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who wrote a file, from the farthest to the nearest. A nearer layer replaces a farther one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The program's own defaults.
    Builtin,
    /// The person's configuration folder.
    User,
    /// Files that come with the project, so often with somebody else's checkout.
    Project,
    /// The same, of a project that the person trusts as it stands.
    TrustedProject,
    /// `--config FILE`.
    Explicit,
    /// The folder of whoever looks after the machine. Nobody overrides it.
    Managed,
}

impl Layer {
    /// Whether what this layer says may start something, or open something that another layer keeps
    /// shut. A project file comes with a checkout, so it may only tighten until it is trusted.
    pub fn may_loosen(self) -> bool {
        self != Self::Project
    }

    /// The layer in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::User => "user",
            Self::Project => "project",
            Self::TrustedProject => "trusted project",
            Self::Explicit => "explicit",
            Self::Managed => "managed",
        }
    }
}

/// The place of a configured value. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Who wrote it.
    pub layer: Layer,
    /// The file; empty for [`Layer::Builtin`].
    pub file: Arc<Path>,
    /// The line; 0 for [`Layer::Builtin`].
    pub line: u32,
    /// The column; 0 for [`Layer::Builtin`].
    pub column: u32,
}

impl Origin {
    /// The place of a default that no file changed.
    pub fn builtin() -> Self {
        Self {
            layer: Layer::Builtin,
            file: PathBuf::new().into(),
            line: 0,
            column: 0,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Layer::Builtin => f.write_str("default"),
            _ => write!(f, "{}:{}", self.file.display(), self.line),
        }
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// A value that no file changed.
    pub(crate) fn builtin(value: T) -> Self {
        Self {
            value,
            origin: Origin::builtin(),
        }
    }

    /// Takes over a value that was written at least as near.
    pub(crate) fn replace(&mut self, nearer: Self) {
        if nearer.origin.layer >= self.origin.layer {
            *self = nearer;
        }
    }
}

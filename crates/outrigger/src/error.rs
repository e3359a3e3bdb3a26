//! A failure worded for the person: what, and what to do about it. Its kind is the exit code.

use std::process::ExitCode;

/// The exit codes, as `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Refused = 3,
    Unavailable = 4,
    Unknown = 5,
    Interrupted = 130,
}

impl Exit {
    const ALL: [Self; 7] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Refused,
        Self::Unavailable,
        Self::Unknown,
        Self::Interrupted,
    ];

    /// The exit code that a command came to.
    pub(crate) fn of(ended: &Result<ExitCode, CommandError>) -> u8 {
        let exit = match ended {
            Ok(code) => Self::ALL
                .into_iter()
                .find(|exit| ExitCode::from(*exit) == *code),
            Err(error) => Some(error.exit),
        };
        exit.unwrap_or(Self::Failed) as u8
    }
}

/// Why a command did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    pub(crate) error: String,
    /// What to do next, most useful first.
    pub(crate) hints: Vec<String>,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, error: impl Into<String>) -> Self {
        Self {
            exit,
            error: error.into(),
            hints: Vec::new(),
        }
    }

    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self::new(Exit::Failed, error)
    }

    pub(crate) fn usage(error: impl Into<String>) -> Self {
        Self::new(Exit::Usage, error)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Hints at names that may have been meant; where none is near, at what else to do.
    pub(crate) fn did_you_mean(self, near: &[&str], otherwise: &str) -> Self {
        if near.is_empty() {
            return self.hint(otherwise);
        }
        let near: Vec<_> = near.iter().map(|name| format!("`{name}`")).collect();
        self.hint(format!("did you mean {}?", near.join(" or ")))
    }

    pub(crate) fn hints(mut self, hints: impl IntoIterator<Item = String>) -> Self {
        self.hints.extend(hints);
        self
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<outrigger_journal::JournalError> for CommandError {
    fn from(error: outrigger_journal::JournalError) -> Self {
        if let outrigger_journal::JournalError::Ambiguous { .. } = error {
            return Self::usage(error.to_string());
        }
        Self::failed(error.to_string()).hint(
            "every call is recorded; without a journal nothing is called. `--state-dir DIR` puts it elsewhere",
        )
    }
}

impl From<outrigger_journal::ArtifactError> for CommandError {
    fn from(error: outrigger_journal::ArtifactError) -> Self {
        use outrigger_journal::ArtifactError;
        match error {
            ArtifactError::Journal(error) => error.into(),
            ArtifactError::NoSuch { .. } | ArtifactError::NotAHandle { .. } => {
                Self::usage(error.to_string()).hint("`outrigger artifacts list` lists them")
            }
            ArtifactError::Ambiguous { .. } => Self::usage(error.to_string()),
            error => Self::failed(error.to_string()),
        }
    }
}

impl From<outrigger_host::policy::BadGlob> for CommandError {
    fn from(error: outrigger_host::policy::BadGlob) -> Self {
        Self::usage(error.to_string()).hint("for example `--allow 'mcp__files__*'`")
    }
}

impl From<outrigger_host::config::Unresolved> for CommandError {
    fn from(error: outrigger_host::config::Unresolved) -> Self {
        Self::failed(error.reason).hints(error.hint)
    }
}

impl From<outrigger_host::config::ModeRefused> for CommandError {
    fn from(error: outrigger_host::config::ModeRefused) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(format!("the output cannot be written: {error}"))
    }
}

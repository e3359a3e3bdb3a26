//! Why a server was set aside, worded for a person.

use outrigger_connect::{ConnectError, ConnectErrorKind, ListError, SignedOff};
use outrigger_journal::{JournalError, Redactor};

/// Why a server was set aside.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// How far it came: `config`, `start`, `handshake`, `list`, `call`.
    pub stage: String,
    /// One sentence.
    pub error: String,
    /// What a person could do.
    pub hints: Vec<String>,
    /// Last lines of its standard error.
    pub stderr_tail: Vec<String>,
}

/// The kinds of [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The configuration of the server cannot be used.
    Config,
    /// It comes with a project that is not trusted.
    NeedsTrust,
    /// It could not be connected to.
    Connect(ConnectErrorKind),
    /// It could not be listed.
    List,
    /// The connection ended.
    Ended,
    /// As many servers run as may.
    Busy,
    /// It may run in one place at a time, and runs elsewhere.
    Elsewhere,
    /// It refused what it was sent to know us by, after it had been ready.
    SignedOff,
}

impl Failure {
    /// A server that fails often says why with its secrets in it.
    pub(super) fn without(mut self, secrets: &Redactor) -> Self {
        let texts = self.hints.iter_mut().chain(&mut self.stderr_tail);
        for text in texts.chain([&mut self.error]) {
            *text = secrets.redact(text).into_owned();
        }
        self
    }

    /// Whether it could be used again by somebody signing in.
    pub fn wants_sign_in(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::SignedOff | FailureKind::Connect(ConnectErrorKind::AuthRequired)
        )
    }

    pub(super) fn signed_off(SignedOff { message, hint }: SignedOff) -> Self {
        let token = || "give the server another token in `headers`".to_owned();
        Self {
            kind: FailureKind::SignedOff,
            stage: "call".to_owned(),
            error: format!("it does not take what it knew us by any more: {message}"),
            hints: vec![hint.unwrap_or_else(token)],
            stderr_tail: Vec::new(),
        }
    }

    pub(super) fn config(error: String, hints: Vec<String>) -> Self {
        Self {
            kind: FailureKind::Config,
            stage: "config".to_owned(),
            error,
            hints,
            stderr_tail: Vec::new(),
        }
    }

    pub(super) fn busy(most: usize) -> Self {
        Self {
            kind: FailureKind::Busy,
            stage: "start".to_owned(),
            error: format!(
                "busy: as many servers run as may (`limits.max_servers` is {most}), and this one waits for one of them to end"
            ),
            hints: Vec::new(),
            stderr_tail: Vec::new(),
        }
    }

    /// `who`: a clause that says who has it, or is to.
    pub(super) fn elsewhere(who: &str) -> Self {
        Self {
            kind: FailureKind::Elsewhere,
            stage: "start".to_owned(),
            error: format!("busy: it may run in one place at a time (`single`), and {who}"),
            hints: vec![
                "a call here gets it as soon as no call of others is under way there".to_owned(),
            ],
            stderr_tail: Vec::new(),
        }
    }

    pub(super) fn no_lease(error: &JournalError) -> Self {
        Self {
            kind: FailureKind::Elsewhere,
            stage: "start".to_owned(),
            error: format!(
                "it may run in one place at a time (`single`), and it is not known where it runs: {error}"
            ),
            hints: Vec::new(),
            stderr_tail: Vec::new(),
        }
    }

    pub(super) fn no_leases() -> Self {
        Self::config(
            "it may run in one place at a time (`single`), and nothing is recorded here, so nobody would know"
                .to_owned(),
            vec!["remove `single`, or use a command that records".to_owned()],
        )
    }

    pub(super) fn needs_trust() -> Self {
        Self {
            kind: FailureKind::NeedsTrust,
            ..Self::config(
                "it comes with this folder, which is not trusted; it was not started".to_owned(),
                vec![
                    "`outrigger trust` shows what the folder brings and asks; `--trust-project` trusts it for one run"
                        .to_owned(),
                ],
            )
        }
    }

    pub(super) fn list(error: &ListError, stderr_tail: Vec<String>) -> Self {
        let kind = match error {
            ListError::Closed(_) => FailureKind::Ended,
            _ => FailureKind::List,
        };
        Self {
            kind,
            stage: "list".to_owned(),
            error: error.to_string(),
            hints: match error {
                ListError::Timeout { .. } => {
                    vec!["if it only lists slowly, raise its `list` deadline".to_owned()]
                }
                _ => Vec::new(),
            },
            stderr_tail,
        }
    }

    /// Outrigger's own.
    pub(super) fn fault() -> Self {
        Self {
            kind: FailureKind::Ended,
            stage: "call".to_owned(),
            error: "Outrigger came upon a fault of its own while it looked after this server, and said more on its \
                standard error"
                .to_owned(),
            hints: vec![
                "start Outrigger again to use the server; a report of what it said is welcome"
                    .to_owned(),
            ],
            stderr_tail: Vec::new(),
        }
    }

    pub(super) fn ended(reason: &str, stderr_tail: Vec<String>) -> Self {
        let (kind, stage) = (FailureKind::Ended, "call".to_owned());
        Self {
            kind,
            stage,
            error: format!("the connection ended: {reason}"),
            hints: Vec::new(),
            stderr_tail,
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self {
            kind: FailureKind::Connect(error.kind),
            stage: error.stage.to_string(),
            error: error.message,
            hints: error.hints,
            stderr_tail: error.stderr_tail,
        }
    }
}

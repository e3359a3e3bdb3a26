//! Why a prompt or a resource was not to be had, worded for a person.

use outrigger_connect::{CallError, ListError, ServerName};

/// A prompt or resource that was not fetched, or a list that was not to be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OfferError {
    /// No server of that name.
    #[error("there is no server `{}`", name.escape_debug())]
    NoServer {
        /// The name as written.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The server is not there.
    #[error("the server `{server}` is not available: {reason}")]
    NotReady {
        /// The server.
        server: ServerName,
        /// Why.
        reason: String,
        /// Somebody has to sign in first.
        signed_off: bool,
    },
    /// The server does not have such things.
    #[error("the server `{server}` offers no {what}")]
    Nothing {
        /// The server.
        server: ServerName,
        /// What.
        what: &'static str,
    },
    /// The list could not be had, or a resource not followed.
    #[error("the server `{server}`: {error}")]
    Listing {
        /// The server.
        server: ServerName,
        /// Why.
        error: ListError,
    },
    /// No prompt of that name.
    #[error("the server `{server}` has no prompt `{}`", prompt.escape_debug())]
    NoPrompt {
        /// The server.
        server: ServerName,
        /// The name as written.
        prompt: String,
        /// Names that are near.
        nearest: Vec<String>,
    },
    /// Its definition cannot be used.
    #[error("the prompt `{}` of `{server}` was set aside: {reason}", prompt.escape_debug())]
    SetAside {
        /// The server.
        server: ServerName,
        /// The prompt.
        prompt: String,
        /// Why.
        reason: String,
    },
    /// Arguments that it needs, or does not know.
    #[error("the prompt `{prompt}` of `{server}` {what}")]
    Arguments {
        /// The server.
        server: ServerName,
        /// The prompt.
        prompt: String,
        /// `needs …`, `has no …`.
        what: String,
        /// Those that are missing.
        missing: Vec<String>,
    },
    /// What was written is no address.
    #[error("`{}` is no address of a resource: {reason}", uri.escape_debug())]
    BadAddress {
        /// As written.
        uri: String,
        /// What is wrong.
        reason: String,
    },
    /// A rule denies it.
    #[error("{what} is denied by {rule}{}", because(reason.as_deref()))]
    Denied {
        /// What was wanted.
        what: String,
        /// The rule.
        rule: String,
        /// The reason written with it.
        reason: Option<String>,
    },
    /// A rule asks, and nobody is there.
    #[error("{what} was not fetched: {rule} asks, and nobody is there to answer{}", because(reason.as_deref()))]
    NobodyToAsk {
        /// What was wanted.
        what: String,
        /// The rule.
        rule: String,
        /// Why nobody has answered, where somebody was asked.
        reason: Option<String>,
    },
    /// A rule asks, and a person says no.
    #[error("{what} was not fetched: a person declined it{}", because(reason.as_deref()))]
    Declined {
        /// What was wanted.
        what: String,
        /// What the person said with it.
        reason: Option<String>,
    },
    /// A rule asks, and whoever wanted it gave it up before anybody answered, or before its server was there again.
    #[error("{what} was not fetched: it was given up, and nothing was sent")]
    GivenUp {
        /// What was wanted.
        what: String,
    },
    /// It was asked for, and did not come.
    #[error("{what}: {error}")]
    Fetch {
        /// What was wanted.
        what: String,
        /// Why.
        error: CallError,
    },
    /// What came is not what was asked for.
    #[error("{what}: the answer of the server cannot be used: {reason}")]
    Malformed {
        /// What was wanted.
        what: String,
        /// What is wrong.
        reason: String,
    },
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferErrorKind {
    /// There is no such thing, or not like that.
    Usage,
    /// Policy says no, or nobody was there.
    Refused,
    /// The server is not there.
    Unavailable,
    /// The server answered, with no use.
    Failed,
    /// The caller gave up.
    Interrupted,
}

impl OfferError {
    /// Its kind.
    pub fn kind(&self) -> OfferErrorKind {
        match self {
            Self::NoServer { .. }
            | Self::Nothing { .. }
            | Self::NoPrompt { .. }
            | Self::Arguments { .. }
            | Self::BadAddress { .. } => OfferErrorKind::Usage,
            Self::Denied { .. } | Self::NobodyToAsk { .. } | Self::Declined { .. } => {
                OfferErrorKind::Refused
            }
            Self::GivenUp { .. } => OfferErrorKind::Interrupted,
            Self::NotReady { .. } => OfferErrorKind::Unavailable,
            Self::Fetch { error, .. } => match error {
                CallError::Cancelled => OfferErrorKind::Interrupted,
                CallError::NotSent(_) | CallError::Closed(_) | CallError::Deadline { .. } => {
                    OfferErrorKind::Unavailable
                }
                _ => OfferErrorKind::Failed,
            },
            Self::Listing { error, .. } => match error {
                ListError::Closed(_) | ListError::Timeout { .. } => OfferErrorKind::Unavailable,
                _ => OfferErrorKind::Failed,
            },
            Self::SetAside { .. } | Self::Malformed { .. } => OfferErrorKind::Failed,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let list = |names: &[String]| {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        match self {
            Self::NoServer { known, .. } if !known.is_empty() => {
                Some(format!("configured are {}", list(known)))
            }
            Self::NoPrompt { nearest, .. } if !nearest.is_empty() => Some(format!(
                "did you mean {}?",
                nearest
                    .iter()
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(" or ")
            )),
            Self::NotReady {
                server,
                signed_off: true,
                ..
            } => Some(format!("outrigger login {server}")),
            Self::Arguments { missing, .. } if !missing.is_empty() => {
                let pairs: Vec<_> = missing.iter().map(|name| format!("{name}=…")).collect();
                Some(format!("give {}", pairs.join(" ")))
            }
            _ => None,
        }
    }
}

fn because(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

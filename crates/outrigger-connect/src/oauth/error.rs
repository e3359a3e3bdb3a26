//! What can go wrong with signing in. No variant holds a token, a code or a secret.

use super::{StoreError, VisitError};
use crate::text::excerpt;

/// Signing in, or renewing what was signed in for, failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OAuthError {
    /// An address that is not called.
    #[error("`{place}` is not called: {reason}")]
    Forbidden {
        /// The origin of the address.
        place: String,
        /// The rule.
        reason: &'static str,
    },
    /// No answer.
    #[error("cannot reach {place}: {reason}")]
    Unreachable {
        /// The origin.
        place: String,
        /// What the system said.
        reason: String,
    },
    /// An answer that cannot be used.
    #[error("{what} of {place} cannot be used: {reason}")]
    Unusable {
        /// Which answer.
        what: &'static str,
        /// Where it came from.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing tells where to sign in.
    #[error(
        "{place} does not tell where to sign in: there is no authorization server metadata at {tried}"
    )]
    NoMetadata {
        /// The origin.
        place: String,
        /// The addresses asked.
        tried: String,
    },
    /// The metadata is of another issuer (RFC 8414, section 3.3).
    #[error("the metadata asked for from the issuer `{asked}` names the issuer `{found}`")]
    OtherIssuer {
        /// The issuer asked for.
        asked: String,
        /// The issuer that the metadata names.
        found: String,
    },
    /// The metadata is of another resource (RFC 9728, section 3.3).
    #[error(
        "the resource metadata is of `{found}`, not of `{asked}`; no token for it is asked for"
    )]
    OtherResource {
        /// The configured server.
        asked: String,
        /// The resource that the metadata names.
        found: String,
    },
    /// No PKCE, or not with S256.
    #[error(
        "the authorization server `{issuer}` does not offer PKCE with S256, which OAuth 2.1 requires"
    )]
    NoPkce {
        /// The issuer.
        issuer: String,
    },
    /// No way to become a client.
    #[error(
        "the authorization server `{issuer}` takes no client that is not registered, and none is configured"
    )]
    NoClient {
        /// The issuer.
        issuer: String,
    },
    /// Client credentials are wanted and not configured.
    #[error("signing in by client credentials needs `oauth.client_id` and `oauth.client_secret`")]
    NoCredentials,
    /// The authorization server said no.
    #[error("the authorization server refused {what}: {error}{description}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The OAuth error code.
        error: String,
        /// Its words, if it has any.
        description: Description,
    },
    /// The redirect does not belong to this visit.
    #[error("the redirect carries another `state` than was sent; it was not used")]
    State,
    /// The redirect is from another authorization server (RFC 9207).
    #[error("the redirect is from {found}, not from `{expected}`; it was not used")]
    Issuer {
        /// The issuer that was asked.
        expected: String,
        /// The issuer that answered.
        found: String,
    },
    /// The redirect says neither yes nor no.
    #[error("the redirect carries no code")]
    NoCode,
    /// The page was not shown or led nowhere.
    #[error(transparent)]
    Visit(#[from] VisitError),
    /// Tokens cannot be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A person has to sign in.
    #[error("{reason}")]
    SignIn {
        /// Why.
        reason: SignInReason,
    },
    /// No random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

/// Why a person has to sign in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInReason {
    /// The refresh token was refused, or there is none.
    #[error("the login has ended{0}")]
    Ended(Description),
    /// The server refuses a token that was issued just now.
    #[error("the server refuses the token that was issued for it")]
    TokenRefused,
    /// The token does not reach far enough.
    #[error("the server wants the further scope `{0}`")]
    Scope(String),
    /// The scope was asked for before, and did not help.
    #[error(
        "the server wants the scope `{0}`, which was asked for and is not enough or was not granted"
    )]
    ScopeRefused(String),
}

/// What an authorization server says about an error, if anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description(pub Option<String>);

impl Description {
    pub(super) fn of(text: Option<&str>) -> Self {
        let text = text.map(|text| excerpt(text.as_bytes(), 200));
        Self(text.filter(|text| !text.is_empty()))
    }
}

impl std::fmt::Display for Description {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(text) => write!(f, " ({text})"),
            None => Ok(()),
        }
    }
}

impl OAuthError {
    /// Whether signing in (again) is what would help.
    pub fn wants_sign_in(&self) -> bool {
        matches!(self, Self::SignIn { .. })
    }
}

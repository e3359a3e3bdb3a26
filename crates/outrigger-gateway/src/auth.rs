//! Who a request over HTTP is from.
//!
//! Promises: whoever has to show who they are is nobody until they have; what they show is compared in
//! constant time, goes nowhere else, and stands in no message; failures are counted by address, and
//! one that keeps failing is told to wait. A valid token is never kept out by the failures of others. Who was
//! let in by what the configuration does not know any more is nobody from then on.
//! Source: RFC 6750; MCP 2025-11-25 and 2026-07-28, "Authorization".

mod jwt;
mod keys;
pub(crate) mod metadata;
mod pass;
mod signature;
mod throttle;
mod token;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HOST};
use hyper::{HeaderMap, StatusCode};
use outrigger_host::config::GatewaySettings;

use crate::http;
use crate::tenant::Identity;
use jwt::Jwts;
use throttle::Throttle;
use token::Tokens;

pub(crate) use pass::{Admitted, Pass};
pub use token::{Token, TokenError};

/// Why a request is nobody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// `WWW-Authenticate`.
    pub(crate) challenge: Option<String>,
    /// For the client, without what it has shown.
    pub(crate) words: String,
    pub(crate) retry_after: Option<Duration>,
}

/// What is said of a failure (RFC 6750, section 3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing was shown.
    Nothing,
    /// What was shown cannot be read.
    Malformed(&'static str),
    /// It is none that is known, or not good any more.
    Invalid(String),
    /// It is good for less than is needed.
    Scope,
    /// It is good, and whom it is about is not let in.
    Forbidden(String),
    /// It cannot be told now.
    Unavailable(String),
}

/// When somebody may try again of whom it cannot be told who they are, or whose servers cannot be had.
pub(crate) const LATER: Duration = Duration::from_secs(10);

/// Who may connect, and how much each may do, as the configuration says now.
pub(crate) struct Access {
    now: RwLock<Arc<Auth>>,
    /// Whoever runs the gateway has a way in that is theirs alone.
    private: AtomicBool,
}

/// Lets clients in.
pub(crate) struct Auth {
    tokens: Tokens,
    oauth: Option<(Arc<Jwts>, Pass)>,
    /// Of those who show nothing on loopback.
    open: Pass,
    throttle: Arc<Throttle>,
    pub(crate) settings: GatewaySettings,
}

/// Where a request came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) peer: IpAddr,
    /// Only programs of this machine reach it.
    pub(crate) loopback: bool,
}

impl Access {
    pub(crate) fn new(settings: GatewaySettings) -> Arc<Self> {
        let auth = Arc::new(Auth::new(settings));
        Arc::new(Self {
            now: RwLock::new(auth),
            private: AtomicBool::new(false),
        })
    }

    /// As it is now.
    pub(crate) fn now(&self) -> Arc<Auth> {
        let auth = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&auth)
    }

    /// Whoever runs the gateway comes by a pipe or a socket as well, where nobody is asked.
    pub(crate) fn has_private_way(&self) {
        self.private.store(true, Ordering::Relaxed);
    }

    /// Whether somebody may come still; of those whom the authorization server knows it knows who.
    pub(crate) fn may_come(&self, who: &Identity) -> bool {
        let auth = self.now();
        match who.name() {
            Some(name) => auth.oauth.is_some() || auth.tokens.knows(name),
            None => auth.is_open() || self.private.load(Ordering::Relaxed),
        }
    }

    /// Goes over to other settings: from here on nobody is let in by what they do not know.
    pub(crate) fn change(&self, settings: GatewaySettings) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let mut auth = Auth::new(settings);
        let over = auth.follow(&now);
        *now = Arc::new(auth);
        drop(now);
        for pass in over {
            pass.end();
        }
    }
}

impl Auth {
    fn new(settings: GatewaySettings) -> Self {
        let jwts = settings.oauth.as_ref().and_then(Jwts::new);
        Self {
            tokens: Tokens::new(&settings),
            oauth: jwts.map(|jwts| (Arc::new(jwts), Pass::default())),
            open: Pass::default(),
            throttle: Arc::default(),
            settings,
        }
    }

    /// Takes over what lets in as before, and returns the passes that are over.
    fn follow(&mut self, before: &Self) -> Vec<Pass> {
        self.throttle = Arc::clone(&before.throttle);
        let mut over = self.tokens.follow(&before.tokens);
        let is_same = match (&self.settings.oauth, &before.settings.oauth) {
            (Some(now), Some(before)) => now.is_like(before),
            _ => false,
        };
        if is_same {
            // With the keys that it knows.
            self.oauth.clone_from(&before.oauth);
        } else if let Some((_, pass)) = &before.oauth {
            over.push(pass.clone());
        }
        if self.is_open() {
            self.open = before.open.clone();
        } else {
            over.push(before.open.clone());
        }
        over
    }

    /// Whether those of this machine may show nothing.
    fn is_open(&self) -> bool {
        !self.settings.knows_anybody() || self.settings.open_loopback.value
    }

    /// Who a request is from. `told` hears of failures, as often as is good.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        way: Way,
        told: impl FnOnce(&str),
    ) -> Result<Admitted, Refusal> {
        let local = || Admitted {
            who: Identity::Local,
            pass: self.open.clone(),
        };
        if way.loopback && !self.settings.knows_anybody() {
            return Ok(local());
        }
        let failure = match bearer(headers) {
            Ok(None) if way.loopback && self.is_open() => return Ok(local()),
            Ok(None) => Failure::Nothing,
            Ok(Some(token)) => match self.known(token).await {
                Ok(admitted) => return Ok(admitted),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        if let Some(wait) = self.throttle.failed(way.peer) {
            return Err(Refusal {
                status: StatusCode::TOO_MANY_REQUESTS,
                challenge: None,
                words: "too many requests that do not show who they are from".to_owned(),
                retry_after: Some(wait),
            });
        }
        told(failure.words());
        Err(self.refusal(&failure, headers))
    }

    async fn known(&self, token: &str) -> Result<Admitted, Failure> {
        if let Some(owner) = self.tokens.owner(token) {
            return Ok(owner);
        }
        match &self.oauth {
            Some((jwts, pass)) => Ok(Admitted {
                who: Identity::Named(Box::pin(jwts.owner(token)).await?),
                pass: pass.clone(),
            }),
            None => Err(Failure::Invalid("the token is not known here".to_owned())),
        }
    }

    /// What is said to somebody who was let in, and is not any more.
    pub(crate) fn ended(&self, headers: &HeaderMap) -> Refusal {
        let failure = match bearer(headers) {
            Ok(Some(_)) => Failure::Invalid("the token is not known here any more".to_owned()),
            _ => Failure::Nothing,
        };
        self.refusal(&failure, headers)
    }

    fn refusal(&self, failure: &Failure, headers: &HeaderMap) -> Refusal {
        let status = match failure {
            Failure::Nothing | Failure::Invalid(_) => StatusCode::UNAUTHORIZED,
            Failure::Malformed(_) => StatusCode::BAD_REQUEST,
            Failure::Scope | Failure::Forbidden(_) => StatusCode::FORBIDDEN,
            Failure::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let asks = !matches!(failure, Failure::Unavailable(_));
        Refusal {
            status,
            challenge: asks.then(|| self.challenge(failure, headers)),
            words: failure.words().to_owned(),
            retry_after: (!asks).then_some(LATER),
        }
    }

    /// RFC 6750, section 3; RFC 9728, section 5.1.
    fn challenge(&self, failure: &Failure, headers: &HeaderMap) -> String {
        let mut challenge = "Bearer realm=\"outrigger\"".to_owned();
        let mut add = |name: &str, value: &str| {
            let _ = write!(challenge, ", {name}=\"{}\"", quotable(value));
        };
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let place = metadata::place(&self.settings, host.unwrap_or("localhost"), http::PATH);
        if let Some(place) = place {
            add("resource_metadata", &place);
        }
        let scopes = self.settings.oauth.iter().flat_map(|oauth| &oauth.scopes);
        let scopes: Vec<_> = scopes.map(String::as_str).collect();
        if !scopes.is_empty() {
            add("scope", &scopes.join(" "));
        }
        if let Some(code) = failure.code() {
            add("error", code);
            add("error_description", failure.words());
        }
        challenge
    }
}

impl Failure {
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Nothing => "a bearer token is needed (`Authorization: Bearer …`)",
            Self::Malformed(words) => words,
            Self::Scope => "the token lacks a scope that is needed here",
            Self::Invalid(words) | Self::Forbidden(words) | Self::Unavailable(words) => words,
        }
    }

    /// Whoever has shown nothing is told no code (RFC 6750, section 3.1).
    fn code(&self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Forbidden(_) | Self::Unavailable(_) => None,
            Self::Malformed(_) => Some("invalid_request"),
            Self::Invalid(_) => Some("invalid_token"),
            Self::Scope => Some("insufficient_scope"),
        }
    }
}

/// What may stand between quotes in a header.
fn quotable(words: &str) -> String {
    let good = |c: &char| (' '..='~').contains(c) && !matches!(c, '"' | '\\');
    words.chars().filter(good).collect()
}

/// The token of a request; `None` where it has none.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Failure::Malformed(
            "`Authorization` is there more than once",
        ));
    }
    let unreadable = Failure::Malformed("`Authorization` is not a bearer token");
    let Ok(value) = value.to_str() else {
        return Err(unreadable);
    };
    let Some((scheme, token)) = value.split_once(' ') else {
        return Err(unreadable);
    };
    let token = token.trim_matches(' ');
    // RFC 6750, section 2.1.
    let good = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || !token.chars().all(good) {
        return Err(unreadable);
    }
    Ok(Some(token))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_bearer_token_is_one_word_after_its_scheme() {
        let read = |values: &[&'static str]| {
            let values = values
                .iter()
                .map(|value| (AUTHORIZATION, HeaderValue::from_static(value)));
            let headers: HeaderMap = values.collect();
            bearer(&headers).map(|token| token.map(str::to_owned))
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(
            read(&["Bearer abc.d-e_f~+/="]),
            Ok(Some("abc.d-e_f~+/=".to_owned()))
        );
        assert_eq!(read(&["bEARER  abc"]), Ok(Some("abc".to_owned())));
        for wrong in [
            &["Bearer"][..],
            &["Bearer "],
            &["Basic abc"],
            &["abc"],
            &["Bearer a b"],
            &["Bearer a", "Bearer a"],
        ] {
            assert!(
                matches!(read(wrong), Err(Failure::Malformed(_))),
                "{wrong:?}"
            );
        }
    }
}

//! Which token goes out with a request to one server, and what to do when it is not enough.
//!
//! Promises: one renewal or visit at a time, whoever needs it waits for the same one, and it runs
//! to its end even if they leave; each refusal is answered once; a token that is refused as soon as
//! it is issued is the end. Leaves out: sending, which is `link::http`'s.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::challenge::Challenge;
use super::error::Description;
use super::flow::{Flow, Renewed};
use super::grant::{Grant, Key, add};
use super::{OAuth, OAuthError, OAuthFlow, SignInReason, VisitError};
use crate::{HttpSpec, ServerName};

/// A token for one request.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) header: HeaderValue,
    serial: u64,
}

/// Answers for one server; ends its visits when it is dropped.
pub(crate) struct Authorizer {
    inner: Arc<Inner>,
    _gone: DropGuard,
}

struct Inner {
    server: ServerName,
    flow: Flow,
    state: Mutex<State>,
    gone: CancellationToken,
}

#[derive(Default)]
struct State {
    /// The store was looked at.
    loaded: bool,
    held: Option<Held>,
    /// Counts tokens, so that a refusal of an old one is not taken for one of the new.
    serial: u64,
    under_way: Option<Flight>,
    /// A visit that led nowhere; nobody is sent on another one unasked.
    turned_away: Option<OAuthError>,
}

#[derive(Clone)]
struct Held {
    grant: Grant,
    /// Issued since this began, and not yet accepted by the server.
    unproven: bool,
}

type Flight = Shared<BoxFuture<'static, Result<(), OAuthError>>>;

/// Why a token is needed.
enum Need {
    /// Nothing is known yet.
    Load,
    /// What is held has ended.
    Renew,
    /// The server refused what it was sent (401).
    Anew(Option<Challenge>),
    /// The server wants more scopes (403).
    Wider(Challenge),
}

impl Authorizer {
    /// `None` where the configuration says itself what to send.
    pub(crate) fn new(oauth: &OAuth, server: &ServerName, spec: &HttpSpec) -> Option<Self> {
        let configured = spec
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        if configured {
            return None;
        }
        let gone = CancellationToken::new();
        let inner = Inner {
            server: server.clone(),
            flow: Flow::new(oauth, spec),
            state: Mutex::default(),
            gone: gone.clone(),
        };
        Some(Self {
            inner: Arc::new(inner),
            _gone: gone.drop_guard(),
        })
    }

    /// The token to send, renewed where it has ended. `None`: there is none, ask without.
    pub(crate) async fn bearer(&self) -> Result<Option<Bearer>, OAuthError> {
        let mut renewed = false;
        loop {
            let flight = {
                let mut state = self.inner.state();
                match (&state.under_way, &state.held) {
                    (Some(flight), _) => flight.clone(),
                    (None, _) if !state.loaded => self.inner.begin(&mut state, Need::Load),
                    // A new token that has ended as well is for the server to judge.
                    (None, Some(held)) if renewed || !held.grant.has_ended() => {
                        return Ok(state.bearer());
                    }
                    (None, Some(held)) if self.renews(&held.grant) => {
                        renewed = true;
                        self.inner.begin(&mut state, Need::Renew)
                    }
                    (None, None | Some(_)) => return Ok(None),
                }
            };
            flight.await?;
        }
    }

    /// Whether a token that has ended can be had again without asking the server first.
    fn renews(&self, grant: &Grant) -> bool {
        grant.refresh_token.is_some()
            || self.inner.flow.settings.flow == OAuthFlow::ClientCredentials
    }

    /// What a person could do who is refused, and why they are, where that is known.
    pub(crate) fn hint(&self, error: Option<&OAuthError>) -> Option<String> {
        if error
            .is_some_and(|error| !error.wants_sign_in() && !matches!(error, OAuthError::Visit(_)))
        {
            return None;
        }
        if self.inner.flow.settings.flow == OAuthFlow::ClientCredentials {
            return Some("check `oauth.client_id` and `oauth.client_secret`".to_owned());
        }
        let name = self.inner.server.as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name = if name.chars().all(plain) {
            name.to_owned()
        } else {
            format!("'{}'", name.replace('\'', "'\\''"))
        };
        Some(format!("sign in with `outrigger login {name}`"))
    }

    /// The server took this token.
    pub(crate) fn accepted(&self, bearer: &Bearer) {
        let mut state = self.inner.state();
        if state.serial == bearer.serial
            && let Some(held) = &mut state.held
        {
            held.unproven = false;
        }
    }

    /// The server refused: what to send instead, once. `None`: nothing can be done about it.
    pub(crate) async fn refused(
        &self,
        status: u16,
        headers: &HeaderMap,
        used: Option<&Bearer>,
    ) -> Result<Option<Bearer>, OAuthError> {
        let challenge = Challenge::of(headers);
        let need = match (status, challenge) {
            (401, challenge) => Need::Anew(challenge),
            (403, Some(challenge)) if challenge.wants_scope() && used.is_some() => {
                Need::Wider(challenge)
            }
            _ => return Ok(None),
        };
        let mut need = Some(need);
        loop {
            let flight = {
                let mut state = self.inner.state();
                let newer = used.map_or(0, |used| used.serial) != state.serial
                    && state
                        .held
                        .as_ref()
                        .is_some_and(|held| need.is_none() || !held.grant.has_ended());
                match (&state.under_way, &state.turned_away) {
                    (Some(flight), _) => flight.clone(),
                    (None, _) if newer => return Ok(state.bearer()),
                    (None, Some(error)) => return Err(error.clone()),
                    (None, None) => match need.take() {
                        Some(need) => self.inner.begin(&mut state, need),
                        None => return Ok(None),
                    },
                }
            };
            flight.await?;
        }
    }
}

impl State {
    fn bearer(&self) -> Option<Bearer> {
        let token = self.held.as_ref()?.grant.access_token.reveal();
        let mut header = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        header.set_sensitive(true);
        Some(Bearer {
            header,
            serial: self.serial,
        })
    }

    fn settle(&mut self, outcome: &Result<Option<Held>, OAuthError>) {
        self.under_way = None;
        self.loaded = true;
        let held = match outcome {
            Ok(held) => held.clone(),
            // Only a login that is over takes the token with it; a failed request does not.
            Err(OAuthError::SignIn {
                reason: SignInReason::Ended(_),
            }) => None,
            Err(error) => {
                let passing = matches!(
                    error,
                    OAuthError::Unreachable { .. }
                        | OAuthError::Store(_)
                        | OAuthError::SignIn { .. }
                );
                if !passing {
                    self.turned_away = Some(error.clone());
                }
                return;
            }
        };
        let same = match (&self.held, &held) {
            (Some(old), Some(new)) => old.grant.access_token == new.grant.access_token,
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same {
            self.serial += 1;
        }
        self.held = held;
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what is needed on a task of its own.
    fn begin(self: &Arc<Self>, state: &mut State, need: Need) -> Flight {
        let (done, is_done) = oneshot::channel();
        let (this, held) = (self.clone(), state.held.clone());
        self.flow.oauth.renewals.spawn(async move {
            let outcome = Box::pin(this.meet(need, held)).await;
            this.state().settle(&outcome);
            // Nobody may be left who waits.
            let _ = done.send(outcome.map(|_| ()));
        });
        let flight = is_done.map(|done| done.unwrap_or(Err(VisitError::Cancelled.into())));
        let flight = flight.boxed().shared();
        state.under_way = Some(flight.clone());
        flight
    }

    /// What is held after the need was met as far as it can be.
    async fn meet(&self, need: Need, held: Option<Held>) -> Result<Option<Held>, OAuthError> {
        match (need, held) {
            (Need::Load, _) => self.last().await,
            (Need::Renew, Some(held)) => self.renew(held.grant, None).await,
            (Need::Anew(challenge), None) => self.first(challenge).await,
            (Need::Anew(_), Some(held)) if held.unproven => Err(OAuthError::SignIn {
                reason: SignInReason::TokenRefused,
            }),
            (Need::Anew(challenge), Some(held)) => self.anew(challenge, held.grant).await,
            (Need::Renew | Need::Wider(_), None) => Ok(None),
            (Need::Wider(challenge), Some(held)) => self.wider(challenge, held.grant).await,
        }
    }

    /// What an earlier run has left.
    async fn last(&self) -> Result<Option<Held>, OAuthError> {
        Ok(self.flow.load_last().await?.map(|grant| Held {
            grant,
            unproven: false,
        }))
    }

    /// No token was sent, as there was none.
    async fn first(&self, challenge: Option<Challenge>) -> Result<Option<Held>, OAuthError> {
        // Somebody may have signed in meanwhile.
        if let Some(held) = self.last().await?.filter(|held| !held.grant.has_ended()) {
            return Ok(Some(held));
        }
        if !self.obtains() {
            return Ok(None);
        }
        let resource = self.flow.resource(challenge.as_ref()).await?;
        let previous = self.flow.load(&key(&resource)).await?;
        let ask = self.flow.ask(resource, challenge.as_ref(), previous);
        self.obtain(ask).await.map(Some)
    }

    /// The token that was sent is not good any more.
    async fn anew(
        &self,
        challenge: Option<Challenge>,
        old: Grant,
    ) -> Result<Option<Held>, OAuthError> {
        let resource = self.flow.resource(challenge.as_ref()).await?;
        let key = key(&resource);
        if key == old.key {
            return self.renew(old, challenge).await;
        }
        // Another issuer, another client (SEP-2352): nothing of the old one is shown to it.
        match self.flow.load(&key).await? {
            Some(grant) if grant.has_ended() => self.renew(grant, challenge).await,
            Some(grant) => {
                self.flow.save(&grant).await?;
                Ok(Some(Held {
                    grant,
                    unproven: true,
                }))
            }
            None if self.obtains() => {
                let ask = self.flow.ask(resource, challenge.as_ref(), None);
                self.obtain(ask).await.map(Some)
            }
            None => Err(ended(Description::default())),
        }
    }

    async fn renew(
        &self,
        old: Grant,
        challenge: Option<Challenge>,
    ) -> Result<Option<Held>, OAuthError> {
        let why = match self.flow.renew(&old).await? {
            Renewed::Grant(grant) => {
                return Ok(Some(Held {
                    grant: *grant,
                    unproven: true,
                }));
            }
            Renewed::Ended(why) => why,
        };
        if !self.obtains() {
            return Err(ended(why));
        }
        let resource = self.flow.resource(challenge.as_ref()).await?;
        let ask = self.flow.ask(resource, challenge.as_ref(), Some(old));
        self.obtain(ask).await.map(Some)
    }

    async fn wider(
        &self,
        challenge: Challenge,
        mut held: Grant,
    ) -> Result<Option<Held>, OAuthError> {
        let scopes = challenge.scopes.join(" ");
        let asked = |grant: &Grant| {
            let mut wanted = challenge.scopes.iter();
            wanted.all(|scope| grant.asked.contains(scope))
        };
        if asked(&held) {
            let reason = SignInReason::ScopeRefused(scopes);
            return Err(OAuthError::SignIn { reason });
        }
        if let Some(kept) = self.flow.load(&held.key).await? {
            if asked(&kept) && !kept.has_ended() {
                // Somebody has signed in for more meanwhile.
                return Ok(Some(Held {
                    grant: kept,
                    unproven: true,
                }));
            }
            held = kept;
        }
        if !self.obtains() {
            let _lock = self.flow.lock(&held.key).await?;
            if let Some(mut kept) = self.flow.load(&held.key).await? {
                // The next login asks for it.
                add(&mut kept.wanted, challenge.scopes);
                self.flow.save(&kept).await?;
            }
            let reason = SignInReason::Scope(scopes);
            return Err(OAuthError::SignIn { reason });
        }
        let resource = self.flow.resource(Some(&challenge)).await?;
        let ask = self.flow.ask(resource, Some(&challenge), Some(held));
        self.obtain(ask).await.map(Some)
    }

    /// Whether a token can be had now: by credentials, or as somebody is there to sign in.
    fn obtains(&self) -> bool {
        self.flow.settings.flow == OAuthFlow::ClientCredentials || self.flow.oauth.handler.is_some()
    }

    async fn obtain(&self, ask: super::flow::Ask) -> Result<Held, OAuthError> {
        let grant = match (&self.flow.settings.flow, &self.flow.oauth.handler) {
            (OAuthFlow::ClientCredentials, _) => self.flow.credentials(ask).await?,
            (OAuthFlow::AuthorizationCode, Some(handler)) => {
                let handler = handler.clone();
                self.flow.sign_in(ask, handler.as_ref(), &self.gone).await?
            }
            (OAuthFlow::AuthorizationCode, None) => return Err(ended(Description::default())),
        };
        Ok(Held {
            grant,
            unproven: true,
        })
    }
}

fn ended(why: Description) -> OAuthError {
    OAuthError::SignIn {
        reason: SignInReason::Ended(why),
    }
}

fn key(resource: &super::metadata::Resource) -> Key {
    Key {
        issuer: resource.issuer.clone(),
        resource: resource.id.clone(),
    }
}

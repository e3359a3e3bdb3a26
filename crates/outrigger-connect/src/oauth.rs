//! OAuth 2.1 for MCP servers over HTTP: finding out who issues tokens, getting them, renewing them.
//!
//! Promises: PKCE with S256 or nothing; a token goes to the resource it was issued for and to no
//! other origin; a refresh token is used by one process at a time and never again after it was
//! refused; what a server names is only called if it is public, or on the configured host.
//! Leaves out: showing a page to a person ([`AuthorizationHandler`]) and where tokens are kept
//! ([`TokenStore`]). Source: MCP 2026-07-28, "Authorization".

mod authorizer;
mod challenge;
mod error;
mod fetch;
mod file_tokens;
mod flow;
mod grant;
mod handler;
mod identity;
mod keys;
mod mark;
mod metadata;
mod pkce;
mod reach;
mod redirect;
mod secret;
mod settings;
mod sign_in;
mod store;
mod token;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

pub(crate) use authorizer::{Authorizer, Bearer};
pub use error::{Description, OAuthError, SignInReason};
pub use file_tokens::FileTokens;
pub use handler::{AuthorizationHandler, Visit, VisitError};
pub use keys::KeySource;
pub use mark::LoginMark;
pub use secret::Secret;
pub use settings::{OAuthFlow, OAuthSettings};
pub use sign_in::{SignedIn, SignedOut};
pub use store::{MemoryTokens, StoreError, TokenLock, TokenStore};

/// Hears of secrets before they are used.
type Told = Arc<dyn Fn(&Secret) + Send + Sync>;

/// What all servers share: where tokens are kept, and who shows the page to sign in on.
#[derive(Clone)]
pub struct OAuth {
    store: Arc<dyn TokenStore>,
    handler: Option<Arc<dyn AuthorizationHandler>>,
    told: Option<Told>,
    /// Renewals run to their end even if whoever wanted the token has gone: a refresh token that
    /// was used and whose successor was not kept is a lost login.
    renewals: TaskTracker,
}

impl OAuth {
    /// Tokens come from `store`. A server that wants a person to sign in is an error.
    pub fn new(store: Arc<dyn TokenStore>) -> Self {
        Self {
            store,
            handler: None,
            told: None,
            renewals: TaskTracker::new(),
        }
    }

    /// A server that wants a person to sign in has it done by `handler`, while it is connected to
    /// or called.
    #[must_use]
    pub fn with_handler(mut self, handler: Arc<dyn AuthorizationHandler>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// `told` hears every token, refresh token and client secret before it is used for the first
    /// time, so that it can keep it out of records. It must return quickly.
    #[must_use]
    pub fn with_secrets_told(mut self, told: impl Fn(&Secret) + Send + Sync + 'static) -> Self {
        self.told = Some(Arc::new(told));
        self
    }

    fn tell<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        if let Some(told) = &self.told {
            secrets.into_iter().for_each(|secret| told(secret));
        }
    }

    /// Waits for renewals under way, so that no rotated token is lost. `false`: not within `limit`.
    pub async fn finish(&self, limit: Duration) -> bool {
        self.renewals.close();
        let done = tokio::time::timeout(limit, self.renewals.wait())
            .await
            .is_ok();
        self.renewals.reopen();
        done
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("interactive", &self.handler.is_some())
            .finish_non_exhaustive()
    }
}

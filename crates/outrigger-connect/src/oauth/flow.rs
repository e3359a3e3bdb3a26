//! Getting, renewing and keeping tokens for one configured server.
//!
//! Promises: what is read and written of one grant while it is renewed happens under a lock that
//! all processes share. Leaves out: when to do any of it, which is `authorizer`'s and `sign_in`'s.

mod obtain;
mod renew;

use std::time::{Duration, Instant};

use url::Url;

use super::challenge::Challenge;
use super::fetch::Fetch;
use super::grant::{self, Grant, Key};
use super::metadata::{self, Resource};
use super::{OAuth, OAuthError, OAuthSettings, StoreError, TokenLock, TokenStore};
use crate::HttpSpec;

pub(super) use obtain::Ask;
pub(super) use renew::Renewed;

/// How often a lock that another process holds is asked for again. There is nothing to wait on
/// that works between processes everywhere.
const ASK_AGAIN: Duration = Duration::from_millis(25);

/// Longer than the holder's own requests can take together.
const LOCK_PATIENCE: Duration = Duration::from_mins(2);

pub(super) struct Flow {
    pub(super) oauth: OAuth,
    pub(super) endpoint: Url,
    pub(super) settings: OAuthSettings,
    pub(super) fetch: Fetch,
}

impl Flow {
    pub(super) fn new(oauth: &OAuth, spec: &HttpSpec) -> Self {
        Self {
            oauth: oauth.clone(),
            endpoint: spec.url.clone(),
            settings: spec.oauth.clone(),
            fetch: Fetch::new(spec),
        }
    }

    /// Who issues tokens for the server.
    pub(super) async fn resource(
        &self,
        challenge: Option<&Challenge>,
    ) -> Result<Resource, OAuthError> {
        metadata::resource(&self.fetch, &self.endpoint, challenge).await
    }

    /// The server's grant, as it was last kept, if it was given to the configured client.
    pub(super) async fn load_last(&self) -> Result<Option<Grant>, OAuthError> {
        let address = self.address();
        let found = self
            .store(move |store| grant::load_for(store, &address))
            .await?;
        Ok(self.told(found))
    }

    /// What was found, if it was given to the configured client. Nobody uses it before its secrets
    /// are known as such.
    fn told(&self, found: Option<Grant>) -> Option<Grant> {
        if let Some(grant) = &found {
            self.oauth.tell(grant.secrets());
        }
        found.filter(|grant| grant.fits(&self.settings))
    }

    pub(super) async fn load(&self, key: &Key) -> Result<Option<Grant>, OAuthError> {
        let key = key.clone();
        let found = self.store(move |store| grant::load(store, &key)).await?;
        Ok(self.told(found))
    }

    pub(super) async fn save(&self, grant: &Grant) -> Result<(), OAuthError> {
        self.oauth.tell(grant.secrets());
        let (address, grant) = (self.address(), grant.clone());
        self.store(move |store| grant::save(store, &address, &grant))
            .await
    }

    pub(super) async fn remove(&self, key: &Key) -> Result<(), OAuthError> {
        let key = key.clone();
        self.store(move |store| grant::remove(store, &key)).await
    }

    pub(super) async fn forget(&self) -> Result<(), OAuthError> {
        let address = self.address();
        self.store(move |store| grant::forget(store, &address))
            .await
    }

    /// Sole use of a grant among all processes.
    pub(super) async fn lock(&self, key: &Key) -> Result<TokenLock, OAuthError> {
        let begun = Instant::now();
        loop {
            let name = key.name();
            if let Some(lock) = self.store(move |store| store.try_lock(&name)).await? {
                return Ok(lock);
            }
            if begun.elapsed() > LOCK_PATIENCE {
                return Err(OAuthError::Store(StoreError {
                    place: key.name(),
                    what: "locked",
                    reason: "another process has not let go of them".to_owned(),
                }));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Under which address the server is remembered.
    fn address(&self) -> String {
        metadata::identifier(&self.endpoint)
    }

    async fn store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn TokenStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, OAuthError> {
        let store = self.oauth.store.clone();
        let done = tokio::task::spawn_blocking(move || work(store.as_ref())).await;
        match done {
            Ok(result) => Ok(result?),
            Err(error) => Err(OAuthError::Store(StoreError {
                place: self.address(),
                what: "read",
                reason: error.to_string(),
            })),
        }
    }
}

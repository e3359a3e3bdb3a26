//! A new token: by a person who signs in, or by the client's own credentials.
//!
//! Promises: no code is asked for without PKCE by S256; a client belongs to the issuer that knows
//! it; both requests name the resource. Source: MCP, "Authorization"; RFC 6749, 7636, 8707, 9207.

use tokio_util::sync::CancellationToken;
use url::Url;

use super::Flow;
use crate::oauth::challenge::Challenge;
use crate::oauth::grant::{self, Grant, Key};
use crate::oauth::identity::{self, Client};
use crate::oauth::metadata::{self, Issuer, Resource};
use crate::oauth::{AuthorizationHandler, OAuthError, Secret, VisitError, pkce, redirect, token};

/// What is asked for.
pub(in crate::oauth) struct Ask {
    pub(in crate::oauth) resource: Resource,
    pub(in crate::oauth) scopes: Vec<String>,
    /// What this issuer granted before.
    pub(in crate::oauth) previous: Option<Grant>,
}

impl Flow {
    /// What to ask for: the configured scopes, else those of the challenge, else those that the
    /// resource names (MCP, "Scope Selection Strategy"). What was asked for before is kept when the
    /// issuer is still the same, so that a step up takes nothing away (SEP-2350).
    pub(in crate::oauth) fn ask(
        &self,
        resource: Resource,
        challenge: Option<&Challenge>,
        previous: Option<Grant>,
    ) -> Ask {
        let wanted = challenge.map(|challenge| challenge.scopes.clone());
        let wanted = wanted.unwrap_or_default();
        let mut scopes = if !self.settings.scopes.is_empty() {
            self.settings.scopes.clone()
        } else if !wanted.is_empty() {
            wanted.clone()
        } else {
            resource.scopes.clone()
        };
        let stepping_up = challenge.is_some_and(Challenge::wants_scope);
        if stepping_up {
            grant::add(&mut scopes, wanted);
        }
        let previous = previous.filter(|previous| previous.key.issuer == resource.issuer);
        if let Some(previous) = &previous {
            if stepping_up || !previous.wanted.is_empty() {
                grant::add(&mut scopes, previous.asked.clone());
            }
            grant::add(&mut scopes, previous.wanted.clone());
        }
        Ask {
            resource,
            scopes,
            previous,
        }
    }

    /// Has a person sign in, and keeps what was granted. `gone` ends the visit.
    pub(in crate::oauth) async fn sign_in(
        &self,
        ask: Ask,
        handler: &dyn AuthorizationHandler,
        gone: &CancellationToken,
    ) -> Result<Grant, OAuthError> {
        let issuer = metadata::issuer(&self.fetch, &ask.resource.issuer).await?;
        issuer.require_pkce()?;
        let mut scopes = ask.scopes;
        if issuer.offers_offline_access() && !scopes.is_empty() {
            grant::add(&mut scopes, ["offline_access".to_owned()]);
        }
        let visit = handler.begin().await?;
        let redirect = visit.redirect_uri().to_string();
        let client = self
            .client(&issuer, ask.previous.as_ref(), &redirect, &scopes)
            .await?;
        let (state, verifier) = (pkce::random()?, pkce::random()?);
        let page = Page {
            client: &client,
            redirect: &redirect,
            scopes: &scopes,
            resource: &ask.resource.id,
            state: &state,
            verifier: &verifier,
        };
        let page = page.address(&issuer)?;
        self.fetch.may_be_shown(&page).await?;
        let query = gone
            .run_until_cancelled(visit.run(page))
            .await
            .unwrap_or(Err(VisitError::Cancelled))?;
        let code = redirect::code(&query, &state, &issuer)?;
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.reveal().to_owned()),
            ("redirect_uri", redirect),
            ("code_verifier", verifier.reveal().to_owned()),
        ];
        self.granted(&issuer, client, ask.resource, (scopes, form))
            .await
    }

    /// Signs in as the configured client itself, and keeps what was granted.
    pub(in crate::oauth) async fn credentials(&self, ask: Ask) -> Result<Grant, OAuthError> {
        let issuer = metadata::issuer(&self.fetch, &ask.resource.issuer).await?;
        let client = identity::configured(&self.settings, &issuer)
            .filter(|client| client.secret.is_some())
            .ok_or(OAuthError::NoCredentials)?;
        let mut form = vec![("grant_type", "client_credentials".to_owned())];
        if !ask.scopes.is_empty() {
            form.push(("scope", ask.scopes.join(" ")));
        }
        self.granted(&issuer, client, ask.resource, (ask.scopes, form))
            .await
    }

    async fn granted(
        &self,
        issuer: &Issuer,
        client: Client,
        resource: Resource,
        (scopes, form): (Vec<String>, Vec<(&'static str, String)>),
    ) -> Result<Grant, OAuthError> {
        let key = Key {
            issuer: resource.issuer,
            resource: resource.id,
        };
        let token = token::request(&self.fetch, issuer, &client, form, &key.resource).await?;
        let grant = Grant::new(key, client, scopes, token);
        // Whoever renews the grant that this one replaces must not overwrite it.
        let _lock = self.lock(&grant.key).await?;
        self.save(&grant).await?;
        Ok(grant)
    }

    /// The configured client; else the one that this issuer registered for the same redirect;
    /// else a new one.
    async fn client(
        &self,
        issuer: &Issuer,
        previous: Option<&Grant>,
        redirect: &str,
        scopes: &[String],
    ) -> Result<Client, OAuthError> {
        if let Some(client) = identity::configured(&self.settings, issuer) {
            return Ok(client);
        }
        let known =
            previous.filter(|previous| previous.client.registered_for.as_deref() == Some(redirect));
        match known {
            Some(previous) => Ok(previous.client.clone()),
            None => identity::register(&self.fetch, issuer, redirect, scopes).await,
        }
    }
}

/// The page that a person signs in on.
struct Page<'a> {
    client: &'a Client,
    redirect: &'a str,
    scopes: &'a [String],
    resource: &'a str,
    state: &'a Secret,
    verifier: &'a Secret,
}

impl Page<'_> {
    fn address(&self, issuer: &Issuer) -> Result<Url, OAuthError> {
        let Some(endpoint) = &issuer.authorization_endpoint else {
            return Err(OAuthError::Unusable {
                what: "the metadata",
                place: issuer.id.clone(),
                reason: "it names no page to sign in on".to_owned(),
            });
        };
        let mut page = endpoint.clone();
        let mut query = page.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", self.redirect)
            .append_pair("state", self.state.reveal())
            .append_pair("code_challenge", &pkce::challenge(self.verifier))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", self.resource);
        if !self.scopes.is_empty() {
            query.append_pair("scope", &self.scopes.join(" "));
        }
        if self.scopes.iter().any(|scope| scope == "offline_access") {
            // OpenID Connect Core, section 11: without consent there is no refresh token.
            query.append_pair("prompt", "consent");
        }
        drop(query);
        Ok(page)
    }
}

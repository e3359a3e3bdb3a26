//! Signing in and out on purpose, without a connection.

use std::fmt;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use tokio_util::sync::CancellationToken;

use super::challenge::Challenge;
use super::flow::{Ask, Flow};
use super::grant::{Key, add};
use super::{AuthorizationHandler, OAuth, OAuthError, OAuthFlow, metadata, token};
use crate::HttpSpec;
use crate::handshake::MODERN;
use crate::link::http::client::{Clients, headers};
use crate::text::excerpt;

/// A login that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Who issued the token.
    pub issuer: String,
    /// What it is for.
    pub resource: String,
    /// The scopes that were asked for or granted.
    pub scopes: Vec<String>,
    /// Whether it can be renewed without signing in again.
    pub renewable: bool,
}

/// What signing out did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedOut {
    /// Nobody was signed in.
    Nothing,
    /// The token is gone from here, and the issuer was told.
    Revoked,
    /// The token is gone from here; the issuer offers no way to tell it, or did not listen.
    Forgotten,
}

impl fmt::Display for SignedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nobody was signed in",
            Self::Revoked => "signed out; the token was revoked",
            Self::Forgotten => "signed out; the token was removed here and could not be revoked",
        })
    }
}

impl OAuth {
    /// Signs in at the server, by the flow that is configured for it, whether or not somebody is
    /// signed in already. `cancel` ends the visit.
    pub async fn sign_in(
        &self,
        spec: &HttpSpec,
        handler: &dyn AuthorizationHandler,
        cancel: &CancellationToken,
    ) -> Result<SignedIn, OAuthError> {
        let flow = Flow::new(self, spec);
        let challenge = knock(spec).await?;
        let resource = flow.resource(challenge.as_ref()).await?;
        let previous = flow
            .load(&Key {
                issuer: resource.issuer.clone(),
                resource: resource.id.clone(),
            })
            .await?;
        let ask: Ask = flow.ask(resource, challenge.as_ref(), previous);
        let grant = match flow.settings.flow {
            OAuthFlow::ClientCredentials => flow.credentials(ask).await?,
            OAuthFlow::AuthorizationCode => flow.sign_in(ask, handler, cancel).await?,
        };
        let mut scopes = Vec::new();
        add(&mut scopes, grant.asked);
        Ok(SignedIn {
            issuer: excerpt(grant.key.issuer.as_bytes(), 200),
            resource: excerpt(grant.key.resource.as_bytes(), 200),
            scopes,
            renewable: grant.refresh_token.is_some(),
        })
    }

    /// Removes the server's token, and tells its issuer so where that is offered (RFC 7009).
    pub async fn sign_out(&self, spec: &HttpSpec) -> Result<SignedOut, OAuthError> {
        let flow = Flow::new(self, spec);
        let Some(found) = flow.load_last().await? else {
            flow.forget().await?;
            return Ok(SignedOut::Nothing);
        };
        let _lock = flow.lock(&found.key).await?;
        // Renewed meanwhile, perhaps: what counts is what is kept now.
        let grant = flow.load(&found.key).await?.unwrap_or(found);
        flow.remove(&grant.key).await?;
        flow.forget().await?;
        let token = grant.refresh_token.as_ref().unwrap_or(&grant.access_token);
        let told = match metadata::issuer(&flow.fetch, &grant.key.issuer).await {
            Ok(issuer) => token::revoke(&flow.fetch, &issuer, &grant.client, token).await,
            Err(error) => Err(error),
        };
        Ok(match told {
            Ok(true) => SignedOut::Revoked,
            Ok(false) | Err(_) => SignedOut::Forgotten,
        })
    }
}

/// Asks the server for something, to be told where to sign in.
async fn knock(spec: &HttpSpec) -> Result<Option<Challenge>, OAuthError> {
    let place = crate::text::place(&spec.url);
    let unreachable = |reason: String| OAuthError::Unreachable {
        place: place.clone(),
        reason,
    };
    let clients = Clients::new(concat!("outrigger/", env!("CARGO_PKG_VERSION")));
    let client = clients
        .client_for(spec)
        .map_err(|error| unreachable(error.to_string()))?;
    let mut headers = headers(spec).map_err(|error| unreachable(error.to_string()))?;
    headers.remove(reqwest::header::AUTHORIZATION);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    headers.insert("mcp-protocol-version", HeaderValue::from_static(MODERN));
    headers.insert("mcp-method", HeaderValue::from_static("server/discover"));
    let question = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{{\"_meta\":{{\
         \"io.modelcontextprotocol/protocolVersion\":\"{MODERN}\",\
         \"io.modelcontextprotocol/clientCapabilities\":{{}}}}}}}}"
    );
    let asked = client
        .post(spec.url.clone())
        .headers(headers)
        .timeout(KNOCK)
        .body(question);
    let answer = asked
        .send()
        .await
        .map_err(|error| unreachable(crate::link::http::client::deepest(&error.without_url())))?;
    Ok(Challenge::of(answer.headers()).filter(|_| answer.status().as_u16() == 401))
}

/// How long a server may take to refuse.
const KNOCK: std::time::Duration = std::time::Duration::from_secs(20);

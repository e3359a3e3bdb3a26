//! The keys of an authorization server, for those who look at the tokens that it issues.
//!
//! Promises: where its keys are is read out of metadata that is about this issuer, and only if it is
//! not said otherwise; what configuration names may be private, all else is public and `https`.
//! Source: RFC 8414, section 2; RFC 7517, section 5.

use bytes::Bytes;
use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::fetch::{Answer, Fetch};
use super::metadata::{document, places_of_issuer, same_issuer};
use super::reach::place;
use crate::HttpSpec;
use crate::text::excerpt;

/// Fetches the keys of one authorization server.
#[derive(Debug)]
pub struct KeySource {
    issuer: Url,
    /// As it names itself.
    id: String,
    keys: Option<Url>,
    fetch: Fetch,
}

#[derive(Deserialize)]
struct Described {
    issuer: String,
    #[serde(default)]
    jwks_uri: Option<String>,
}

impl KeySource {
    /// `keys`: where they are; without it, the metadata of the issuer says so. `None`: the issuer is no
    /// address.
    pub fn new(issuer: &str, keys: Option<Url>) -> Option<Self> {
        let url = Url::parse(issuer).ok()?;
        let named = keys.clone().unwrap_or_else(|| url.clone());
        Some(Self {
            issuer: url,
            id: issuer.to_owned(),
            keys,
            fetch: Fetch::new(&HttpSpec::new(named)),
        })
    }

    /// The keys as they are now: a JWK set, as JSON.
    pub async fn fetch(&self) -> Result<Bytes, OAuthError> {
        let url = match &self.keys {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let Answer { status, body, .. } = self.fetch.get(&url).await?;
        if status.is_success() {
            return Ok(body);
        }
        Err(OAuthError::Unusable {
            what: "the keys",
            place: place(&url),
            reason: format!("it answered {}", status.as_u16()),
        })
    }

    async fn discover(&self) -> Result<Url, OAuthError> {
        let places = places_of_issuer(&self.issuer);
        let mut other = None;
        for at in &places {
            let Some(found) = document::<Described>(&self.fetch.get(at).await?)? else {
                continue;
            };
            if !same_issuer(&self.id, &found.issuer) {
                other.get_or_insert(found.issuer);
                continue;
            }
            let url = found.jwks_uri.and_then(|text| Url::parse(&text).ok());
            return url.ok_or_else(|| OAuthError::Unusable {
                what: "the metadata",
                place: place(at),
                reason: "it names no `jwks_uri`".to_owned(),
            });
        }
        let asked = excerpt(self.id.as_bytes(), 200);
        Err(match other {
            Some(found) => OAuthError::OtherIssuer {
                asked,
                found: excerpt(found.as_bytes(), 200),
            },
            None => OAuthError::NoMetadata {
                place: place(&self.issuer),
                tried: places.iter().map(Url::path).collect::<Vec<_>>().join(", "),
            },
        })
    }
}

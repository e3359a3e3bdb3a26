//! Who issues tokens for a server, and how: protected-resource metadata (RFC 9728) and
//! authorization-server metadata (RFC 8414, `OpenID` Connect Discovery 1.0).
//!
//! Promises: a document is used only if it is about what was asked for. Addresses in it are only
//! parsed here; whether they may be called is checked when they are.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use url::Url;

use super::OAuthError;
use super::challenge::Challenge;
use super::fetch::{Answer, Fetch};
use super::reach::place;
use crate::text::excerpt;

/// What a server says about who issues tokens for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    /// Its identifier, which every token is asked for (RFC 8707).
    pub(super) id: String,
    pub(super) issuer: String,
    pub(super) scopes: Vec<String>,
}

/// An authorization server.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Issuer {
    #[serde(rename = "issuer")]
    pub(super) id: String,
    #[serde(default, deserialize_with = "maybe_address")]
    pub(super) authorization_endpoint: Option<Url>,
    #[serde(deserialize_with = "address")]
    pub(super) token_endpoint: Url,
    #[serde(default, deserialize_with = "maybe_address")]
    pub(super) registration_endpoint: Option<Url>,
    #[serde(default, deserialize_with = "maybe_address")]
    pub(super) revocation_endpoint: Option<Url>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) grant_types_supported: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: Option<bool>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
}

#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
    let text = String::deserialize(from)?;
    Url::parse(&text).map_err(|error| D::Error::custom(format!("an address is none: {error}")))
}

/// An address that cannot be read is one that is not offered.
fn maybe_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| Url::parse(&text).ok()))
}

impl Issuer {
    /// OAuth 2.1, section 7.5.2: without S256 the code may be anybody's.
    pub(super) fn require_pkce(&self) -> Result<(), OAuthError> {
        let methods = self.code_challenge_methods_supported.as_deref();
        if methods.unwrap_or_default().iter().any(|one| one == "S256") {
            return Ok(());
        }
        Err(OAuthError::NoPkce {
            issuer: excerpt(self.id.as_bytes(), 200),
        })
    }

    pub(super) fn names_itself_in_redirects(&self) -> bool {
        self.authorization_response_iss_parameter_supported == Some(true)
    }

    /// Refresh tokens are asked for by a scope (SEP-2207).
    pub(super) fn offers_offline_access(&self) -> bool {
        let scopes = self.scopes_supported.as_deref().unwrap_or_default();
        scopes.iter().any(|scope| scope == "offline_access")
    }
}

/// Asks the server, or who it names in its challenge, who issues tokens for it. Without an answer
/// it issues them itself (MCP 2025-03-26).
pub(super) async fn resource(
    fetch: &Fetch,
    endpoint: &Url,
    challenge: Option<&Challenge>,
) -> Result<Resource, OAuthError> {
    let named = challenge.and_then(|challenge| challenge.resource_metadata.as_deref());
    let named = named.map(|named| {
        Url::parse(named).map_err(|_| OAuthError::Unusable {
            what: "the challenge",
            place: place(endpoint),
            reason: "its `resource_metadata` is no address".to_owned(),
        })
    });
    let usual = places_of_resource(endpoint);
    for url in named.transpose()?.into_iter().chain(usual) {
        if let Some(found) = document::<Described>(&fetch.get(&url).await?)? {
            return described(found, endpoint, &url);
        }
    }
    Ok(Resource {
        id: identifier(endpoint),
        issuer: endpoint.origin().ascii_serialization(),
        scopes: Vec::new(),
    })
}

fn described(found: Described, endpoint: &Url, from: &Url) -> Result<Resource, OAuthError> {
    let id = match found.resource {
        Some(id) if covers(&id, endpoint) => id,
        // Left out, it can only be vouched for by the server itself.
        None if from.origin() == endpoint.origin() => identifier(endpoint),
        other => {
            let found = other.unwrap_or_else(|| "no resource".to_owned());
            return Err(OAuthError::OtherResource {
                asked: identifier(endpoint),
                found: excerpt(found.as_bytes(), 200),
            });
        }
    };
    let issuer = found.authorization_servers.unwrap_or_default();
    let origin = || endpoint.origin().ascii_serialization();
    Ok(Resource {
        id,
        issuer: issuer.into_iter().next().unwrap_or_else(origin),
        scopes: found.scopes_supported.unwrap_or_default(),
    })
}

/// RFC 9728, section 3.1: the well-known part goes between host and path; then without the path.
fn places_of_resource(endpoint: &Url) -> Vec<Url> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    let mut places = Vec::new();
    if endpoint.path() != "/" {
        let mut with_path = endpoint.clone();
        with_path.set_path(&format!("{WELL_KNOWN}{}", endpoint.path()));
        with_path.set_fragment(None);
        places.push(with_path);
    }
    let mut root = bare(endpoint);
    root.set_path(WELL_KNOWN);
    places.push(root);
    places
}

/// Scheme, host and port.
fn bare(url: &Url) -> Url {
    let mut bare = url.clone();
    bare.set_path("");
    bare.set_query(None);
    bare.set_fragment(None);
    bare
}

/// RFC 8707, section 2: the address without its fragment.
pub(super) fn identifier(endpoint: &Url) -> String {
    let mut id = endpoint.clone();
    id.set_fragment(None);
    let id = id.to_string();
    if endpoint.path() == "/" && endpoint.query().is_none() {
        return id.trim_end_matches('/').to_owned();
    }
    id
}

/// The same origin, and a path that the endpoint's begins with.
fn covers(id: &str, endpoint: &Url) -> bool {
    let Ok(id) = Url::parse(id) else {
        return false;
    };
    let above = id.path().trim_end_matches('/');
    let below = endpoint.path().strip_prefix(above);
    id.origin() == endpoint.origin()
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Asks an issuer how it is used. MCP, "Authorization Server Metadata Discovery", gives the order.
pub(super) async fn issuer(fetch: &Fetch, id: &str) -> Result<Issuer, OAuthError> {
    let Ok(url) = Url::parse(id) else {
        return Err(OAuthError::Unusable {
            what: "the resource metadata",
            place: excerpt(id.as_bytes(), 200),
            reason: "the authorization server is no address".to_owned(),
        });
    };
    let places = places_of_issuer(&url);
    let mut other = None;
    for place in &places {
        let Some(found) = document::<Issuer>(&fetch.get(place).await?)? else {
            continue;
        };
        if same_issuer(id, &found.id) {
            return Ok(found);
        }
        other.get_or_insert(found.id);
    }
    Err(match other {
        Some(found) => OAuthError::OtherIssuer {
            asked: excerpt(id.as_bytes(), 200),
            found: excerpt(found.as_bytes(), 200),
        },
        None => OAuthError::NoMetadata {
            place: place(&url),
            tried: places.iter().map(Url::path).collect::<Vec<_>>().join(", "),
        },
    })
}

pub(super) fn places_of_issuer(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    let at = |path: String| {
        let mut url = bare(issuer);
        url.set_path(&path);
        url
    };
    paths.into_iter().map(at).collect()
}

/// RFC 8414, section 3.3, save for one slash at the end: libraries that keep addresses as values
/// of a URL type write one where the issuer itself has none.
pub(super) fn same_issuer(asked: &str, found: &str) -> bool {
    let bare = |id: &str| id.strip_suffix('/').unwrap_or(id).to_owned();
    bare(asked) == bare(found)
}

/// A document, if there is one. What answers every path with a page has none.
pub(super) fn document<T: for<'de> Deserialize<'de>>(
    answer: &Answer,
) -> Result<Option<T>, OAuthError> {
    let unusable = |reason| OAuthError::Unusable {
        what: "the metadata",
        place: answer.place.clone(),
        reason,
    };
    if answer.status.is_server_error() {
        return Err(unusable(format!("HTTP {}", answer.status)));
    }
    let is_json = answer.body.trim_ascii_start().first() == Some(&b'{');
    if !answer.status.is_success() || !is_json {
        return Ok(None);
    }
    serde_json::from_slice(&answer.body)
        .map(Some)
        .map_err(|error| unusable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn shown(places: &[Url]) -> String {
        places.iter().map(Url::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn where_documents_are_looked_for() {
        assert_eq!(
            shown(&places_of_resource(&url("https://h.example:8/a/mcp"))),
            "https://h.example:8/.well-known/oauth-protected-resource/a/mcp \
             https://h.example:8/.well-known/oauth-protected-resource"
        );
        assert_eq!(
            shown(&places_of_resource(&url("https://h.example"))),
            "https://h.example/.well-known/oauth-protected-resource"
        );
        assert_eq!(
            shown(&places_of_issuer(&url("https://as.example/tenant1/"))),
            "https://as.example/.well-known/oauth-authorization-server/tenant1 \
             https://as.example/.well-known/openid-configuration/tenant1 \
             https://as.example/tenant1/.well-known/openid-configuration"
        );
        assert_eq!(
            shown(&places_of_issuer(&url("https://as.example"))),
            "https://as.example/.well-known/oauth-authorization-server \
             https://as.example/.well-known/openid-configuration"
        );
    }

    #[test]
    fn a_resource_covers_what_is_below_it() {
        let endpoint = url("https://h.example/a/mcp");
        for (id, covered) in [
            ("https://h.example/a/mcp", true),
            ("https://h.example/a/", true),
            ("https://h.example", true),
            ("https://h.example:443/a", true),
            ("https://h.example/a/m", false),
            ("https://h.example/b", false),
            ("http://h.example/a/mcp", false),
            ("https://other.example/a/mcp", false),
            ("h.example", false),
        ] {
            assert_eq!(covers(id, &endpoint), covered, "{id}");
        }
    }

    #[test]
    fn one_slash_is_no_other_issuer() {
        assert!(same_issuer("https://as.example", "https://as.example/"));
        assert!(!same_issuer("https://as.example", "https://as.example//"));
        assert!(!same_issuer("https://as.example", "https://AS.example"));
        assert!(!same_issuer("https://as.example/a", "https://as.example/b"));
    }
}

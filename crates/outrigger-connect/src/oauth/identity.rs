//! As which client to ask: one that was registered before, a metadata document (SEP-991), or one
//! that registers itself (RFC 7591), in this order.

use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fetch::{Fetch, Load};
use super::metadata::Issuer;
use super::token::refusal;
use super::{OAuthError, OAuthSettings, Secret};
use crate::text::excerpt;

/// A client, as one issuer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Secret>,
    pub(super) proof: Proof,
    /// Registered by itself, for this redirect address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) registered_for: Option<String>,
}

/// How a client proves who it is at the token endpoint (RFC 7591, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Proof {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

impl Proof {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    /// Which way a client with a secret takes. What is not said is `client_secret_basic` (RFC 8414,
    /// section 2).
    fn with_secret(issuer: &Issuer) -> Self {
        let Some(offered) = &issuer.token_endpoint_auth_methods_supported else {
            return Self::Basic;
        };
        [Self::Basic, Self::Post, Self::None]
            .into_iter()
            .find(|proof| offered.iter().any(|one| one == proof.word()))
            .unwrap_or(Self::Basic)
    }

    /// What a client asks for that could do without a secret.
    fn to_register(issuer: &Issuer) -> Self {
        match &issuer.token_endpoint_auth_methods_supported {
            Some(offered) if !offered.iter().any(|one| one == "none") => Self::with_secret(issuer),
            _ => Self::None,
        }
    }
}

/// A client of the configuration, if it holds one that this issuer takes.
pub(super) fn configured(settings: &OAuthSettings, issuer: &Issuer) -> Option<Client> {
    let takes_documents = issuer.client_id_metadata_document_supported == Some(true);
    if let Some(id) = settings.registered() {
        let proof = match settings.client_secret {
            Some(_) => Proof::with_secret(issuer),
            None => Proof::None,
        };
        return Some(Client {
            id: id.to_owned(),
            secret: settings.client_secret.clone(),
            proof,
            registered_for: None,
        });
    }
    let document = settings.document().filter(|_| takes_documents)?;
    Some(Client {
        id: document.to_owned(),
        secret: None,
        proof: Proof::None,
        registered_for: None,
    })
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<Secret>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

/// Registers a client for one redirect address.
pub(super) async fn register(
    fetch: &Fetch,
    issuer: &Issuer,
    redirect: &str,
    scopes: &[String],
) -> Result<Client, OAuthError> {
    let Some(endpoint) = &issuer.registration_endpoint else {
        return Err(OAuthError::NoClient {
            issuer: excerpt(issuer.id.as_bytes(), 200),
        });
    };
    let proof = Proof::to_register(issuer);
    let grants = issuer.grant_types_supported.as_deref();
    let refreshes = grants.is_none_or(|grants| grants.iter().any(|one| one == "refresh_token"));
    let grants: &[&str] = if refreshes {
        &["authorization_code", "refresh_token"]
    } else {
        &["authorization_code"]
    };
    let mut wanted = json!({
        "client_name": "Outrigger",
        "redirect_uris": [redirect],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": proof.word(),
        "application_type": "native",
    });
    if !scopes.is_empty() {
        wanted["scope"] = scopes.join(" ").into();
    }
    let load = Load::Json(wanted.to_string());
    let answer = fetch.post(endpoint, load, None).await?;
    if let Some(refused) = refusal(&answer, "the registration of a client") {
        return Err(refused);
    }
    let registered: Registered =
        serde_json::from_slice(&answer.body).map_err(|error| OAuthError::Unusable {
            what: "the registration of a client",
            place: answer.place.clone(),
            reason: error.to_string(),
        })?;
    let given = [Proof::None, Proof::Basic, Proof::Post]
        .into_iter()
        .find(|proof| Some(proof.word()) == registered.token_endpoint_auth_method.as_deref());
    let usual = match registered.client_secret {
        Some(_) => Proof::with_secret(issuer),
        None => Proof::None,
    };
    Ok(Client {
        id: registered.client_id,
        secret: registered.client_secret,
        proof: given.unwrap_or(usual),
        registered_for: Some(redirect.to_owned()),
    })
}

impl Client {
    /// Adds what the token endpoint wants to know: to the form, or as the header returned.
    pub(super) fn prove(&self, form: &mut Vec<(&'static str, String)>) -> Option<HeaderValue> {
        use base64::Engine as _;
        let secret = self.secret.as_ref().map(Secret::reveal);
        match (self.proof, secret) {
            (Proof::Basic, Some(secret)) => {
                // RFC 6749, section 2.3.1: encoded as a form before it is encoded as base64.
                let both = format!("{}:{}", encode(&self.id), encode(secret));
                let both = base64::engine::general_purpose::STANDARD.encode(both);
                let mut header = HeaderValue::from_str(&format!("Basic {both}")).ok()?;
                header.set_sensitive(true);
                Some(header)
            }
            (Proof::Post, Some(secret)) => {
                form.push(("client_id", self.id.clone()));
                form.push(("client_secret", secret.to_owned()));
                None
            }
            _ => {
                form.push(("client_id", self.id.clone()));
                None
            }
        }
    }
}

fn encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(methods: Option<&[&str]>, documents: bool) -> Issuer {
        let mut json = json!({
            "issuer": "https://as.example",
            "token_endpoint": "https://as.example/token",
            "client_id_metadata_document_supported": documents,
        });
        if let Some(methods) = methods {
            json["token_endpoint_auth_methods_supported"] = methods.into();
        }
        serde_json::from_value(json).unwrap()
    }

    fn settings(id: &str, secret: Option<&str>) -> OAuthSettings {
        OAuthSettings {
            client_id: Some(id.to_owned()),
            client_secret: secret.map(Secret::new),
            ..OAuthSettings::default()
        }
    }

    #[test]
    fn a_secret_goes_the_way_that_is_offered() {
        for (methods, proof) in [
            (None, Proof::Basic),
            (Some(["client_secret_post"].as_slice()), Proof::Post),
            (
                Some(["client_secret_post", "client_secret_basic"].as_slice()),
                Proof::Basic,
            ),
            (Some(["none"].as_slice()), Proof::None),
        ] {
            let client = configured(&settings("id", Some("s")), &issuer(methods, false)).unwrap();
            assert_eq!(client.proof, proof, "{methods:?}");
        }
        let client = configured(&settings("id", None), &issuer(None, false)).unwrap();
        assert_eq!(client.proof, Proof::None);
    }

    #[test]
    fn a_document_counts_only_where_documents_are_taken() {
        let document = settings("https://me.example/client.json", None);
        assert!(configured(&document, &issuer(None, false)).is_none());
        let client = configured(&document, &issuer(None, true)).unwrap();
        assert_eq!(client.id, "https://me.example/client.json");
    }

    #[test]
    fn id_and_secret_are_encoded_before_they_are_joined() {
        let mut form = Vec::new();
        let client = configured(&settings("a:b", Some("c d")), &issuer(None, false)).unwrap();
        let header = client.prove(&mut form).unwrap();
        // `a%3Ab:c+d`
        assert_eq!(header.to_str().unwrap(), "Basic YSUzQWI6Yytk");
        assert!(header.is_sensitive());
        assert!(form.is_empty());
    }
}

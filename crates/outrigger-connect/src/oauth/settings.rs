//! What configuration says about signing in at one server.

use super::Secret;

/// How to be a client of a server's authorization server. All of it is optional: a client that
/// nobody has registered registers itself, where that is offered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// A client that was registered before, or the `https` address of a client id metadata document
    /// (SEP-991), which is used where the authorization server takes such documents.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// The scopes to ask for; empty: those that the server asks for.
    pub scopes: Vec<String>,
    /// How tokens are got.
    pub flow: OAuthFlow,
}

/// How tokens are got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OAuthFlow {
    /// A person signs in (RFC 6749, section 4.1, with RFC 7636).
    #[default]
    AuthorizationCode,
    /// The client signs in for itself (RFC 6749, section 4.4); needs `client_id` and
    /// `client_secret`.
    ClientCredentials,
}

impl OAuthSettings {
    /// The configured client id, where it is the address of a metadata document.
    pub(super) fn document(&self) -> Option<&str> {
        let id = self.client_id.as_deref()?;
        let url = url::Url::parse(id).ok()?;
        (url.scheme() == "https" && url.path().len() > 1).then_some(id)
    }

    /// The configured client id, where it was registered before.
    pub(super) fn registered(&self) -> Option<&str> {
        let id = self.client_id.as_deref()?;
        self.document().is_none().then_some(id)
    }
}

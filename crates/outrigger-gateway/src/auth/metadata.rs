//! What is told of this gateway as a protected resource, and where that is told.
//!
//! Source: RFC 9728; MCP, "Protected Resource Metadata Discovery Requirements".

use outrigger_host::config::GatewaySettings;
use serde_json::json;

/// Where it is.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The address that clients reach, where `Host` names this; `path` is the endpoint's.
fn resource(access: &GatewaySettings, host: &str, path: &str) -> String {
    match &access.url {
        Some(url) => url.value.to_string(),
        None => format!("http://{host}{path}"),
    }
}

/// The document; `None` where no authorization server is known.
pub(crate) fn document(access: &GatewaySettings, host: &str, path: &str) -> Option<String> {
    let oauth = access.oauth.as_ref()?;
    let mut document = json!({
        "resource": resource(access, host, path),
        "authorization_servers": [oauth.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Outrigger",
    });
    if !oauth.scopes.is_empty() {
        document["scopes_supported"] = json!(oauth.scopes);
    }
    Some(document.to_string())
}

/// The address of the document (RFC 9728, section 3.1: the well-known part goes between host and path).
pub(super) fn place(access: &GatewaySettings, host: &str, path: &str) -> Option<String> {
    access.oauth.as_ref()?;
    Some(match &access.url {
        Some(url) => {
            let origin = url.value.origin().ascii_serialization();
            let path = url.value.path().trim_end_matches('/');
            format!("{origin}{WELL_KNOWN}{path}")
        }
        None => format!("http://{host}{WELL_KNOWN}{path}"),
    })
}

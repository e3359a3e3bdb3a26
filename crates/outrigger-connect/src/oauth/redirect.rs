//! What the page to sign in on leads back with (RFC 6749, section 4.1.2; RFC 9207).
//!
//! Promises: nothing in a redirect is believed, its errors neither, before `state` and `iss` are
//! right. Issuers are compared as text, without any normalisation.

use url::form_urlencoded;

use super::error::Description;
use super::metadata::Issuer;
use super::{OAuthError, Secret};
use crate::text::excerpt;

/// The code of a redirect that belongs to this visit.
pub(super) fn code(query: &str, state: &Secret, issuer: &Issuer) -> Result<Secret, OAuthError> {
    let mut found = Found::default();
    for (name, value) in form_urlencoded::parse(query.trim_start_matches('?').as_bytes()) {
        let slot = match name.as_ref() {
            "state" => &mut found.state,
            "iss" => &mut found.iss,
            "code" => &mut found.code,
            "error" => &mut found.error,
            "error_description" => &mut found.description,
            _ => continue,
        };
        slot.get_or_insert_with(|| value.into_owned());
    }
    if found.state.as_deref() != Some(state.reveal()) {
        return Err(OAuthError::State);
    }
    let right = match found.iss.as_deref() {
        Some(iss) => iss == issuer.id,
        None => !issuer.names_itself_in_redirects(),
    };
    if !right {
        let named = |iss: &str| format!("`{}`", excerpt(iss.as_bytes(), 200));
        return Err(OAuthError::Issuer {
            expected: excerpt(issuer.id.as_bytes(), 200),
            found: found.iss.as_deref().map_or("nobody".to_owned(), named),
        });
    }
    if let Some(error) = found.error {
        return Err(OAuthError::Refused {
            what: "to sign in",
            error: excerpt(error.as_bytes(), 60),
            description: Description::of(found.description.as_deref()),
        });
    }
    let code = found.code.filter(|code| !code.is_empty());
    code.map(Secret::new).ok_or(OAuthError::NoCode)
}

#[derive(Default)]
struct Found {
    state: Option<String>,
    iss: Option<String>,
    code: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(query: &str, advertised: bool) -> String {
        let issuer = serde_json::from_value(json!({
            "issuer": "https://as.example",
            "token_endpoint": "https://as.example/token",
            "authorization_response_iss_parameter_supported": advertised,
        }));
        match code(query, &Secret::new("s-1"), &issuer.unwrap()) {
            Ok(code) => code.reveal().to_owned(),
            Err(OAuthError::State) => "state".to_owned(),
            Err(OAuthError::Issuer { found, .. }) => found,
            Err(OAuthError::Refused { error, .. }) => error,
            Err(OAuthError::NoCode) => "no code".to_owned(),
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_believed_before_state_and_issuer() {
        let iss = "&iss=https%3A%2F%2Fas.example";
        assert_eq!(judged(&format!("code=c&state=s-1{iss}"), true), "c");
        assert_eq!(judged(&format!("?code=c&state=s-1{iss}"), false), "c");
        assert_eq!(judged("code=c&state=s-1", false), "c");
        assert_eq!(judged("code=c&state=s-1", true), "nobody");
        assert_eq!(
            judged("code=c&state=s-1&iss=https://evil.example", false),
            "`https://evil.example`"
        );
        assert_eq!(
            judged("code=c&state=s-1&iss=https://as.example/", true),
            "`https://as.example/`"
        );
        assert_eq!(judged("code=c&state=s-2", false), "state");
        assert_eq!(judged("code=c", false), "state");
        assert_eq!(judged("error=access_denied&state=s-2", false), "state");
        assert_eq!(judged("error=access_denied&state=s-1", true), "nobody");
        assert_eq!(
            judged("error=access_denied&state=s-1", false),
            "access_denied"
        );
        assert_eq!(judged("state=s-1", false), "no code");
        assert_eq!(judged("code=&state=s-1", false), "no code");
    }
}

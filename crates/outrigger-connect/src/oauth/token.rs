//! Requests to the token endpoint and what comes back (RFC 6749, sections 4 to 6).

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::error::Description;
use super::fetch::{Answer, Fetch, Load};
use super::identity::Client;
use super::metadata::Issuer;
use super::{OAuthError, Secret};
use crate::text::excerpt;

/// A token as it was issued.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) access_token: Secret,
    pub(super) lives: Option<Duration>,
    pub(super) refresh_token: Option<Secret>,
    /// `None`: all that was asked for.
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Shape {
    access_token: Secret,
    token_type: String,
    #[serde(default)]
    expires_in: Option<Value>,
    #[serde(default)]
    refresh_token: Option<Secret>,
    #[serde(default)]
    scope: Option<String>,
}

/// Asks for a token for `resource` (RFC 8707).
pub(super) async fn request(
    fetch: &Fetch,
    issuer: &Issuer,
    client: &Client,
    mut form: Vec<(&'static str, String)>,
    resource: &str,
) -> Result<Issued, OAuthError> {
    form.push(("resource", resource.to_owned()));
    let header = client.prove(&mut form);
    let load = Load::Form(encode(&form));
    let answer = fetch.post(&issuer.token_endpoint, load, header).await?;
    if let Some(refused) = refusal(&answer, "a token") {
        return Err(refused);
    }
    read(&answer)
}

/// Tells the issuer that a token is not used any more (RFC 7009). Whether it listens is its affair.
pub(super) async fn revoke(
    fetch: &Fetch,
    issuer: &Issuer,
    client: &Client,
    token: &Secret,
) -> Result<bool, OAuthError> {
    let Some(endpoint) = &issuer.revocation_endpoint else {
        return Ok(false);
    };
    let mut form = vec![("token", token.reveal().to_owned())];
    let header = client.prove(&mut form);
    let answer = fetch
        .post(endpoint, Load::Form(encode(&form)), header)
        .await?;
    Ok(answer.status.is_success())
}

fn encode(form: &[(&'static str, String)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form)
        .finish()
}

fn read(answer: &Answer) -> Result<Issued, OAuthError> {
    let unusable = |reason: String| OAuthError::Unusable {
        what: "the token",
        place: answer.place.clone(),
        reason,
    };
    // What serde says of a mismatch can repeat the value, which is a secret here.
    let shape: Shape = serde_json::from_slice(&answer.body)
        .map_err(|error| unusable(format!("it is no token answer (column {})", error.column())))?;
    if !shape.token_type.eq_ignore_ascii_case("bearer") {
        let kind = excerpt(shape.token_type.as_bytes(), 40);
        return Err(unusable(format!("its type is `{kind}`, not `Bearer`")));
    }
    let token = shape.access_token.reveal();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unusable("no header can carry it".to_owned()));
    }
    let lives = match shape.expires_in {
        Some(Value::Number(seconds)) => seconds.as_f64(),
        Some(Value::String(seconds)) => seconds.parse().ok(),
        _ => None,
    };
    let scopes = shape.scope.map(|scope| {
        let scopes = scope.split_ascii_whitespace();
        scopes.map(str::to_owned).collect()
    });
    Ok(Issued {
        access_token: shape.access_token,
        lives: lives.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        refresh_token: shape.refresh_token,
        scopes,
    })
}

/// The error in an answer, whatever its status: some servers refuse with 200.
pub(super) fn refusal(answer: &Answer, what: &'static str) -> Option<OAuthError> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        #[serde(default)]
        error_description: Option<String>,
    }
    if let Ok(refusal) = serde_json::from_slice::<Refusal>(&answer.body) {
        return Some(OAuthError::Refused {
            what,
            error: excerpt(refusal.error.as_bytes(), 60),
            description: Description::of(refusal.error_description.as_deref()),
        });
    }
    if answer.status.is_success() {
        return None;
    }
    Some(OAuthError::Unusable {
        what,
        place: answer.place.clone(),
        reason: format!("HTTP {}", answer.status),
    })
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            body: body.to_owned().into(),
            place: "https://as.example".to_owned(),
        }
    }

    #[test]
    fn lifetimes_are_numbers_or_text() {
        for (written, lives) in [
            ("2", Some(2)),
            ("\"60\"", Some(60)),
            ("null", None),
            ("-1", None),
            ("1e400", None),
        ] {
            let body =
                format!(r#"{{"access_token":"a","token_type":"bearer","expires_in":{written}}}"#);
            let issued = read(&answer(200, &body)).ok();
            assert_eq!(
                issued.and_then(|issued| issued.lives),
                lives.map(Duration::from_secs),
                "{written}"
            );
        }
    }

    #[test]
    fn no_error_repeats_a_token() {
        for body in [
            r#"{"access_token":"very-secret","token_type":"mac"}"#,
            r#"{"access_token":"very-secret\n","token_type":"Bearer"}"#,
            r#"{"access_token":["very-secret"],"token_type":"Bearer"}"#,
            r#"{"access_token":"x","refresh_token":{"very-secret":1},"token_type":"Bearer"}"#,
            r#""very-secret""#,
        ] {
            let error = read(&answer(200, body)).unwrap_err();
            assert!(
                !format!("{error} {error:?}").contains("very-secret"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_refusal_counts_whatever_its_status() {
        let refused = refusal(&answer(200, r#"{"error":"bad_code"}"#), "a token").unwrap();
        assert!(matches!(refused, OAuthError::Refused { error, .. } if error == "bad_code"));
        let refused = refusal(
            &answer(
                400,
                r#"{"error":"invalid_grant","error_description":"gone"}"#,
            ),
            "a token",
        );
        assert_eq!(
            refused.unwrap().to_string(),
            "the authorization server refused a token: invalid_grant (gone)"
        );
        assert!(refusal(&answer(502, "<html>"), "a token").is_some());
        assert!(refusal(&answer(201, "{}"), "a token").is_none());
    }
}

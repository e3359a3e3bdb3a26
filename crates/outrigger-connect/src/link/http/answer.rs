//! What an HTTP answer is when it is not plainly the answer to the request.
//!
//! Promises: the words name status, content type and what the body says, with control characters
//! escaped. A JSON-RPC message in the body counts more than the status, except where the status is
//! about the connection itself (401, 403, and 404 for a session).

use reqwest::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};

use crate::rpc::{Failure, HttpAnswer};
use crate::text::excerpt;

const WORDS: usize = 200;

/// Bytes of the body that are looked at.
const BODY: usize = 4096;

/// What is known before the body has come.
pub(super) struct Facts {
    status: StatusCode,
    content_type: String,
    challenge: Option<String>,
    had_session: bool,
    hint: Option<String>,
}

/// What a person could do about an answer; travels with it.
#[derive(Clone)]
pub(super) struct Hint(pub(super) String);

impl Facts {
    pub(super) fn of(answer: &Response, had_session: bool) -> Self {
        let header = |name| {
            answer
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        Self {
            status: answer.status(),
            content_type: header(CONTENT_TYPE).to_ascii_lowercase(),
            challenge: Some(header(WWW_AUTHENTICATE).to_owned()).filter(|text| !text.is_empty()),
            had_session,
            hint: answer.extensions().get::<Hint>().map(|hint| hint.0.clone()),
        }
    }

    pub(super) fn is_event_stream(&self) -> bool {
        self.status.is_success() && self.content_type.starts_with("text/event-stream")
    }

    /// Why this is no answer; `None` when the text is to be read as one.
    pub(super) fn judge(&self, body: &[u8]) -> Option<Failure> {
        let text = super::exchange::strip(body);
        let looks_json = matches!(text.first(), Some(b'{' | b'['));
        let is_rpc = looks_json && memchr::memmem::find(text, b"\"jsonrpc\"").is_some();
        if matches!(self.status.as_u16(), 401 | 403) {
            return Some(Failure::Http(self.words(text)));
        }
        if self.had_session && self.lost_session(text) {
            return Some(Failure::SessionLost(self.words(text)));
        }
        let readable = is_rpc
            || (looks_json && self.status.is_success() && self.content_type.contains("json"));
        if readable {
            None
        } else {
            Some(Failure::Http(self.words(text)))
        }
    }

    /// Why this is not the event stream that was asked for.
    pub(super) fn no_stream(&self, body: &[u8]) -> Failure {
        Failure::Http(self.words(super::exchange::strip(body)))
    }

    /// 404 by the specification; some servers say 400 and name the session in words.
    fn lost_session(&self, text: &[u8]) -> bool {
        if self.status == StatusCode::NOT_FOUND {
            return true;
        }
        let text = String::from_utf8_lossy(&text[..text.len().min(BODY)]).to_ascii_lowercase();
        let about_arguments = text.contains("-32602") || text.contains("-32603");
        self.status == StatusCode::BAD_REQUEST
            && !about_arguments
            && text.contains("session")
            && [
                "not found",
                "invalid",
                "expired",
                "unknown",
                "terminated",
                "no valid",
                "missing",
                "not exist",
            ]
            .iter()
            .any(|word| text.contains(word))
    }

    fn words(&self, text: &[u8]) -> HttpAnswer {
        let kind = if self.content_type.is_empty() {
            "no content type"
        } else {
            &self.content_type
        };
        let said = if text.is_empty() {
            "an empty body".to_owned()
        } else {
            excerpt(text, WORDS)
        };
        let metadata = self.challenge.as_deref().and_then(resource_metadata);
        let hint = metadata
            .map(|url| format!(" (resource_metadata: {url})"))
            .unwrap_or_default();
        HttpAnswer {
            status: self.status.as_u16(),
            message: format!(
                "HTTP {} with {}: {said}{hint}",
                self.status,
                excerpt(kind.as_bytes(), 60)
            ),
            body: String::from_utf8_lossy(&text[..text.len().min(BODY)]).into_owned(),
            redirect: false,
            hint: self.hint.clone(),
            no_token: false,
        }
    }
}

/// The `resource_metadata` parameter of a challenge (RFC 9728, section 5.1).
fn resource_metadata(challenge: &str) -> Option<String> {
    let at = challenge.to_ascii_lowercase().find("resource_metadata")?;
    let value = challenge
        .get(at + "resource_metadata".len()..)?
        .trim_start()
        .strip_prefix('=')?
        .trim_start();
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => value.split([',', ' ']).next()?,
    };
    Some(excerpt(value.as_bytes(), 500)).filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_name_their_metadata() {
        let quoted =
            r#"Bearer error="invalid_token", resource_metadata="https://a.example/x", scope="y""#;
        assert_eq!(
            resource_metadata(quoted).as_deref(),
            Some("https://a.example/x")
        );
        assert_eq!(
            resource_metadata("Bearer Resource_Metadata=https://b.example, a=b").as_deref(),
            Some("https://b.example")
        );
        assert_eq!(resource_metadata("Basic realm=x"), None);
    }
}

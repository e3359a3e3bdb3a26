//! What went wrong with a request, in the provider's words and ours, before it becomes a
//! [`ModelError`].
//!
//! Reads the error shapes of all providers (they differ less than their successes do) and decides
//! the kind, and whether sending again could help. Whether it is still *safe* is the transport's.

use std::time::Duration;

use outrigger_model::{ModelError, ModelErrorKind};
use reqwest::StatusCode;
use serde_json::Value;

use super::Secret;

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: ModelErrorKind,
    pub(super) message: String,
    pub(super) hints: Vec<String>,
    pub(super) retry: Retry,
}

/// Whether the same request could succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    No,
    /// Yes, after a wait of our choosing.
    Backoff,
    /// Yes, after the wait that the provider named.
    After(Duration),
}

impl Failure {
    pub(super) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hints: Vec::new(),
            retry: Retry::No,
        }
    }

    pub(super) fn retryable(mut self) -> Self {
        self.retry = Retry::Backoff;
        self
    }

    /// The provider spoke, but not its protocol. The transport adds status and content type.
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Malformed, what)
    }

    /// Nothing arrived for as long as we wait; not repeated, because that would take as long again.
    pub(super) fn silent(idle: Duration, begun: bool) -> Self {
        let seconds = idle.as_secs_f64();
        let mut failure = if begun {
            Self::new(
                ModelErrorKind::Interrupted,
                format!("the stream stood still for {seconds} s"),
            )
        } else {
            Self::new(
                ModelErrorKind::Unavailable,
                format!("the server sent nothing for {seconds} s"),
            )
        };
        failure
            .hints
            .push("a model that needs longer to begin needs a longer idle timeout".to_owned());
        failure
    }

    /// A failure that the provider described, either with a status or inside its stream.
    pub(super) fn described(words: ProviderWords, asked: Option<Duration>) -> Self {
        let asked = asked.or(words.retry_after);
        let (kind, retry) = classify(&words, asked);
        let message = match words
            .status
            .and_then(|code| StatusCode::from_u16(code).ok())
        {
            Some(status) => format!("{} ({status})", words.message),
            None => words.message,
        };
        Self {
            kind,
            message,
            hints: Vec::new(),
            retry,
        }
    }
}

/// What a provider says about an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProviderWords {
    /// For a person.
    pub(super) message: String,
    /// `type`, `code` and `status` in lower case, joined by spaces.
    pub(super) codes: String,
    /// An HTTP status, from the response or from a number in the body.
    pub(super) status: Option<u16>,
    /// A wait named in the body (Gemini's `RetryInfo`).
    pub(super) retry_after: Option<Duration>,
}

impl ProviderWords {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, `{"message": …}`, `{"detail": …}`, or the first
    /// entry of a list of these. Nothing, if it does not look like an error.
    pub(super) fn read(body: &Value) -> Option<Self> {
        let body = body.get(0).unwrap_or(body);
        let error = body
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(body);
        let message = match error {
            Value::String(text) => text.clone(),
            error => ["message", "detail", "error_msg"].iter().find_map(|key| {
                match error.get(key)? {
                    Value::String(text) => Some(text.clone()),
                    Value::Null => None,
                    other => Some(other.to_string()),
                }
            })?,
        };
        let mut words = Self {
            message: deepest_message(&message),
            ..Self::default()
        };
        for key in ["type", "code", "status"] {
            match error.get(key) {
                Some(Value::String(text)) => {
                    words.codes.push_str(&text.to_ascii_lowercase());
                    words.codes.push(' ');
                }
                Some(Value::Number(number)) => {
                    words.status = number
                        .as_u64()
                        .and_then(|code| u16::try_from(code).ok())
                        .filter(|code| *code >= 400);
                }
                _ => {}
            }
        }
        for detail in error
            .get("details")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let delay = detail.get("retryDelay").and_then(Value::as_str);
            let seconds = delay.and_then(|text| text.trim_end_matches('s').parse::<f64>().ok());
            words.retry_after = words
                .retry_after
                .or(seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()));
        }
        Some(words)
    }
}

/// Routers wrap the error of the provider behind them as JSON text in `message`.
fn deepest_message(message: &str) -> String {
    let nested = serde_json::from_str::<Value>(message)
        .ok()
        .as_ref()
        .and_then(ProviderWords::read);
    nested.map_or_else(|| message.trim().to_owned(), |words| words.message)
}

fn classify(words: &ProviderWords, asked: Option<Duration>) -> (ModelErrorKind, Retry) {
    let message = words.message.to_lowercase();
    let said = |needles: &[&str]| needles.iter().any(|needle| message.contains(needle));
    let coded = |needles: &[&str]| needles.iter().any(|needle| words.codes.contains(needle));
    let status = words.status.unwrap_or(0);
    let later = asked.map_or(Retry::Backoff, Retry::After);
    if status == 413
        || coded(&["context_length", "request_too_large", "exceed_context_size"])
        || said(&[
            "context length",
            "context window",
            "maximum context",
            "prompt is too long",
            "context size",
        ])
        || said(&[
            "input token count",
            "too many input tokens",
            "input is too long",
        ])
    {
        return (ModelErrorKind::ContextTooLong, Retry::No);
    }
    if status == 402
        || coded(&["insufficient_quota", "billing"])
        || said(&["insufficient balance", "credit balance is too low"])
    {
        return (ModelErrorKind::RateLimited { retry_after: None }, Retry::No);
    }
    if matches!(status, 401 | 403)
        || coded(&[
            "authentication",
            "invalid_api_key",
            "permission",
            "unauthenticated",
        ])
        || said(&["api key not valid", "invalid api key", "incorrect api key"])
    {
        return (ModelErrorKind::Unauthorized, Retry::No);
    }
    if status == 429 || coded(&["rate_limit", "resource_exhausted", "too_many_requests"]) {
        return (ModelErrorKind::RateLimited { retry_after: asked }, later);
    }
    if status == 408
        || status >= 500
        || coded(&[
            "overloaded",
            "server_error",
            "api_error",
            "internal",
            "unavailable",
            "timeout",
            "deadline",
        ])
    {
        return (ModelErrorKind::Unavailable, later);
    }
    (ModelErrorKind::Rejected, Retry::No)
}

/// Whose failure it is, for the words around it.
#[derive(Debug)]
pub(super) struct Subject {
    /// `provider:name`.
    pub(super) id: String,
    /// Without credentials.
    pub(super) base_url: String,
    pub(super) loopback: bool,
    pub(super) key: Option<Secret>,
    /// Everything that must not appear in a text, the key included.
    pub(super) secrets: Vec<Secret>,
}

impl Subject {
    /// `text` without any secret.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.secrets
            .iter()
            .fold(text.to_owned(), |text, secret| secret.scrub(&text))
    }

    /// The failure as the caller sees it: scrubbed, and with what a person could do.
    pub(super) fn error(&self, failure: Failure) -> ModelError {
        let mut hints = failure.hints;
        let about_search = ["tool_search", "defer_loading", "Tool reference"];
        if about_search
            .iter()
            .any(|word| failure.message.contains(word))
        {
            let hint = "`--tool-search host` has this program find tools instead of the provider";
            hints.push(hint.to_owned());
        }
        hints.extend(self.hints(failure.kind));
        ModelError {
            kind: failure.kind,
            model: self.id.clone(),
            message: self.scrub(&failure.message),
            hints: hints.iter().map(|hint| self.scrub(hint)).collect(),
        }
    }

    fn provider(&self) -> &str {
        self.id.split(':').next().unwrap_or(&self.id)
    }

    fn hints(&self, kind: ModelErrorKind) -> Vec<String> {
        let provider = self.provider();
        let hint = match kind {
            ModelErrorKind::Unauthorized => match &self.key {
                Some(key) => format!(
                    "the key came from {}; check that it is current and meant for {}",
                    key.origin(),
                    self.base_url
                ),
                None => format!(
                    "no key was sent to {}; configure one for `{provider}`",
                    self.base_url
                ),
            },
            ModelErrorKind::RateLimited {
                retry_after: Some(wait),
            } => {
                format!(
                    "ask again in {} s, or choose another model with `--model`",
                    wait.as_secs().max(1)
                )
            }
            ModelErrorKind::RateLimited { retry_after: None } => {
                format!(
                    "check the quota and billing of your `{provider}` account, or choose another model with `--model`"
                )
            }
            ModelErrorKind::Unavailable if provider == "ollama" => {
                format!(
                    "is Ollama running at {}? `ollama serve` starts it",
                    self.base_url
                )
            }
            ModelErrorKind::Unavailable if self.loopback => {
                format!("is the model server running at {}?", self.base_url)
            }
            ModelErrorKind::Unavailable => {
                format!("check the network and the base URL {}", self.base_url)
            }
            ModelErrorKind::ContextTooLong => {
                "start a new conversation, or choose a model with a larger context with `--model`"
                    .to_owned()
            }
            ModelErrorKind::Rejected if provider == "ollama" => {
                "`ollama list` shows the installed models, `ollama pull NAME` installs one"
                    .to_owned()
            }
            ModelErrorKind::Rejected => format!("another model: `--model {provider}:NAME`"),
            ModelErrorKind::Interrupted => {
                "ask again; nothing of the broken answer was kept".to_owned()
            }
            ModelErrorKind::Malformed => {
                format!(
                    "check that the base URL {} is the API of `{provider}`",
                    self.base_url
                )
            }
        };
        vec![hint]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(body: &Value, status: u16) -> (ModelErrorKind, Retry) {
        let mut words = ProviderWords::read(body).unwrap();
        words.status = words.status.or(Some(status));
        let failure = Failure::described(words, None);
        (failure.kind, failure.retry)
    }

    #[test]
    fn the_errors_of_the_providers_are_told_apart() {
        use ModelErrorKind as K;
        let long = json!({"error": {"message": "too much", "type": "invalid_request_error", "code": "context_length_exceeded"}});
        assert_eq!(kind(&long, 400), (K::ContextTooLong, Retry::No));
        let long = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 201 tokens > 200 maximum"}});
        assert_eq!(kind(&long, 400), (K::ContextTooLong, Retry::No));
        let quota =
            json!({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}});
        assert_eq!(
            kind(&quota, 429),
            (K::RateLimited { retry_after: None }, Retry::No)
        );
        let key = json!({"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}});
        assert_eq!(kind(&key, 400), (K::Unauthorized, Retry::No));
        let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(kind(&overloaded, 0), (K::Unavailable, Retry::Backoff));
        let unknown = json!({"error": {"message": "The model `x` does not exist", "code": "model_not_found"}});
        assert_eq!(kind(&unknown, 404), (K::Rejected, Retry::No));
        let delay = json!([{"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]}}]);
        let wait = Duration::from_millis(1500);
        assert_eq!(
            kind(&delay, 429),
            (
                K::RateLimited {
                    retry_after: Some(wait)
                },
                Retry::After(wait)
            )
        );
    }

    #[test]
    fn messages_are_found_wherever_they_are() {
        let message = |body: Value| ProviderWords::read(&body).map(|words| words.message);
        assert_eq!(
            message(json!({"error": "model not found"})).as_deref(),
            Some("model not found")
        );
        assert_eq!(
            message(json!({"detail": [{"loc": 1}]})).as_deref(),
            Some(r#"[{"loc":1}]"#)
        );
        assert_eq!(
            message(json!({"message": r#"{"error":{"message":"inner"}}"#})).as_deref(),
            Some("inner")
        );
        assert_eq!(message(json!({"choices": []})), None);
    }
}

//! One turn over HTTP: send, wait, send again while that is safe, read the stream.
//!
//! The same for all formats. Safe means: nothing but [`ModelEvent::Retrying`] was yielded yet. A
//! turn that breaks later ends with an error, because what was shown cannot be taken back. Dropping
//! the stream drops the connection.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{
    DeclaredTool, Model, ModelError, ModelErrorKind, ModelEvent, ModelLimits, ModelRequest,
    ModelStream, ToolDeclaration, ToolSearch,
};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;

use super::declared::{Declared, Declarer};
use super::failure::{Failure, ProviderWords, Retry, Subject};
use super::reading::{Reading, about, bounded_body, snippet};
use super::retry;
use super::wire::{Progress, Wire};

/// A model behind an HTTP endpoint.
pub(super) struct HttpModel {
    inner: Arc<Inner>,
}

/// What all turns of one model share.
pub(super) struct Inner {
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) wire: Box<dyn Wire>,
    pub(super) declarer: Declarer,
    pub(super) subject: Subject,
    pub(super) limits: ModelLimits,
    pub(super) tool_search: Result<ToolSearch, String>,
    pub(super) max_retries: u32,
    pub(super) longest_wait: Duration,
    pub(super) idle: Duration,
}

impl HttpModel {
    pub(super) fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }
}

#[async_trait::async_trait]
impl Model for HttpModel {
    fn id(&self) -> &str {
        &self.inner.subject.id
    }

    fn limits(&self) -> ModelLimits {
        self.inner.limits
    }

    fn tool_search(&self) -> Result<ToolSearch, String> {
        self.inner.tool_search.clone()
    }

    fn declared(&self, tools: &Arc<[ToolDeclaration]>) -> Vec<DeclaredTool> {
        let declared = self.inner.declared(tools);
        declared.map_or_else(|_| Vec::new(), |declared| declared.told())
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let declared = self.inner.declared(&request.tools);
        let declared = declared.map_err(|failure| self.inner.subject.error(failure))?;
        let request = declared.as_written(&request).into_owned();
        let turn = Turn {
            declared,
            inner: Arc::clone(&self.inner),
            request,
            phase: Phase::Send,
            queue: VecDeque::new(),
            repeated: 0,
            shown: false,
        };
        Ok(Box::pin(futures::stream::try_unfold(
            turn,
            |mut turn| async move {
                let event = turn.next().await?;
                Ok(event.map(|event| (event, turn)))
            },
        )))
    }
}

struct Turn {
    inner: Arc<Inner>,
    /// With earlier calls in the provider's words.
    request: ModelRequest,
    declared: Arc<Declared>,
    phase: Phase,
    /// Events that are ready to be yielded.
    queue: VecDeque<ModelEvent>,
    /// How often the request was sent again.
    repeated: u32,
    /// Whether a part of the turn was yielded, so that it cannot start over.
    shown: bool,
}

enum Phase {
    Send,
    Wait(Duration),
    Read(Box<Reading>),
    Failed(Failure),
    Over,
}

impl Turn {
    async fn next(&mut self) -> Result<Option<ModelEvent>, ModelError> {
        loop {
            if let Some(mut event) = self.queue.pop_front() {
                self.declared.map_back(&mut event);
                self.shown |= !matches!(event, ModelEvent::Retrying { .. });
                return Ok(Some(event));
            }
            self.phase = match mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return Ok(None),
                Phase::Failed(failure) => self.failed(failure)?,
                Phase::Wait(wait) => {
                    tokio::time::sleep(wait).await;
                    Phase::Send
                }
                Phase::Send => match self.inner.send(&self.request, &self.declared).await {
                    Ok(reading) => Phase::Read(Box::new(reading)),
                    Err(failure) => Phase::Failed(failure),
                },
                Phase::Read(mut reading) => match reading.next(&mut self.queue).await {
                    Ok(Progress::More) => Phase::Read(reading),
                    Ok(Progress::Done) => Phase::Over,
                    Err(failure) => Phase::Failed(failure),
                },
            };
        }
    }

    /// Either the wait before the next try, or the error that ends the turn.
    fn failed(&mut self, failure: Failure) -> Result<Phase, ModelError> {
        let subject = &self.inner.subject;
        if self.shown {
            return Err(subject.error(broken_off(failure)));
        }
        let wait = match failure.retry {
            Retry::No => return Err(subject.error(failure)),
            Retry::Backoff => retry::backoff(self.repeated + 1),
            Retry::After(asked) if asked > self.inner.longest_wait => {
                return Err(subject.error(failure));
            }
            Retry::After(asked) => retry::at_least(asked),
        };
        if self.repeated >= self.inner.max_retries {
            return Err(subject.error(given_up(failure, self.repeated)));
        }
        self.repeated += 1;
        tracing::debug!(
            model = subject.id,
            attempt = self.repeated,
            ?wait,
            "sending the request again"
        );
        let reason = subject.scrub(&failure.message);
        self.queue.push_back(ModelEvent::Retrying {
            attempt: self.repeated,
            wait,
            reason,
        });
        Ok(Phase::Wait(wait))
    }
}

/// A failure after a part of the turn was shown.
fn broken_off(mut failure: Failure) -> Failure {
    if failure.kind == ModelErrorKind::Unavailable {
        failure.kind = ModelErrorKind::Interrupted;
        failure.message = format!(
            "the provider broke off in the middle of its answer: {}",
            failure.message
        );
    }
    failure
}

fn given_up(mut failure: Failure, repeated: u32) -> Failure {
    if repeated > 0 {
        failure.message = format!("{} (tried {} times)", failure.message, repeated + 1);
    }
    failure
}

fn not_written(source: &serde_json::Error) -> Failure {
    Failure::new(
        ModelErrorKind::Rejected,
        format!("the request cannot be written as JSON: {source}"),
    )
}

impl Inner {
    /// The tools in the provider's words.
    fn declared(&self, tools: &Arc<[ToolDeclaration]>) -> Result<Arc<Declared>, Failure> {
        let declared = self.declarer.declared(&*self.wire, tools);
        declared.map_err(|source| not_written(&source))
    }

    /// Sends the request, and once more for each habit that the server made the format drop.
    async fn send(&self, request: &ModelRequest, declared: &Declared) -> Result<Reading, Failure> {
        loop {
            let body = self.wire.body(request, declared.tools());
            let body = body.map_err(|source| not_written(&source))?;
            let sent = self
                .client
                .post(self.url.clone())
                .headers(self.headers.clone())
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "text/event-stream")
                // A proxy that compresses also buffers, and the stream arrives in one piece.
                .header(ACCEPT_ENCODING, "identity")
                .body(body)
                .send()
                .await;
            let response = sent.map_err(|error| self.not_reached(&error))?;
            if response.status().is_success() {
                return Reading::new(response, self.wire.decoder(request), self.idle);
            }
            let failure = refused(response).await;
            if failure.kind != ModelErrorKind::Rejected || !self.wire.concede(&failure.message) {
                return Err(failure);
            }
            tracing::debug!(
                model = self.subject.id,
                "the server refused an optional field; sending without it"
            );
        }
    }

    fn not_reached(&self, error: &reqwest::Error) -> Failure {
        let host = &self.subject.base_url;
        if error.is_timeout() && !error.is_connect() {
            return Failure::silent(self.idle, false);
        }
        let message = format!("{host} could not be reached: {}", root_cause(error));
        Failure::new(ModelErrorKind::Unavailable, message).retryable()
    }
}

/// The innermost reason. The outer ones repeat the URL, and a URL may carry a key.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.source().is_none() {
        "the connection failed".to_owned()
    } else {
        cause.to_string()
    }
}

/// The failure that a response without success describes.
async fn refused(response: Response) -> Failure {
    let status = response.status();
    let about = about(&response);
    let asked = retry::asked_for(response.headers(), Timestamp::now());
    if status.is_redirection() {
        let target = response
            .headers()
            .get("location")
            .and_then(|value| value.to_str().ok())
            .unwrap_or("elsewhere");
        return Failure::malformed(format!(
            "the server answered {about} and points to {target}; redirects are not followed"
        ));
    }
    // A body that breaks off still says more than none.
    let body = bounded_body(response).await;
    if let Some(mut words) = serde_json::from_slice::<Value>(&body)
        .ok()
        .as_ref()
        .and_then(ProviderWords::read)
    {
        words.status = Some(status.as_u16());
        return Failure::described(words, asked);
    }
    let html = about.content_type.contains("html") || body.trim_ascii_start().starts_with(b"<");
    let known = status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 408 | 413 | 429);
    if known {
        let message = if html || body.trim_ascii().is_empty() {
            no_words(status)
        } else {
            snippet(&body)
        };
        let words = ProviderWords {
            message,
            status: Some(status.as_u16()),
            ..ProviderWords::default()
        };
        return Failure::described(words, asked);
    }
    let said = if html || body.trim_ascii().is_empty() {
        String::new()
    } else {
        format!(": {}", snippet(&body))
    };
    Failure::malformed(format!(
        "the server answered {about}, which is not an answer of a model API{said}"
    ))
}

fn no_words(status: StatusCode) -> String {
    let what = if status.is_server_error() {
        "the provider failed"
    } else {
        "the provider refused the request"
    };
    what.to_owned()
}

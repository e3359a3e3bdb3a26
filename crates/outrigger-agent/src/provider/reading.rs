//! Reads the body of a successful response: a stream of events, or the one JSON document that some
//! servers send instead.
//!
//! Decides what is junk, what is cut, and what is whole. What an event means is the decoder's.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use outrigger_model::{ModelErrorKind, ModelEvent};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::failure::Failure;
use super::sse::SseParser;
use super::transport::root_cause;
use super::wire::{Decoder, Progress};

/// The most that is read of a body which is not a stream, in bytes.
const LARGEST_BODY: usize = 16 * 1024 * 1024;
/// The most that is read of an error's body, in bytes.
const LARGEST_ERROR: usize = 64 * 1024;

/// Status and content type, for messages.
#[derive(Debug, Clone)]
pub(super) struct About {
    status: StatusCode,
    /// In lower case; empty when the server named none.
    pub(super) content_type: String,
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.content_type.is_empty() {
            "no content type"
        } else {
            &self.content_type
        };
        write!(f, "{} with {kind}", self.status)
    }
}

pub(super) fn about(response: &Response) -> About {
    let header = response.headers().get(reqwest::header::CONTENT_TYPE);
    let content_type = header
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    About {
        status: response.status(),
        content_type,
    }
}

/// A response in the middle of being read.
pub(super) struct Reading {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    body: Body,
    decoder: Box<dyn Decoder>,
    about: About,
    idle: Duration,
    /// The beginning of what arrived, to show when it turns out to be junk.
    beginning: Vec<u8>,
    /// Events that the decoder was given.
    events: usize,
}

enum Body {
    Events(SseParser),
    Document(Vec<u8>),
}

impl Reading {
    /// Looks at the head of the response. HTML is refused here, with nothing read.
    pub(super) fn new(
        response: Response,
        decoder: Box<dyn Decoder>,
        idle: Duration,
    ) -> Result<Self, Failure> {
        let about = about(&response);
        if about.content_type.contains("html") {
            return Err(Failure::malformed(format!(
                "the server answered {about} where a stream of events was expected"
            )));
        }
        let document =
            about.content_type.contains("json") && !about.content_type.contains("stream");
        let body = if document {
            Body::Document(Vec::new())
        } else {
            Body::Events(SseParser::default())
        };
        let bytes = response.bytes_stream().boxed();
        Ok(Self {
            bytes,
            body,
            decoder,
            about,
            idle,
            beginning: Vec::new(),
            events: 0,
        })
    }

    /// Reads on until something can be yielded or the turn is over.
    pub(super) async fn next(
        &mut self,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, Failure> {
        while queue.is_empty() {
            let progress = match self.bytes.next().await {
                Some(Ok(bytes)) => self.arrived(&bytes, queue)?,
                Some(Err(error)) => return self.broken(&error, queue),
                None => return self.ended(queue),
            };
            if let Progress::Done = progress {
                return self.finish(queue);
            }
        }
        Ok(Progress::More)
    }

    fn arrived(
        &mut self,
        bytes: &[u8],
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, Failure> {
        if self.beginning.len() < 400 {
            self.beginning
                .extend_from_slice(&bytes[..bytes.len().min(400)]);
        }
        let events = match &mut self.body {
            Body::Document(document) => {
                document.extend_from_slice(bytes);
                if document.len() > LARGEST_BODY {
                    let limit = LARGEST_BODY / 1024 / 1024;
                    return Err(Failure::malformed(format!(
                        "the server answered {} of more than {limit} MiB",
                        self.about
                    )));
                }
                return Ok(Progress::More);
            }
            Body::Events(parser) => parser.push(bytes).map_err(|error| {
                Failure::malformed(format!("the server answered {}, but {error}", self.about))
            })?,
        };
        for event in events {
            if let Progress::Done = self.event(&event, queue)? {
                return Ok(Progress::Done);
            }
        }
        Ok(Progress::More)
    }

    fn event(&mut self, data: &str, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(Progress::More);
        }
        if data == "[DONE]" {
            self.decoder.end_marker();
            return Ok(Progress::Done);
        }
        self.events += 1;
        self.decoder
            .event(data, queue)
            .map_err(|failure| match failure.kind {
                ModelErrorKind::Malformed => {
                    let shown = snippet(data.as_bytes());
                    Failure {
                        message: format!(
                            "the server answered {}, but {}: {shown}",
                            self.about, failure.message
                        ),
                        ..failure
                    }
                }
                _ => failure,
            })
    }

    /// The connection is gone. A turn that was already whole needs nothing more.
    fn broken(
        &mut self,
        error: &reqwest::Error,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, Failure> {
        if let Some(finished) = self.decoder.finish() {
            queue.push_back(finished);
            return Ok(Progress::Done);
        }
        if error.is_timeout() {
            return Err(Failure::silent(self.idle, self.events > 0));
        }
        let message = format!("the connection was cut: {}", root_cause(error));
        Err(Failure::new(ModelErrorKind::Interrupted, message).retryable())
    }

    /// The body ended as it should; whether the turn did is another question.
    fn ended(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure> {
        match std::mem::replace(&mut self.body, Body::Document(Vec::new())) {
            Body::Document(document) => self.document(&document, queue),
            Body::Events(parser) => {
                // Half an event is a cut, not junk.
                let last = parser
                    .finish()
                    .filter(|data| serde_json::from_str::<Value>(data).is_ok());
                if let Some(data) = last {
                    self.event(&data, queue)?;
                }
                self.finish(queue)
            }
        }
    }

    /// The answer came as one document. A server that ignores `stream` says it all in there.
    fn document(
        &mut self,
        document: &[u8],
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, Failure> {
        let text = String::from_utf8_lossy(document);
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Array(entries)) => {
                for entry in entries {
                    self.event(&entry.to_string(), queue)?;
                }
            }
            Ok(_) => {
                self.event(&text, queue)?;
            }
            Err(_) => {}
        }
        let Some(finished) = self.decoder.finish() else {
            let shown = snippet(document);
            return Err(Failure::malformed(format!(
                "the server answered {} where a stream of events was expected: {shown}",
                self.about
            )));
        };
        queue.push_back(finished);
        Ok(Progress::Done)
    }

    fn finish(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<Progress, Failure> {
        if let Some(finished) = self.decoder.finish() {
            queue.push_back(finished);
            return Ok(Progress::Done);
        }
        if self.events == 0 && is_junk(&self.beginning) {
            let shown = snippet(&self.beginning);
            return Err(Failure::malformed(format!(
                "the server answered {}, but not with events: {shown}",
                self.about
            )));
        }
        let failure = Failure::new(
            ModelErrorKind::Interrupted,
            "the stream ended before the answer did",
        );
        Err(failure.retryable())
    }
}

/// Whether this is the beginning of something, but not of an event stream.
fn is_junk(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.is_some_and(|line| {
        !["data", "event", ":", "id", "retry"]
            .iter()
            .any(|field| line.starts_with(field))
    })
}

/// Up to 64 KiB of a body, as far as it can be read.
pub(super) async fn bounded_body(response: Response) -> Vec<u8> {
    let mut stream = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(Ok(bytes)) = stream.next().await {
        body.extend_from_slice(&bytes);
        if body.len() >= LARGEST_ERROR {
            body.truncate(LARGEST_ERROR);
            break;
        }
    }
    body
}

/// The beginning of some bytes on one line, for a message.
pub(super) fn snippet(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(800)]);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 160 {
        line
    } else {
        line.chars().take(160).chain(['…']).collect()
    }
}

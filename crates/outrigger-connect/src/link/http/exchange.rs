//! One POST and what comes of it.
//!
//! Promises: the answer is handed on the moment it is there, not when the server ends the stream;
//! a stream that breaks after it has given an event id is taken up again by a GET with that id, and
//! the POST is never repeated. Source: MCP, "Transports", "Resumability and Redelivery".

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};

use super::answer;
use super::client::deepest;
use super::mirror;
use super::wire::{Cut, LAST_EVENT, Load, SESSION, Wire, exchange_of};
use crate::CallError;
use crate::frame::{SseEvent, SseItem, SseReader, Unusable, check};
use crate::link::{Head, LinkEvent, Outgoing, Purpose, Ticket};
use crate::rpc::Failure;
use crate::tap::Exchange as Exchanged;

/// After the answer a stream is read on for this long, for notifications that follow it and so that
/// the connection can be used again.
pub(super) const EPILOGUE: Duration = Duration::from_millis(500);

/// What a server that gives no `retry:` is granted.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Attempts to take a stream up again that are refused, before it counts as lost.
const FRUITLESS: u32 = 5;

/// Carries one message, and reports how a request ended unless its answer did.
pub(super) async fn run(
    wire: Arc<Wire>,
    Outgoing {
        body,
        purpose,
        ticket,
    }: Outgoing,
) {
    match purpose {
        Purpose::Request(head) => {
            let exchange = Exchange {
                wire: &wire,
                head: &head,
            };
            let carried = async {
                if head.name.is_some() {
                    wire.until_listening().await;
                }
                exchange.run(&body, &ticket).await
            };
            let failure = tokio::select! {
                failure = carried => failure,
                () = ticket.until_abandoned() => return,
            };
            wire.inbox.receive(LinkEvent::Failed {
                request: head.id,
                failure,
            });
        }
        Purpose::Notification(method) => post_aside(&wire, Some(method), &body, &ticket).await,
        Purpose::Reply => post_aside(&wire, None, &body, &ticket).await,
    }
    ticket.handed_over();
}

/// A message that has no answer.
async fn post_aside(wire: &Wire, method: Option<&'static str>, body: &Bytes, ticket: &Arc<Ticket>) {
    let mut headers = wire.post_headers(method);
    if let Some(method) = method.filter(|_| wire.is_modern()) {
        headers.extend(mirror::method_header(method));
    }
    match wire
        .send(Method::POST, headers, Some(Load { body, ticket }))
        .await
    {
        Ok(answer) if answer.status().is_success() => {
            // Read to its end, so that the connection can be used again.
            let _ = tokio::time::timeout(EPILOGUE, wire.whole(answer, 4096)).await;
        }
        Ok(answer) => {
            let what = method.unwrap_or("an answer of ours");
            wire.inbox.receive(LinkEvent::Noise(format!(
                "{what} was answered with HTTP {}",
                answer.status()
            )));
        }
        Err(failure) => {
            let what = method.unwrap_or("an answer of ours");
            let why = CallError::from(failure);
            wire.inbox
                .receive(LinkEvent::Noise(format!("{what} was lost: {why}")));
        }
    }
}

struct Exchange<'a> {
    wire: &'a Wire,
    head: &'a Head,
}

/// Where a stream has got to.
#[derive(Default)]
struct Position {
    last_event: Option<String>,
    retry: Option<Duration>,
}

/// How the reading of one stream ended.
enum Stream {
    Answered,
    Ended,
    Broke(String),
}

impl Exchange<'_> {
    /// Runs to the end and says what to report if the request still waits then.
    async fn run(&self, body: &Bytes, ticket: &Arc<Ticket>) -> Failure {
        let headers = self.headers();
        let had_session = headers.contains_key(&SESSION);
        let answer = match self
            .wire
            .send(Method::POST, headers, Some(Load { body, ticket }))
            .await
        {
            Ok(answer) => answer,
            Err(failure) => return failure,
        };
        if self.head.method == "initialize" && answer.status().is_success() {
            self.wire.keep_session(&answer);
        }
        let facts = answer::Facts::of(&answer, had_session);
        if facts.is_event_stream() {
            return self.follow(answer).await;
        }
        match self.wire.whole(answer, self.wire.limits.bytes).await {
            Ok(text) => match facts.judge(&text) {
                Some(failure) => failure,
                None => self.deliver(text),
            },
            Err(Cut::TooLarge(head)) => {
                let reason = format!(
                    "the answer is larger than the limit of {} bytes (frame_bytes)",
                    self.wire.limits.bytes
                );
                self.unusable(Unusable::of(&head, reason))
            }
            Err(Cut::Broke(why)) => {
                Failure::Closed(format!("the connection broke within the answer: {why}"))
            }
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = self.wire.post_headers(Some(self.head.method));
        if self.head.method == "server/discover" {
            Wire::probing(&mut headers);
        }
        if let Some(trace) = &self.head.trace {
            trace.add_headers(&mut headers);
        }
        if self.head.method == "server/discover"
            || self.wire.is_modern() && self.head.method != "initialize"
        {
            headers.extend(mirror::method_header(self.head.method));
            if let Some(name) = &self.head.name {
                headers.extend(mirror::name_header(name));
            }
            for (name, value) in &self.head.mirrored {
                let parsed = (
                    HeaderName::from_bytes(name.as_bytes()),
                    HeaderValue::from_str(value),
                );
                if let (Ok(name), Ok(value)) = parsed {
                    headers.insert(name, value);
                }
            }
        }
        headers
    }

    /// Hands on what came as one text.
    fn deliver(&self, text: Bytes) -> Failure {
        let of = Some(self.head.id);
        match check(text, self.wire.limits) {
            Ok(text) => {
                let text = text.slice_ref(strip(&text));
                self.wire.inbox.receive(LinkEvent::Frame { text, of });
            }
            Err(what) => return self.unusable(what),
        }
        Failure::Malformed("the HTTP answer does not contain the answer to this request".to_owned())
    }

    fn unusable(&self, what: Unusable) -> Failure {
        let failure = Failure::Malformed(what.reason.clone());
        self.wire.inbox.receive(LinkEvent::Unusable {
            what,
            of: Some(self.head.id),
        });
        failure
    }

    /// Reads an event stream and, where the server gave the means, takes it up again.
    async fn follow(&self, answer: Response) -> Failure {
        let mut position = Position::default();
        let mut stream = Some(answer);
        let mut fruitless = 0;
        while let Some(answer) = stream {
            let why = match self.read(answer, &mut position).await {
                Stream::Answered => break,
                Stream::Ended => "the server ended the stream before the answer".to_owned(),
                Stream::Broke(why) => format!("the stream broke before the answer: {why}"),
            };
            let Some(last_event) = position.last_event.as_deref() else {
                return Failure::Closed(why);
            };
            stream = loop {
                tokio::time::sleep(position.retry.unwrap_or(RETRY)).await;
                match self.take_up(last_event).await {
                    Some(answer) => break Some(answer),
                    None if fruitless == FRUITLESS => {
                        return Failure::Closed(format!("{why}, and cannot be taken up again"));
                    }
                    None => fruitless += 1,
                }
            };
        }
        Failure::Closed("the stream ended".to_owned())
    }

    async fn take_up(&self, last_event: &str) -> Option<Response> {
        let mut headers = self.wire.get_headers();
        headers.insert(LAST_EVENT, HeaderValue::from_str(last_event).ok()?);
        let answer = self.wire.send(Method::GET, headers, None).await.ok()?;
        answer::Facts::of(&answer, false)
            .is_event_stream()
            .then_some(answer)
    }

    async fn read(&self, mut answer: Response, position: &mut Position) -> Stream {
        let exchange = exchange_of(&answer);
        let mut reader = SseReader::new(self.wire.limits);
        let mut answered = false;
        loop {
            let chunk = if answered {
                match tokio::time::timeout(EPILOGUE, answer.chunk()).await {
                    Ok(chunk) => chunk,
                    Err(_) => return Stream::Answered,
                }
            } else {
                answer.chunk().await
            };
            match chunk {
                Ok(Some(chunk)) => reader.push(&chunk),
                _ if answered => return Stream::Answered,
                Ok(None) => return Stream::Ended,
                Err(error) => return Stream::Broke(deepest(&error.without_url())),
            }
            while let Some(item) = reader.next() {
                self.item(item, position, exchange);
            }
            answered = answered || !self.wire.inbox.wants(self.head.id);
        }
    }

    fn item(&self, item: SseItem, position: &mut Position, exchange: Exchanged) {
        let of = Some(self.head.id);
        match item {
            SseItem::Event(event) => {
                position.note(&event);
                if let Some(event) = message_of(event, self.wire, (of, exchange)) {
                    self.wire.inbox.receive(event);
                }
            }
            SseItem::Unusable(what) => {
                self.wire.watch.carried_unusable(exchange, &what);
                self.wire.inbox.receive(LinkEvent::Unusable { what, of });
            }
        }
    }
}

impl Position {
    fn note(&mut self, event: &SseEvent) {
        if let Some(id) = &event.id {
            self.last_event = Some(id.clone()).filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry).clamp(RETRY_RANGE.0, RETRY_RANGE.1));
        }
    }
}

/// The message that an event carries. Events of other kinds than `message` are keep-alives and the
/// like, unless what they carry is JSON-RPC.
pub(super) fn message_of(
    event: SseEvent,
    wire: &Wire,
    (of, exchange): (Option<u64>, Exchanged),
) -> Option<LinkEvent> {
    if event.data.trim_ascii().is_empty() {
        return None;
    }
    wire.watch.carried(exchange, Some(&event.kind), &event.data);
    let usual = event.kind.is_empty() || event.kind == "message";
    if !usual && memchr::memmem::find(&event.data, b"\"jsonrpc\"").is_none() {
        let words = crate::text::excerpt(&event.data, 200);
        return Some(LinkEvent::Noise(format!(
            "event `{}`: {words}",
            crate::text::excerpt(event.kind.as_bytes(), 40)
        )));
    }
    Some(match check(event.data, wire.limits) {
        Ok(text) => {
            let text = text.slice_ref(strip(&text));
            // An event that is not JSON at all is no answer to anybody.
            let of = of.filter(|_| matches!(text.first(), Some(b'{' | b'[')));
            LinkEvent::Frame { text, of }
        }
        Err(what) => LinkEvent::Unusable { what, of },
    })
}

/// Without byte-order mark and white space around it.
pub(super) fn strip(text: &[u8]) -> &[u8] {
    text.trim_ascii()
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(text)
        .trim_ascii()
}

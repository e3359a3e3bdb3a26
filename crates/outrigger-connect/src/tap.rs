//! Somebody who watches what crosses the wire.
//!
//! Promises: each message is shown once for each time that it crosses, as it was sent or as it came,
//! what is no message too; a header is shown only if it is known to hold no credential. Without a
//! watcher it costs a look at an option.
//! Leaves out: secrets within messages and addresses, which the watcher takes out, and the requests
//! of signing in (OAuth), which are never shown.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::header::HeaderMap;

use crate::frame::Unusable;
use crate::{ServerName, TransportSpec};

/// Watches the connections of a [`crate::Connector`].
pub trait Tap: Send + Sync {
    /// Called on the connection's own tasks, before a message is handed over and before one that
    /// came is read: it must return quickly, and must not fail.
    fn see(&self, crossing: &Crossing<'_>);
}

/// Something that crosses the wire.
#[derive(Debug, Clone)]
pub struct Crossing<'a> {
    /// The server, by its configured name.
    pub server: &'a ServerName,
    /// Counts up with every link that a connector opens: a server that is started again, or tried
    /// in another way, has a new one.
    pub link: u64,
    /// Which way it goes.
    pub direction: Direction,
    /// `stdio`, `http`, `sse` (HTTP+SSE), `ws` or `in-process`.
    pub transport: &'static str,
    /// What HTTP says around it; `None` on other transports.
    pub http: Option<HttpPart<'a>>,
    /// A message, or what stood in the place of one, byte for byte without its framing. Not
    /// necessarily JSON, and not necessarily UTF-8. `None` where only HTTP has something to say.
    pub payload: Option<&'a [u8]>,
    /// Words of this side: why a payload cannot be used, how a link ended.
    pub note: Option<&'a str>,
}

/// Which way something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the server.
    Out,
    /// From the server.
    In,
}

/// What HTTP says around a message.
#[derive(Debug, Clone, Default)]
pub struct HttpPart<'a> {
    /// Counts requests of a link; what came of one has its number.
    pub exchange: u64,
    /// The verb, of a request.
    pub method: Option<&'a str>,
    /// The address, of a request. A query in it may be secret.
    pub url: Option<&'a str>,
    /// The status, of an answer and of what it carries.
    pub status: Option<u16>,
    /// Headers of a request, and of an answer where it begins: only those that hold no credential,
    /// of `Mcp-Session-Id` only the beginning.
    pub headers: Vec<(&'a str, String)>,
    /// The kind of an event, where it is not `message`.
    pub event: Option<&'a str>,
}

/// Headers that say something about the protocol and nothing about who is asking.
const KEPT: &[&str] = &[
    "accept",
    "allow",
    "content-encoding",
    "content-length",
    "content-type",
    "last-event-id",
    "location",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "retry-after",
    "sec-websocket-protocol",
    "server",
    "traceparent",
    "tracestate",
    "www-authenticate",
];

/// Who knows a session may speak in it, so it is shown just far enough to tell two apart.
const SESSION: &str = "mcp-session-id";
const SESSION_SHOWN: usize = 6;

/// The watcher of one connector.
#[derive(Clone)]
pub(crate) struct Taps {
    tap: Arc<dyn Tap>,
    links: Arc<AtomicU64>,
}

/// The watcher of one link, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Watch(Option<Arc<Watched>>);

struct Watched {
    tap: Arc<dyn Tap>,
    server: ServerName,
    link: u64,
    transport: &'static str,
    exchanges: AtomicU64,
}

/// Marks an HTTP answer with the exchange that it belongs to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exchange {
    number: u64,
    status: u16,
}

impl Taps {
    pub(crate) fn new(tap: Arc<dyn Tap>) -> Self {
        Self {
            tap,
            links: Arc::default(),
        }
    }

    /// Watches a link that is about to be opened.
    pub(crate) fn watch(&self, server: &ServerName, transport: &'static str) -> Watch {
        Watch(Some(Arc::new(Watched {
            tap: self.tap.clone(),
            server: server.clone(),
            link: self.links.fetch_add(1, Ordering::Relaxed) + 1,
            transport,
            exchanges: AtomicU64::new(0),
        })))
    }
}

/// The transport's name in a trace.
pub(crate) fn name_of(transport: &TransportSpec) -> &'static str {
    match transport {
        TransportSpec::Stdio(_) => "stdio",
        TransportSpec::Http(_) => "http",
        TransportSpec::Sse(_) => "sse",
        TransportSpec::WebSocket(_) => "ws",
        TransportSpec::InProcess(_) => "in-process",
    }
}

impl Watch {
    /// A message is about to be written.
    pub(crate) fn sent(&self, payload: &[u8]) {
        self.see(Direction::Out, None, Some(payload), None);
    }

    /// Something came.
    pub(crate) fn came(&self, payload: &[u8]) {
        self.see(Direction::In, None, Some(payload), None);
    }

    /// Something came that cannot be used.
    pub(crate) fn unusable(&self, what: &Unusable) {
        self.see(Direction::In, None, Some(&what.head), Some(&what.reason));
    }

    /// Words about the link itself.
    pub(crate) fn note(&self, words: &str) {
        self.see(Direction::In, None, None, Some(words));
    }

    /// A request is about to be sent; its number.
    pub(crate) fn request(
        &self,
        (method, url): (&str, &str),
        headers: &HeaderMap,
        payload: Option<&[u8]>,
    ) -> u64 {
        let Some(watched) = &self.0 else {
            return 0;
        };
        let exchange = watched.exchanges.fetch_add(1, Ordering::Relaxed) + 1;
        let http = HttpPart {
            exchange,
            method: Some(method),
            url: Some(url),
            headers: kept(headers),
            ..HttpPart::default()
        };
        watched.see(Direction::Out, Some(http), payload, None);
        exchange
    }

    /// An answer has begun.
    pub(crate) fn answer(&self, exchange: u64, status: u16, headers: &HeaderMap) -> Exchange {
        if let Some(watched) = &self.0 {
            let http = HttpPart {
                exchange,
                status: Some(status),
                headers: kept(headers),
                ..HttpPart::default()
            };
            watched.see(Direction::In, Some(http), None, None);
        }
        Exchange {
            number: exchange,
            status,
        }
    }

    /// A request has no answer.
    pub(crate) fn unanswered(&self, exchange: u64, why: &str) {
        let http = HttpPart {
            exchange,
            ..HttpPart::default()
        };
        self.see(Direction::In, Some(http), None, Some(why));
    }

    /// An answer has carried something; `event` is the kind of an event.
    pub(crate) fn carried(&self, of: Exchange, event: Option<&str>, payload: &[u8]) {
        let event = event.filter(|kind| !kind.is_empty() && *kind != "message");
        let http = HttpPart { event, ..of.part() };
        self.see(Direction::In, Some(http), Some(payload), None);
    }

    /// An answer has carried something that cannot be used.
    pub(crate) fn carried_unusable(&self, of: Exchange, what: &Unusable) {
        let http = Some(of.part());
        self.see(Direction::In, http, Some(&what.head), Some(&what.reason));
    }

    fn see(
        &self,
        direction: Direction,
        http: Option<HttpPart<'_>>,
        payload: Option<&[u8]>,
        note: Option<&str>,
    ) {
        if let Some(watched) = &self.0 {
            watched.see(direction, http, payload, note);
        }
    }
}

impl Watched {
    fn see(
        &self,
        direction: Direction,
        http: Option<HttpPart<'_>>,
        payload: Option<&[u8]>,
        note: Option<&str>,
    ) {
        self.tap.see(&Crossing {
            server: &self.server,
            link: self.link,
            direction,
            transport: self.transport,
            http,
            payload,
            note,
        });
    }
}

impl Exchange {
    fn part<'a>(self) -> HttpPart<'a> {
        HttpPart {
            exchange: self.number,
            status: Some(self.status),
            ..HttpPart::default()
        }
    }
}

fn kept(headers: &HeaderMap) -> Vec<(&str, String)> {
    let shown = headers.iter().filter(|(_, value)| !value.is_sensitive());
    shown
        .filter_map(|(name, value)| {
            let (name, value) = (name.as_str(), String::from_utf8_lossy(value.as_bytes()));
            if name == SESSION {
                let shown = SESSION_SHOWN.min(value.chars().count() / 2);
                let beginning: String = value.chars().take(shown).collect();
                return Some((name, format!("{beginning}…")));
            }
            let known = KEPT.contains(&name) || name.starts_with("mcp-param-");
            known.then(|| (name, value.into_owned()))
        })
        .collect()
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taps")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn headers_that_may_hold_a_credential_are_not_kept() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer abc"),
            ("cookie", "a=b"),
            ("set-cookie", "a=b"),
            ("x-api-key", "abc"),
            ("proxy-authorization", "Basic abc"),
            ("content-type", "application/json"),
            ("mcp-session-id", "0123456789abcdef"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let mut configured = HeaderValue::from_static("abc");
        configured.set_sensitive(true);
        headers.insert("mcp-name", configured);
        let expected = [
            ("content-type", "application/json".to_owned()),
            ("mcp-session-id", "012345…".to_owned()),
        ];
        let mut shown = kept(&headers);
        shown.sort();
        assert_eq!(shown, expected);
    }
}

//! WebSocket: one message a text frame.
//!
//! Promises: pings are answered, fragments are put together, messages are bounded. The end of the
//! socket is the end of the link. There is no MCP specification of this transport; subprotocol `mcp`
//! is offered, and a server that does not take it is used all the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{Error, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, client_async_tls_with_config};
use tokio_util::sync::CancellationToken;

use super::http::BadHttpSpec;
use super::http::client::{deepest, headers, install_crypto};
use super::{Agreed, Ends, Inbox, Link, LinkEvent, Outgoing, Purpose, Tasks, tls, tunnel};
use crate::connection::CloseReport;
use crate::frame::{FrameLimits, check};
use crate::rpc::{Failure, HttpAnswer};
use crate::tap::Watch;
use crate::text::{excerpt, place};
use crate::{HttpSpec, Limits};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// How long the closing handshake may take.
const GOODBYE: Duration = Duration::from_secs(1);

pub(crate) struct WebSocket {
    tasks: Tasks,
    closing: CancellationToken,
}

impl WebSocket {
    pub(crate) fn open(spec: &HttpSpec, limits: &Limits, ends: Ends) -> Result<Self, BadHttpSpec> {
        let Ends {
            queue,
            inbox,
            watch,
        } = ends;
        if !matches!(spec.url.scheme(), "ws" | "wss") {
            return Err(BadHttpSpec::Scheme(spec.url.to_string(), "`ws:` or `wss:`"));
        }
        headers(spec)?;
        install_crypto();
        // So that a file that cannot be used is told of as such.
        tls::certificates(&spec.ca_files)?;
        let link = Self {
            tasks: Tasks::default(),
            closing: CancellationToken::new(),
        };
        let run = Run {
            tasks: link.tasks.clone(),
            closing: link.closing.clone(),
            limits: limits.into(),
            inbox,
            watch,
        };
        link.tasks.spawn(run.run(spec.clone(), queue));
        Ok(link)
    }
}

struct Run {
    tasks: Tasks,
    closing: CancellationToken,
    limits: FrameLimits,
    inbox: Arc<dyn Inbox>,
    watch: Watch,
}

impl Run {
    async fn run(self, spec: HttpSpec, mut queue: mpsc::Receiver<Outgoing>) {
        match self.connect(&spec).await {
            Ok(socket) => {
                let (sink, stream) = socket.split();
                let ends = Ends {
                    queue,
                    inbox: self.inbox.clone(),
                    watch: self.watch.clone(),
                };
                self.tasks.spawn(write(sink, ends, self.closing.clone()));
                let why = self.read(stream).await;
                self.watch.note(&why);
                self.inbox.receive(LinkEvent::Ended(why));
            }
            Err(failure) => {
                while let Some(Outgoing {
                    purpose, ticket, ..
                }) = queue.recv().await
                {
                    if let Purpose::Request(head) = purpose {
                        self.inbox.receive(LinkEvent::Failed {
                            request: head.id,
                            failure: failure.clone(),
                        });
                    }
                    ticket.handed_over();
                }
            }
        }
    }

    async fn connect(&self, spec: &HttpSpec) -> Result<Socket, Failure> {
        match self.knock(spec, true).await {
            Err(Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(_))) => {
                self.knock(spec, false).await
            }
            other => other,
        }
        .map_err(|error| refused(spec, error))
    }

    async fn knock(&self, spec: &HttpSpec, subprotocol: bool) -> Result<Socket, Error> {
        let mut request = spec.url.as_str().into_client_request()?;
        if let Ok(configured) = headers(spec) {
            request.headers_mut().extend(configured);
        }
        if subprotocol {
            request
                .headers_mut()
                .insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
        }
        let bound = Some(self.limits.bytes);
        let config = WebSocketConfig::default()
            .max_message_size(bound)
            .max_frame_size(bound);
        let number = self
            .watch
            .request(("GET", spec.url.as_str()), request.headers(), None);
        match Box::pin(dial(spec, request, config)).await {
            Ok((socket, answer)) => {
                self.watch
                    .answer(number, answer.status().as_u16(), answer.headers());
                Ok(socket)
            }
            Err(Error::Http(answer)) => {
                let of = self
                    .watch
                    .answer(number, answer.status().as_u16(), answer.headers());
                if let Some(body) = answer.body().as_deref().filter(|body| !body.is_empty()) {
                    self.watch.carried(of, None, body);
                }
                Err(Error::Http(answer))
            }
            Err(error) => {
                self.watch.unanswered(number, &error.to_string());
                Err(error)
            }
        }
    }

    /// Hands on what comes until the socket ends, and says how it did.
    async fn read(&self, mut stream: SplitStream<Socket>) -> String {
        loop {
            let text: Bytes = match stream.next().await {
                Some(Ok(Message::Text(text))) => text.into(),
                Some(Ok(Message::Binary(bytes))) => bytes,
                Some(Ok(Message::Close(frame))) => {
                    let words = frame.map(|frame| {
                        format!(
                            " ({} {})",
                            frame.code,
                            excerpt(frame.reason.as_bytes(), 100)
                        )
                    });
                    return format!("the server closed the socket{}", words.unwrap_or_default());
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => return format!("the socket broke ({error})"),
                None => return "the server closed the socket".to_owned(),
            };
            self.watch.came(&text);
            self.inbox.receive(match check(text, self.limits) {
                Ok(text) => LinkEvent::Frame { text, of: None },
                Err(what) => LinkEvent::Unusable { what, of: None },
            });
        }
    }
}

/// Opens the socket, through a proxy where there is one, and asks for the protocol.
async fn dial(
    spec: &HttpSpec,
    request: Request,
    config: WebSocketConfig,
) -> Result<(Socket, Response), Error> {
    let unreachable = |why: String| Error::Io(std::io::Error::other(why));
    let stream = tunnel::dial(&spec.url).await.map_err(unreachable)?;
    let connector = if spec.url.scheme() == "wss" {
        let files = spec.ca_files.clone();
        let made = tokio::task::spawn_blocking(move || tls::client(&files)).await;
        let made = made.map_err(|error| unreachable(error.to_string()))?;
        let client = made.map_err(|error| unreachable(error.to_string()))?;
        Connector::Rustls(Arc::new(client))
    } else {
        Connector::Plain
    };
    client_async_tls_with_config(request, stream, Some(config), Some(connector)).await
}

async fn write(mut sink: SplitSink<Socket, Message>, ends: Ends, closing: CancellationToken) {
    let Ends {
        mut queue,
        inbox,
        watch,
    } = ends;
    loop {
        let outgoing = tokio::select! {
            outgoing = queue.recv() => outgoing,
            () = closing.cancelled() => None,
        };
        let Some(Outgoing {
            body,
            purpose,
            ticket,
        }) = outgoing
        else {
            // The other side answers with a close of its own, which the reader sees.
            let _ = sink.close().await;
            return;
        };
        if !ticket.begin() {
            continue;
        }
        watch.sent(&body);
        let sent = match Utf8Bytes::try_from(body) {
            Ok(text) => sink
                .send(Message::Text(text))
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let (Err(error), Purpose::Request(head)) = (sent, purpose) {
            let failure = Failure::Closed(format!("the socket takes nothing any more ({error})"));
            inbox.receive(LinkEvent::Failed {
                request: head.id,
                failure,
            });
        }
        ticket.handed_over();
    }
}

fn refused(spec: &HttpSpec, error: Error) -> Failure {
    match error {
        Error::Http(answer) => {
            let status = answer.status();
            let body = answer.body().as_deref().unwrap_or_default();
            let said = if body.is_empty() {
                "an empty body".to_owned()
            } else {
                excerpt(body, 200)
            };
            let message = format!("HTTP {status} instead of a WebSocket: {said}");
            Failure::Http(HttpAnswer {
                status: status.as_u16(),
                message,
                redirect: status.is_redirection(),
                ..HttpAnswer::default()
            })
        }
        // The words around the cause ("IO error") say nothing to anybody.
        error => Failure::NotSent(format!(
            "cannot reach {}: {}",
            place(&spec.url),
            deepest(&error)
        )),
    }
}

impl Link for WebSocket {
    fn agreed(&self, _: Option<Agreed>) {}

    fn close(&self, limit: Duration) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let begun = Instant::now();
            self.closing.cancel();
            self.tasks.finished(limit.min(GOODBYE)).await;
            self.tasks.finish().await;
            CloseReport {
                took: begun.elapsed(),
                exit: None,
                forced: None,
            }
        })
    }

    fn abort(&self) {
        self.tasks.stop();
    }
}

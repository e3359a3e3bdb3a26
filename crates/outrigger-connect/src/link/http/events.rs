//! The deprecated HTTP+SSE transport: one event stream for all that comes, POSTs for what goes.
//!
//! Promises: nothing is posted before the server has said where to, and never to another origin.
//! The end of the stream is the end of the link. Source: MCP 2024-11-05, "Transports".

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use reqwest::{Method, Response};
use tokio::sync::{mpsc, watch};

use super::answer::Facts;
use super::client::{BadHttpSpec, Clients, deepest};
use super::exchange::{EPILOGUE, message_of};
use super::wire::{Load, Wire, exchange_of};
use crate::connection::CloseReport;
use crate::frame::{SseItem, SseReader};
use crate::link::{Agreed, Ends, Head, Link, LinkEvent, Outgoing, Purpose, Tasks};
use crate::oauth::Authorizer;
use crate::rpc::Failure;
use crate::{HttpSpec, Limits};

/// `None` until the server has said where to post, or why it will not.
type Ready = Option<Result<(), Failure>>;

pub(crate) struct Events {
    wire: Arc<Wire>,
    tasks: Tasks,
}

impl Events {
    /// `patience`: how long the server may take to say where to post.
    pub(crate) fn open(
        spec: &HttpSpec,
        means: (&Clients, Option<Arc<Authorizer>>),
        (limits, patience): (&Limits, Duration),
        ends: Ends,
    ) -> Result<Self, BadHttpSpec> {
        let Ends {
            queue,
            inbox,
            watch: watcher,
        } = ends;
        let wire = Arc::new(Wire::new(spec, means, limits.into(), (inbox, watcher))?);
        let tasks = Tasks::default();
        let (ready, becomes_ready) = watch::channel(None);
        tasks.spawn(listen(wire.clone(), ready, patience));
        tasks.spawn(carry(wire.clone(), tasks.clone(), queue, becomes_ready));
        Ok(Self { wire, tasks })
    }
}

async fn listen(wire: Arc<Wire>, ready: watch::Sender<Ready>, patience: Duration) {
    let opened = tokio::time::timeout(patience, open(&wire)).await;
    let failure = match opened {
        Ok(Ok((answer, reader))) => {
            ready.send_replace(Some(Ok(())));
            let why = read(&wire, answer, reader).await;
            wire.watch.note(&why);
            return wire.inbox.receive(LinkEvent::Ended(why));
        }
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Closed("the event stream does not say where to post".to_owned()),
    };
    ready.send_replace(Some(Err(failure)));
    // Those who wait hear the reason from `carry`, which needs the sender alive.
    ready.closed().await;
}

/// Opens the stream and reads up to the `endpoint` event.
async fn open(wire: &Wire) -> Result<(Response, SseReader), Failure> {
    let mut answer = wire.send(Method::GET, wire.get_headers(), None).await?;
    let facts = Facts::of(&answer, false);
    if !facts.is_event_stream() {
        let body = wire.whole(answer, wire.limits.bytes).await;
        let body = body.unwrap_or_default();
        return Err(facts.no_stream(&body));
    }
    let of = exchange_of(&answer);
    let mut reader = SseReader::new(wire.limits);
    loop {
        while let Some(item) = reader.next() {
            if let SseItem::Event(event) = item
                && event.kind == "endpoint"
            {
                wire.watch.carried(of, Some(&event.kind), &event.data);
                let place = String::from_utf8_lossy(&event.data).trim().to_owned();
                return wire.move_to(&place).map(|()| (answer, reader));
            }
        }
        match answer.chunk().await {
            Ok(Some(chunk)) => reader.push(&chunk),
            Ok(None) => return Err(Failure::Closed("the event stream ended at once".to_owned())),
            Err(error) => return Err(Failure::Closed(deepest(&error.without_url()))),
        }
    }
}

/// Hands on what comes until the stream ends, and says how it did.
async fn read(wire: &Wire, mut answer: Response, mut reader: SseReader) -> String {
    let exchange = exchange_of(&answer);
    loop {
        while let Some(item) = reader.next() {
            match item {
                SseItem::Event(event) => {
                    if let Some(message) = message_of(event, wire, (None, exchange)) {
                        wire.inbox.receive(message);
                    }
                }
                SseItem::Unusable(what) => {
                    wire.watch.carried_unusable(exchange, &what);
                    wire.inbox.receive(LinkEvent::Unusable { what, of: None });
                }
            }
        }
        match answer.chunk().await {
            Ok(Some(chunk)) => reader.push(&chunk),
            Ok(None) => return "the server ended its event stream".to_owned(),
            Err(error) => {
                return format!("its event stream broke ({})", deepest(&error.without_url()));
            }
        }
    }
}

async fn carry(
    wire: Arc<Wire>,
    tasks: Tasks,
    mut queue: mpsc::Receiver<Outgoing>,
    ready: watch::Receiver<Ready>,
) {
    while let Some(outgoing) = queue.recv().await {
        let (wire, mut ready) = (wire.clone(), ready.clone());
        tasks.spawn(async move {
            let failure = match ready.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(Ok(()))) => None,
                Ok(Some(Err(failure))) => Some(failure.clone()),
                Ok(None) | Err(_) => {
                    Some(Failure::NotSent("the event stream has ended".to_owned()))
                }
            };
            let failure = match failure {
                None => post(&wire, &outgoing).await,
                failure => failure,
            };
            if let (Some(failure), Purpose::Request(head)) = (failure, &outgoing.purpose) {
                wire.inbox.receive(LinkEvent::Failed {
                    request: head.id,
                    failure,
                });
            }
            outgoing.ticket.handed_over();
        });
    }
}

/// Posts one message. What comes of it comes on the stream, unless it is refused here.
async fn post(
    wire: &Wire,
    Outgoing {
        body,
        purpose,
        ticket,
    }: &Outgoing,
) -> Option<Failure> {
    let method = match purpose {
        Purpose::Request(head) => Some(head.method),
        Purpose::Notification(method) => Some(*method),
        Purpose::Reply => None,
    };
    let mut headers = wire.post_headers(method);
    if let Purpose::Request(Head {
        trace: Some(trace), ..
    }) = purpose
    {
        trace.add_headers(&mut headers);
    }
    let answer = match wire
        .send(Method::POST, headers, Some(Load { body, ticket }))
        .await
    {
        Ok(answer) => answer,
        Err(failure) => return Some(failure),
    };
    let facts = Facts::of(&answer, false);
    if answer.status().is_success() {
        let _ = tokio::time::timeout(EPILOGUE, wire.whole(answer, wire.limits.bytes)).await;
        return None;
    }
    let text = wire.whole(answer, wire.limits.bytes).await;
    let text = text.unwrap_or_default();
    facts.judge(&text).or_else(|| {
        let of = if let Purpose::Request(head) = purpose {
            Some(head.id)
        } else {
            None
        };
        wire.inbox.receive(LinkEvent::Frame { text, of });
        None
    })
}

impl Link for Events {
    fn agreed(&self, agreed: Option<Agreed>) {
        self.wire.set_agreed(agreed);
    }

    fn close(&self, _: Duration) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let begun = Instant::now();
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

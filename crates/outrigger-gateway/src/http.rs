//! Streamable HTTP, both eras on one path.
//!
//! Promises: what a page of another site sends is refused (`Host` and `Origin` are looked at); bodies
//! are bounded before they are read; an answer is one JSON document, and a stream only where something
//! comes before it; streams carry no ids of events, since nothing is replayed.
//! Source: MCP 2025-11-25 and 2026-07-28, "Streamable HTTP".

mod body;
mod check;
mod post;
mod sessions;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

pub(crate) use body::Body;
pub(crate) use post::whole;
pub(crate) use sessions::Sessions;

use crate::changes;
use crate::gateway::Core;
use crate::message::{self, Fault};
use crate::outlet::{Outlet, Reply};
use crate::session::Session;
use crate::web;

/// Where it is served.
pub(crate) const PATH: &str = "/mcp";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// How long the head of a request may take, and a connection may be quiet.
const HEAD: Duration = Duration::from_mins(2);

pub(crate) type Answer = Response<Body>;

/// Serves one connection.
pub(crate) async fn serve(core: Arc<Core>, stream: TcpStream) {
    let stop = core.stop.clone();
    let local = is_local(&stream);
    let service = service_fn(move |request| {
        let core = Arc::clone(&core);
        async move { Ok::<_, Infallible>(Box::pin(answer(&core, request, local)).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Whether both ends are on this machine.
fn is_local(stream: &TcpStream) -> bool {
    let ends = [stream.local_addr(), stream.peer_addr()];
    let here =
        |end: std::io::Result<std::net::SocketAddr>| end.is_ok_and(|end| end.ip().is_loopback());
    ends.into_iter().all(here)
}

async fn answer(core: &Arc<Core>, request: Request<Incoming>, local: bool) -> Answer {
    if let Err(why) = check::origin(request.headers()) {
        return refused(
            StatusCode::FORBIDDEN,
            &Fault::new(message::INVALID_REQUEST, why),
        );
    }
    match (request.uri().path(), request.method()) {
        (PATH, &Method::POST) => post::answer(core, request).await,
        (PATH, &Method::GET) => standing(core, &request),
        (PATH, &Method::DELETE) => end(core, &request),
        (PATH, _) => not_allowed(),
        _ => web::answer(core, request, local).await,
    }
}

/// A stream for what belongs to no request, of the legacy era.
fn standing(core: &Arc<Core>, request: &Request<Incoming>) -> Answer {
    let Some(id) = request.headers().get(SESSION) else {
        return not_allowed();
    };
    let Some(session) = core.sessions.get(id) else {
        return unknown_session();
    };
    if !check::accepts(request.headers()).stream {
        return plain(
            StatusCode::NOT_ACCEPTABLE,
            "only text/event-stream is served here\n",
        );
    }
    let (outlet, parts) = Outlet::new();
    session.stands(&outlet);
    let (core_, session_) = (Arc::clone(core), Arc::clone(&session));
    core.tasks.spawn(async move {
        tokio::select! {
            () = changes::tell(&core_, &session_, &outlet, session_.listed()) => {}
            () = outlet.closed() => {}
            () = session_.ended() => {}
            () = core_.stop.cancelled() => {}
        }
    });
    streamed(Body::standing(parts))
}

fn end(core: &Core, request: &Request<Incoming>) -> Answer {
    match request.headers().get(SESSION) {
        None => not_allowed(),
        Some(id) => match core.sessions.remove(id) {
            None => unknown_session(),
            Some(session) => {
                session.cancel();
                empty(StatusCode::NO_CONTENT)
            }
        },
    }
}

/// The session that a request names.
fn session_of(core: &Core, headers: &HeaderMap) -> Result<Arc<Session>, Box<Answer>> {
    let Some(id) = headers.get(SESSION) else {
        let words = "`Mcp-Session-Id` is missing; `initialize` gives it";
        let fault = Fault::new(message::INVALID_REQUEST, words);
        return Err(Box::new(refused(StatusCode::BAD_REQUEST, &fault)));
    };
    let session = core.sessions.get(id);
    session.ok_or_else(|| Box::new(unknown_session()))
}

fn unknown_session() -> Answer {
    let fault = Fault::new(-32001, "there is no such session; `initialize` begins one");
    refused(StatusCode::NOT_FOUND, &fault)
}

fn not_allowed() -> Answer {
    let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
    let allowed = HeaderValue::from_static("POST, GET, DELETE");
    answer.headers_mut().insert(ALLOW, allowed);
    answer
}

fn refused(status: StatusCode, fault: &Fault) -> Answer {
    document(status, fault.reply(None))
}

/// One JSON document.
fn document(status: StatusCode, reply: Reply) -> Answer {
    typed(status, "application/json", Body::whole(reply.body))
}

pub(crate) fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, "not found\n")
}

pub(crate) fn plain(status: StatusCode, text: &'static str) -> Answer {
    typed(status, "text/plain", Body::whole(text.into()))
}

pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::whole(bytes::Bytes::new()));
    *answer.status_mut() = status;
    answer
}

fn streamed(body: Body) -> Answer {
    let mut answer = typed(StatusCode::OK, "text/event-stream", body);
    let headers = answer.headers_mut();
    // A proxy that waits for more would hold up what is there.
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    answer
}

fn typed(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

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
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

pub(crate) use body::Body;
pub(crate) use post::whole;
pub(crate) use sessions::Sessions;

use crate::auth::{Admitted, LATER, Refusal, Way, metadata};
use crate::changes;
use crate::gateway::{Core, Shared};
use crate::message::{self, Fault};
use crate::outlet::{Outlet, Reply};
use crate::session::Session;
use crate::slots::Slot;
use crate::tenant::Unserved;
use crate::web;

/// Where it is served.
pub(crate) const PATH: &str = "/mcp";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// How long the head of a request may take, and a connection may be quiet.
const HEAD: Duration = Duration::from_mins(2);

pub(crate) type Answer = Response<Body>;

/// Serves one connection.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let stop = shared.stop.clone();
    // A connection that is gone already is nobody's.
    let (Ok(here), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else {
        return;
    };
    let place = Place {
        here: here.ip(),
        way: Way {
            peer: peer.ip(),
            loopback: here.ip().is_loopback(),
        },
    };
    let held = Arc::new(Held::default());
    let service = service_fn(move |request| {
        let (shared, held) = (Arc::clone(&shared), Arc::clone(&held));
        async move {
            let answer = Box::pin(answer(&shared, (place, &held), request));
            Ok::<_, Infallible>(answer.await)
        }
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

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
struct Place {
    here: IpAddr,
    way: Way,
}

impl Place {
    /// Whether both ends are on this machine.
    fn is_local(&self) -> bool {
        self.here.is_loopback() && self.way.peer.is_loopback()
    }
}

/// Whose connection it is: that of the principal of its last request.
#[derive(Default)]
struct Held(Mutex<Option<Slot>>);

impl Held {
    /// It is this principal's from now on; an error is the answer where that has too many.
    fn by(&self, core: &Core) -> Result<(), Box<Answer>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_none_or(|it| !it.is_of(&core.connections)) {
            let slot = core.connect().map_err(|fault| {
                let mut answer = refused(StatusCode::SERVICE_UNAVAILABLE, &fault);
                let headers = answer.headers_mut();
                headers.insert(RETRY_AFTER, seconds(LATER));
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
                Box::new(answer)
            })?;
            *held = Some(slot);
        }
        Ok(())
    }
}

async fn answer(
    shared: &Arc<Shared>,
    (place, held): (Place, &Held),
    request: Request<Incoming>,
) -> Answer {
    if let Err(why) = check::origin(request.headers(), &shared.access.now().settings, place.here) {
        return refused(
            StatusCode::FORBIDDEN,
            &Fault::new(message::INVALID_REQUEST, why),
        );
    }
    match (request.uri().path(), request.method()) {
        (PATH, _) => match admitted(shared, place, &request).await {
            Ok(who) => governed(shared, (&who, held), request).await,
            Err(answer) => *answer,
        },
        (path, &Method::GET) if path.starts_with(metadata::WELL_KNOWN) => {
            described(shared, &request, path)
        }
        _ => {
            let local = place.is_local() && check::is_direct(request.headers());
            // Whoever shows a token from elsewhere sees what is theirs.
            if !local && web::is_for_principals(&request) {
                return match admitted(shared, place, &request).await {
                    Ok(who) => web::own(shared, &who, request.uri().path()).await,
                    Err(answer) => *answer,
                };
            }
            web::answer(shared, request, local).await
        }
    }
}

/// What is told of this endpoint as a protected resource; nobody need show who they are for it.
fn described(shared: &Shared, request: &Request<Incoming>, path: &str) -> Answer {
    let access = &shared.access.now().settings;
    // Of the endpoint, also where its own path is left out.
    let is_ours = matches!(
        path.strip_prefix(metadata::WELL_KNOWN),
        Some("" | "/" | PATH)
    ) || access
        .url
        .as_ref()
        .is_some_and(|url| path.strip_prefix(metadata::WELL_KNOWN) == Some(url.value.path()));
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let document = metadata::document(access, host.unwrap_or("localhost"), PATH);
    match document.filter(|_| is_ours) {
        Some(document) => typed(
            StatusCode::OK,
            "application/json",
            Body::whole(document.into()),
        ),
        None => not_found(),
    }
}

/// Who a request is from; an error is the answer to somebody who has not shown it.
async fn admitted(
    shared: &Shared,
    place: Place,
    request: &Request<Incoming>,
) -> Result<Admitted, Box<Answer>> {
    let told = |why: &str| shared.tenants.keeper().refused(place.way.peer, why);
    let access = shared.access.now();
    let admitted = access.admit(request.headers(), place.way, told).await;
    admitted.map_err(|refusal| Box::new(not_admitted(&refusal)))
}

fn not_admitted(refusal: &Refusal) -> Answer {
    let fault = Fault::new(message::INVALID_REQUEST, refusal.words.as_str());
    let mut answer = refused(refusal.status, &fault);
    let headers = answer.headers_mut();
    let challenge = refusal.challenge.as_deref();
    if let Some(Ok(challenge)) = challenge.map(HeaderValue::from_str) {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if let Some(wait) = refusal.retry_after {
        headers.insert(RETRY_AFTER, seconds(wait));
    }
    answer
}

/// Whole seconds, and no less than was meant.
fn seconds(wait: Duration) -> HeaderValue {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).into()
}

/// What somebody wants of the catalog.
async fn governed(
    shared: &Arc<Shared>,
    (who, held): (&Admitted, &Held),
    request: Request<Incoming>,
) -> Answer {
    if request.method() == Method::POST {
        return post::answer(shared, (who, held), request).await;
    }
    if !matches!(request.method(), &Method::GET | &Method::DELETE)
        || !request.headers().contains_key(SESSION)
    {
        return not_allowed();
    }
    match shared.tenants.of(shared, who).await {
        Ok(core) => match held.by(&core) {
            Err(answer) => *answer,
            Ok(()) if request.method() == Method::GET => standing(&core, &request),
            Ok(()) => end(&core, &request),
        },
        Err(unserved) => not_served(shared, &unserved, request.headers()),
    }
}

/// The answer to somebody whose servers are not there.
fn not_served(shared: &Shared, unserved: &Unserved, headers: &HeaderMap) -> Answer {
    if *unserved == Unserved::Over {
        return not_admitted(&shared.access.now().ended(headers));
    }
    let fault = crate::session::busy(&unserved.to_string());
    let mut answer = refused(StatusCode::SERVICE_UNAVAILABLE, &fault);
    answer.headers_mut().insert(RETRY_AFTER, seconds(LATER));
    answer
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
            () = session_.pass().over() => {}
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

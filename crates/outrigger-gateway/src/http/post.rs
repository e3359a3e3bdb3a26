//! POST: one message, and what comes of it.
//!
//! Promises: a request is answered with the status that its era gives to its end; one that takes its
//! time becomes a stream before anything between gives it up.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{HeaderMap, Request, StatusCode};
use outrigger_connect::wire::{self, FrameLimits, MODERN, Message};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::body::{Body, QUIET};
use super::check::{self, Accepts};
use super::{
    Answer, Held, SESSION, document, empty, not_served, plain, refused, session_of, streamed,
};
use crate::auth::{Admitted, Pass};
use crate::client::{Meta, unsupported};
use crate::gateway::{Core, Shared};
use crate::message::{self, Fault};
use crate::outlet::{Outlet, Part};
use crate::session::{Asked, Session};

/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_mins(1);
/// Nesting of a message's JSON.
const DEPTH: usize = 128;

/// A request, and by whose rules it is answered.
struct Taken<'a> {
    session: Arc<Session>,
    message: &'a Message<'a>,
    method: &'a str,
    modern: bool,
    accepts: Accepts,
}

pub(super) async fn answer(
    shared: &Arc<Shared>,
    (who, connection): (&Admitted, &Held),
    request: Request<Incoming>,
) -> Answer {
    let accepts = check::accepts(request.headers());
    if !accepts.document && !accepts.stream {
        return plain(
            StatusCode::NOT_ACCEPTABLE,
            "application/json and text/event-stream are served\n",
        );
    }
    if !check::is_json(request.headers()) {
        return plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "only application/json is taken\n",
        );
    }
    let (head, body) = request.into_parts();
    let most = shared.access.now().settings.max_message.value;
    let body = match tokio::time::timeout(PATIENCE, whole(body, most)).await {
        Ok(Ok(body)) => body,
        Ok(Err(StatusCode::PAYLOAD_TOO_LARGE)) => return too_large(most),
        Ok(Err(status)) => return given_up(status),
        Err(_) => return given_up(StatusCode::REQUEST_TIMEOUT),
    };
    let limits = FrameLimits {
        bytes: most,
        depth: DEPTH,
    };
    let parse = |why: &dyn std::fmt::Display| {
        let fault = Fault::new(message::PARSE_ERROR, format!("Parse error: {why}"));
        refused(StatusCode::BAD_REQUEST, &fault)
    };
    if let Err(error) = std::str::from_utf8(&body) {
        return parse(&error);
    }
    let body = match wire::check(body, limits) {
        Ok(body) => body,
        Err(what) => return parse(&what.reason),
    };
    let text = String::from_utf8_lossy(&body);
    let text = text.trim_start();
    if text.starts_with('[') {
        let fault = Fault::new(
            message::INVALID_REQUEST,
            "batches are not taken: one message a request",
        );
        return refused(StatusCode::BAD_REQUEST, &fault);
    }
    match wire::parse(text) {
        Ok(messages) => match &messages[..] {
            [message] => match shared.tenants.of(shared, who).await {
                Ok(core) => match connection.by(&core) {
                    Ok(()) => Box::pin(take(&core, &who.pass, (head, accepts), message)).await,
                    Err(answer) => *answer,
                },
                Err(unserved) => not_served(shared, &unserved, &head.headers),
            },
            _ => parse(&"no message"),
        },
        Err(error) => parse(&error),
    }
}

/// All of a body, if it is within the limit.
pub(crate) async fn whole(mut body: Incoming, most: usize) -> Result<Bytes, StatusCode> {
    if body.size_hint().lower() > most as u64 {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let mut out = BytesMut::new();
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        match frame.await {
            None => return Ok(out.freeze()),
            Some(Err(_)) => return Err(StatusCode::BAD_REQUEST),
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                if out.len() + data.len() > most {
                    return Err(StatusCode::PAYLOAD_TOO_LARGE);
                }
                out.extend_from_slice(&data);
            }
        }
    }
}

/// A message of a client has a bound.
fn too_large(most: usize) -> Answer {
    let words = format!("a message may have {most} bytes here (`gateway.max_message`)");
    let fault = Fault::new(message::INVALID_REQUEST, words);
    closing(refused(StatusCode::PAYLOAD_TOO_LARGE, &fault))
}

/// A body that was not read to its end is not read any further.
fn given_up(status: StatusCode) -> Answer {
    closing(plain(status, "the body is too slow or broken\n"))
}

fn closing(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

type Head = hyper::http::request::Parts;

async fn take(
    core: &Arc<Core>,
    pass: &Pass,
    (head, accepts): (Head, Accepts),
    message: &Message<'_>,
) -> Answer {
    let bad = |words: &str| {
        let fault = Fault::new(message::INVALID_REQUEST, words);
        refused(StatusCode::BAD_REQUEST, &fault)
    };
    if message.names_id && message.id.is_none() {
        return bad("the id of a request is not null");
    }
    let of_body = Meta::of(message.params).is_some_and(|meta| meta.is_modern());
    let of_head = check::modern_version(&head.headers);
    match (&message.method, message.id) {
        (Some(method), Some(_)) => {
            let begins = method == "initialize" && !of_body && of_head != Some(MODERN);
            let modern = (of_body || of_head.is_some()) && !begins;
            let session = match (modern, begins) {
                (true, _) => match modern_head(&head.headers, of_head, method, message) {
                    Ok(()) => Session::single(core, pass),
                    Err(fault) => return faulty(&fault, message),
                },
                (false, true) => Session::new(core, pass),
                (false, false) => match session_of(core, &head.headers) {
                    Ok(session) => session,
                    Err(answer) => return *answer,
                },
            };
            let taken = Taken {
                session,
                message,
                method,
                modern,
                accepts,
            };
            respond(core, taken, begins).await
        }
        (Some(_), None) if of_head.is_some() => match of_head {
            Some(version) if version != MODERN => faulty(&unsupported(version), message),
            // The era has no notifications of clients; some are sent all the same.
            _ => empty(StatusCode::ACCEPTED),
        },
        (method, _) => match session_of(core, &head.headers) {
            Err(answer) => *answer,
            Ok(session) => {
                match method {
                    Some(method) => session.notification(method, message.params),
                    None if message.id.is_some() => session.answered(message),
                    None => return bad("neither a request, nor a notification, nor an answer"),
                }
                empty(StatusCode::ACCEPTED)
            }
        },
    }
}

/// Whether the head of a modern request is in order.
fn modern_head(
    headers: &HeaderMap,
    of_head: Option<&str>,
    method: &str,
    message: &Message<'_>,
) -> Result<(), Fault> {
    check::agrees(headers, method, message.params)?;
    match of_head {
        // What the body names is looked at where it is read.
        Some(version)
            if version != MODERN
                && Meta::of(message.params).is_none_or(|meta| !meta.is_modern()) =>
        {
            Err(unsupported(version))
        }
        _ => Ok(()),
    }
}

fn faulty(fault: &Fault, message: &Message<'_>) -> Answer {
    document(status(fault.code), fault.reply(message.id))
}

/// The status of an error, in the modern era.
fn status(code: i64) -> StatusCode {
    match code {
        message::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        message::PARSE_ERROR
        | message::INVALID_REQUEST
        | message::INVALID_PARAMS
        | -32022..=-32020 => StatusCode::BAD_REQUEST,
        message::BUSY => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    }
}

/// Answers a request.
async fn respond(core: &Arc<Core>, taken: Taken<'_>, begins: bool) -> Answer {
    let Some(id) = taken.message.id else {
        return empty(StatusCode::ACCEPTED);
    };
    let (outlet, mut parts) = Outlet::new();
    let cancel = core.abort.child_token();
    // The legacy era says what it gives up; a connection that is lost says nothing.
    let guard = taken.modern.then(|| cancel.clone().drop_guard());
    let asked = Asked {
        id,
        method: taken.method,
        params: taken.message.params,
        outlet,
        cancel,
    };
    taken.session.request(asked).await;
    let first = first(&mut parts, taken.accepts).await;
    match first {
        First::End(reply) => {
            if let Some(guard) = guard {
                guard.disarm();
            }
            let status = match reply.code {
                Some(error) if taken.modern => status(error),
                Some(message::BUSY) => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::OK,
            };
            let ok = reply.code.is_none();
            let mut answer = document(status, reply);
            if begins && ok {
                match core.keep(taken.session) {
                    Ok(session) => drop(answer.headers_mut().insert(SESSION, session)),
                    Err(fault) => {
                        let reply = fault.reply(Some(id));
                        answer = document(StatusCode::SERVICE_UNAVAILABLE, reply);
                    }
                }
            }
            answer
        }
        First::Message(message) => stream(Some(message), parts, guard),
        First::Quiet => stream(None, parts, guard),
        // Its client has cancelled it.
        First::Nothing => empty(StatusCode::OK),
    }
}

fn stream(first: Option<Bytes>, parts: mpsc::Receiver<Part>, guard: Option<DropGuard>) -> Answer {
    streamed(Body::answer(first, parts, guard))
}

/// What a request comes to first.
enum First {
    End(crate::outlet::Reply),
    Message(Bytes),
    Quiet,
    Nothing,
}

async fn first(parts: &mut mpsc::Receiver<Part>, accepts: Accepts) -> First {
    let quiet = tokio::time::sleep(QUIET);
    tokio::pin!(quiet);
    loop {
        let part = tokio::select! {
            biased;
            part = parts.recv() => part,
            () = &mut quiet, if accepts.stream => return First::Quiet,
        };
        match part {
            Some(Part::End(reply)) => return First::End(reply),
            Some(Part::Message(message)) if accepts.stream => return First::Message(message),
            // Whoever takes documents only hears nothing on the way.
            Some(Part::Message(_)) => {}
            None => return First::Nothing,
        }
    }
}

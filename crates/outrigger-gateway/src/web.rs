//! What is served over HTTP beside the protocol: health, numbers, a status page, and a page to approve
//! calls on.
//!
//! Promises: but for `/health` and `/ready`, only to this machine; of the status page also to a
//! principal that shows who it is, its own part; what is read on a page comes from servers and clients,
//! and is text there whatever it holds; a page runs no script but ours, and is in no frame. Arguments of
//! calls are on the page of approvals alone, which needs the [`key`].

mod approvals;
mod key;
mod layout;
mod status;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
};
use hyper::{Method, Request, Response, StatusCode};
use maud::Markup;
use outrigger_host::hidden;
use serde_json::json;

pub(crate) use key::Door;

use crate::auth::Admitted;
use crate::gateway::{Core, Shared};
use crate::http::{Answer, Body, not_found, plain};
use crate::metrics::{self, Seen};

/// How long the journal may take to say that it is well.
const WELL: Duration = Duration::from_secs(2);

const CSS: &str = include_str!("web/page.css");
const JS: &str = include_str!("web/page.js");

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Answers a request that is not for the protocol. `local`: it came from this machine.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    local: bool,
) -> Answer {
    let read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/health" if read => plain(StatusCode::OK, "ok\n"),
        "/ready" if read => ready(shared).await,
        _ if !local => not_found(),
        "/" if read => page(StatusCode::OK, &status::page(shared).await),
        "/metrics" if read => numbers(shared).await,
        "/page.css" if read => typed("text/css", CSS),
        "/page.js" if read => typed("text/javascript", JS),
        path if path.starts_with("/approvals") => approvals::answer(shared, request).await,
        _ => not_found(),
    }
}

/// Whether a request from elsewhere is for what a principal may see, and shows a token.
pub(crate) fn is_for_principals(request: &Request<Incoming>) -> bool {
    let read = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = matches!(request.uri().path(), "/" | "/page.css" | "/page.js");
    read && known && request.headers().contains_key(AUTHORIZATION)
}

/// What a principal sees that has shown who it is. Nothing of it is for whoever runs the gateway, who could
/// be anybody behind a proxy.
pub(crate) async fn own(shared: &Shared, who: &Admitted, path: &str) -> Answer {
    let Some(name) = who.who.name() else {
        return not_found();
    };
    match path {
        "/page.css" => typed("text/css", CSS),
        "/page.js" => typed("text/javascript", JS),
        _ => page(StatusCode::OK, &status::own(shared, name).await),
    }
}

/// Why new calls are not taken now; nothing when they are.
async fn troubles(shared: &Shared) -> Vec<String> {
    let mut troubles = Vec::new();
    if shared.drain.is_cancelled() {
        troubles.push("the gateway is ending".to_owned());
    }
    let cores = shared.tenants.cores();
    let all = join_all(cores.iter().map(|core| trouble(core))).await;
    for trouble in all.into_iter().flatten() {
        if !troubles.contains(&trouble) {
            troubles.push(trouble);
        }
    }
    troubles
}

/// Why calls of one principal cannot be recorded.
async fn trouble(core: &Core) -> Option<String> {
    let run = core.record.run.as_ref()?;
    match tokio::time::timeout(WELL, run.well()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the journal does not answer".to_owned()),
    }
}

async fn ready(shared: &Shared) -> Answer {
    let troubles = troubles(shared).await;
    let status = if troubles.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({ "ready": troubles.is_empty(), "why": troubles }).to_string();
    with(status, "application/json", body.into())
}

async fn numbers(shared: &Shared) -> Answer {
    let (in_flight, waiting) = shared.activity.counts();
    let cores = shared.tenants.cores();
    let journals = cores
        .iter()
        .filter_map(|core| core.record.journal.as_ref())
        .map(|journal| (journal.commits(), journal.queued()));
    let seen = Seen {
        in_flight,
        waiting,
        parked: cores.iter().map(|core| core.parked.len()).sum(),
        sessions: cores.iter().map(|core| core.sessions.len()).sum(),
        connections: shared.slots.taken(),
        principals: cores.len(),
        ready: troubles(shared).await.is_empty(),
        journal: journals.reduce(|one, other| (one.0 + other.0, one.1 + other.1)),
    };
    let hosts: Vec<_> = cores.iter().map(|core| core.host()).collect();
    let text = shared.activity.metrics.text(hosts.iter(), &seen);
    with(StatusCode::OK, metrics::CONTENT_TYPE, text.into())
}

/// A page of ours.
fn page(status: StatusCode, markup: &Markup) -> Answer {
    let mut answer = with(status, "text/html; charset=utf-8", markup.0.clone().into());
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn typed(kind: &'static str, text: &'static str) -> Answer {
    with(StatusCode::OK, kind, Bytes::from_static(text.as_bytes()))
}

fn with(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer: Answer = Response::new(Body::whole(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    answer
}

/// What somebody else wrote, with everything hidden written out.
fn told(text: &str) -> Cow<'_, str> {
    hidden::visible(text, |c| c == '\n')
}

/// The beginning of it.
fn beginning(text: &str, characters: usize) -> String {
    let mut all = text.chars();
    let beginning: String = all.by_ref().take(characters).collect();
    let more = if all.next().is_some() { "…" } else { "" };
    format!("{}{more}", told(&beginning))
}

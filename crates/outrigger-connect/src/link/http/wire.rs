//! What all exchanges with one endpoint share: where it is, what was agreed on, the session.
//!
//! Promises: 307 and 308 within the origin are followed with method and body; anything that leads
//! to another origin is refused before a byte or a header is sent there, tokens above all. A request
//! is sent again only when the server has said that it did nothing with it: redirects, 401 and 403.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::{Method, Response, StatusCode};
use url::Url;

use super::answer::Hint;
use super::body::TicketBody;
use super::client::{BadHttpSpec, Clients, deepest, headers};
use crate::connection::Era;
use crate::frame::{FrameLimits, Unusable};
use crate::link::{Agreed, Inbox, Ticket};
use crate::oauth::{Authorizer, Bearer, OAuthError};
use crate::rpc::{Failure, HttpAnswer};
use crate::tap::{Exchange, Watch};
use crate::text::{excerpt, place};
use crate::{CallError, HttpSpec, handshake};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const REDIRECTS: usize = 5;

/// Times that one request is sent: without or with an old token, with a new one, with a wider one.
const TOKENS: usize = 3;

/// How long a call waits for the stream of the server's own messages to be opened.
const OPENING: Duration = Duration::from_millis(500);

pub(super) struct Wire {
    client: reqwest::Client,
    authorizer: Option<Arc<Authorizer>>,
    configured: HeaderMap,
    state: Mutex<State>,
    pub(super) limits: FrameLimits,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) watch: Watch,
    opening: tokio::sync::watch::Sender<bool>,
}

struct State {
    /// The endpoint, as configured or as a 308 has moved it.
    endpoint: Url,
    session: Option<HeaderValue>,
    agreed: Option<Agreed>,
}

/// The body of a request and the ticket that says whether it has left.
pub(super) struct Load<'a> {
    pub(super) body: &'a Bytes,
    pub(super) ticket: &'a Arc<Ticket>,
}

impl Wire {
    pub(super) fn new(
        spec: &HttpSpec,
        (clients, authorizer): (&Clients, Option<Arc<Authorizer>>),
        limits: FrameLimits,
        (inbox, watch): (Arc<dyn Inbox>, Watch),
    ) -> Result<Self, BadHttpSpec> {
        let state = State {
            endpoint: spec.url.clone(),
            session: None,
            agreed: None,
        };
        Ok(Self {
            client: clients.client_for(spec)?,
            authorizer,
            configured: headers(spec)?,
            state: Mutex::new(state),
            limits,
            inbox,
            watch,
            opening: tokio::sync::watch::Sender::new(false),
        })
    }

    /// The stream for what the server says by itself is being opened, or (`false`) that is over,
    /// however it ended.
    pub(super) fn set_opening(&self, opening: bool) {
        self.opening.send_replace(opening);
    }

    /// Waits until that is over, for a short while and once: a question that a server asks on that
    /// stream before it is there gets lost, and the call that wanted to know never ends.
    pub(super) async fn until_listening(&self) {
        let mut opening = self.opening.subscribe();
        let over = opening.wait_for(|opening| !opening);
        if tokio::time::timeout(OPENING, over).await.is_err() {
            self.set_opening(false);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn agreed(&self) -> Option<Agreed> {
        self.state().agreed.clone()
    }

    /// Agreeing anew begins without a session.
    pub(super) fn set_agreed(&self, agreed: Option<Agreed>) {
        let mut state = self.state();
        if agreed.is_none() {
            state.session = None;
        }
        state.agreed = agreed;
    }

    pub(super) fn keep_session(&self, answer: &Response) {
        if let Some(session) = answer.headers().get(&SESSION) {
            self.state().session = Some(session.clone());
        }
    }

    /// The headers of a POST for `method`.
    pub(super) fn post_headers(&self, method: Option<&str>) -> HeaderMap {
        let mut headers = self.get_headers();
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if method == Some("initialize") {
            headers.remove(&SESSION);
            headers.remove(&VERSION);
        }
        headers
    }

    pub(super) fn get_headers(&self) -> HeaderMap {
        let mut headers = self.configured.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let state = self.state();
        if let Some(session) = &state.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(version) = state
            .agreed
            .as_ref()
            .and_then(|agreed| HeaderValue::from_str(&agreed.version).ok())
        {
            headers.insert(VERSION, version);
        }
        headers
    }

    pub(super) fn is_modern(&self) -> bool {
        self.state()
            .agreed
            .as_ref()
            .is_some_and(|agreed| agreed.era == Era::Modern)
    }

    /// Sends one request, with a token where the server wants one, and follows it within the origin.
    pub(super) async fn send(
        &self,
        method: Method,
        mut headers: HeaderMap,
        load: Option<Load<'_>>,
    ) -> Result<Response, Failure> {
        let Some(authorizer) = &self.authorizer else {
            return self.follow(&method, &headers, load.as_ref(), true).await;
        };
        let mut bearer = authorizer
            .bearer()
            .await
            .map_err(|error| no_token(authorizer, &error, None))?;
        let mut round = 1;
        loop {
            if let Some(bearer) = &bearer {
                headers.insert(AUTHORIZATION, bearer.header.clone());
            }
            let first = round == 1;
            let sent = self.follow(&method, &headers, load.as_ref(), first);
            let mut answer = sent.await?;
            let next = answer_refusal(authorizer, &answer, bearer.as_ref()).await?;
            let wants_token = matches!(answer.status().as_u16(), 401 | 403);
            match next {
                Some(next) if round < TOKENS => bearer = Some(next),
                _ => {
                    if let Some(hint) = authorizer.hint(None).filter(|_| wants_token) {
                        answer.extensions_mut().insert(Hint(hint));
                    }
                    return Ok(answer);
                }
            }
            round += 1;
        }
    }

    /// Sends one request within the origin. `first`: nothing of it has left before.
    async fn follow(
        &self,
        method: &Method,
        headers: &HeaderMap,
        load: Option<&Load<'_>>,
        first: bool,
    ) -> Result<Response, Failure> {
        let mut url = self.state().endpoint.clone();
        for hop in 0..=REDIRECTS {
            let mut request = self
                .client
                .request(method.clone(), url.clone())
                .headers(headers.clone());
            if let Some(Load { body, ticket }) = load {
                // After a refusal the server has said itself that it did nothing with the first.
                request = if first && hop == 0 {
                    request.body(reqwest::Body::wrap(TicketBody::new(
                        (*body).clone(),
                        (*ticket).clone(),
                    )))
                } else {
                    request.body((*body).clone())
                };
            }
            let body = load.map(|load| load.body.as_ref());
            let number = self
                .watch
                .request((method.as_str(), url.as_str()), headers, body);
            let mut answer = request.send().await.map_err(|error| {
                let ticket = load.map(|load| load.ticket);
                let failure = failed(error, &url, ticket.is_none_or(|ticket| ticket.withdraw()));
                self.watch
                    .unanswered(number, &CallError::from(failure.clone()).to_string());
                failure
            })?;
            let (status, said) = (answer.status().as_u16(), answer.headers());
            let exchange = self.watch.answer(number, status, said);
            answer.extensions_mut().insert(exchange);
            match self.redirect(&answer, &url)? {
                None => return Ok(answer),
                Some(next) => url = next,
            }
        }
        Err(refused(
            StatusCode::TEMPORARY_REDIRECT,
            format!("the server redirects more than {REDIRECTS} times"),
        ))
    }

    /// Sends to `place`, which the server names, from now on. Only within the origin.
    pub(super) fn move_to(&self, place: &str) -> Result<(), Failure> {
        let mut state = self.state();
        let bad = |text: String| HttpAnswer {
            status: 200,
            message: text,
            redirect: true,
            ..HttpAnswer::default()
        };
        let Ok(to) = state.endpoint.join(place) else {
            let words = excerpt(place.as_bytes(), 100);
            return Err(Failure::Http(bad(format!(
                "the server names an endpoint that is no address: {words}"
            ))));
        };
        if to.origin() != state.endpoint.origin() {
            let other = to.origin().ascii_serialization();
            let text = format!(
                "the server names an endpoint at another origin, {other}; nothing was sent there"
            );
            return Err(Failure::Http(bad(text)));
        }
        state.endpoint = to;
        Ok(())
    }

    /// Where an answer sends us, within the origin.
    fn redirect(&self, answer: &Response, from: &Url) -> Result<Option<Url>, Failure> {
        let status = answer.status();
        if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let Some(to) = answer
            .headers()
            .get(LOCATION)
            .and_then(|to| from.join(to.to_str().ok()?).ok())
        else {
            return Err(refused(
                status,
                format!("HTTP {status} without a usable `Location`"),
            ));
        };
        if to.origin() != from.origin() {
            let place = to.origin().ascii_serialization();
            let text = format!(
                "HTTP {status} leads from {} to another origin, {place}; it was not followed, so that no header of \
                 this server goes there. If that is where the server is, configure its address",
                from.origin().ascii_serialization()
            );
            return Err(refused(status, text));
        }
        match status {
            StatusCode::TEMPORARY_REDIRECT => Ok(Some(to)),
            StatusCode::PERMANENT_REDIRECT => {
                self.state().endpoint = to.clone();
                Ok(Some(to))
            }
            _ => {
                let text = format!(
                    "HTTP {status} to {to} would lose the request's body; configure that address instead"
                );
                Err(refused(status, text))
            }
        }
    }

    /// The whole body of an answer.
    pub(super) async fn whole(&self, answer: Response, limit: usize) -> Result<Bytes, Cut> {
        let exchange = exchange_of(&answer);
        let read = whole(answer, limit).await;
        match &read {
            Ok(body) if body.is_empty() => {}
            Ok(body) => self.watch.carried(exchange, None, body),
            Err(Cut::TooLarge(head)) => {
                let reason = format!("cut at {limit} bytes");
                self.watch
                    .carried_unusable(exchange, &Unusable::of(head, reason));
            }
            Err(Cut::Broke(why)) => self
                .watch
                .carried_unusable(exchange, &Unusable::of(&[], why.clone())),
        }
        read
    }

    /// Tells the server that the session is over, if there is one.
    pub(super) async fn say_goodbye(&self) {
        if self.state().session.is_some() {
            let _ = self.send(Method::DELETE, self.get_headers(), None).await;
        }
    }

    /// The header that names the version before one was agreed on.
    pub(super) fn probing(headers: &mut HeaderMap) {
        headers.insert(VERSION, HeaderValue::from_static(handshake::MODERN));
    }
}

/// Which exchange an answer belongs to, for who watches.
pub(super) fn exchange_of(answer: &Response) -> Exchange {
    answer.extensions().get().copied().unwrap_or_default()
}

/// Why a body did not arrive whole.
pub(super) enum Cut {
    TooLarge(Bytes),
    Broke(String),
}

async fn whole(mut answer: Response, limit: usize) -> Result<Bytes, Cut> {
    let broke = |error: reqwest::Error| Cut::Broke(deepest(&error.without_url()));
    let Some(first) = answer.chunk().await.map_err(broke)? else {
        return Ok(Bytes::new());
    };
    let mut rest: Option<BytesMut> = None;
    while let Some(chunk) = answer.chunk().await.map_err(broke)? {
        let all = rest.get_or_insert_with(|| BytesMut::from(&first[..]));
        all.extend_from_slice(&chunk);
        if all.len() > limit {
            return Err(Cut::TooLarge(rest.unwrap_or_default().freeze()));
        }
    }
    match rest {
        Some(all) => Ok(all.freeze()),
        None if first.len() > limit => Err(Cut::TooLarge(first)),
        None => Ok(first),
    }
}

/// What to send instead, if the answer is a refusal that a token could mend.
async fn answer_refusal(
    authorizer: &Authorizer,
    answer: &Response,
    used: Option<&Bearer>,
) -> Result<Option<Bearer>, Failure> {
    let status = answer.status();
    if let Some(used) = used.filter(|_| status != StatusCode::UNAUTHORIZED) {
        authorizer.accepted(used);
    }
    let next = authorizer.refused(status.as_u16(), answer.headers(), used);
    next.await
        .map_err(|error| no_token(authorizer, &error, Some(status)))
}

/// No token, and why. `status`: what the server refused the request with.
fn no_token(authorizer: &Authorizer, error: &OAuthError, status: Option<StatusCode>) -> Failure {
    let passing = matches!(error, OAuthError::Unreachable { .. } | OAuthError::Store(_));
    match status {
        None if passing => Failure::NotSent(format!("no token could be got: {error}")),
        _ => Failure::Http(HttpAnswer {
            status: status.unwrap_or(StatusCode::UNAUTHORIZED).as_u16(),
            message: error.to_string(),
            hint: authorizer.hint(Some(error)),
            no_token: true,
            ..HttpAnswer::default()
        }),
    }
}

fn refused(status: StatusCode, message: String) -> Failure {
    Failure::Http(HttpAnswer {
        status: status.as_u16(),
        message,
        redirect: true,
        ..HttpAnswer::default()
    })
}

/// A request that got no answer.
pub(super) fn failed(error: reqwest::Error, url: &Url, nothing_left: bool) -> Failure {
    let place = place(url);
    let cause = deepest(&error.without_url());
    if nothing_left {
        Failure::NotSent(format!("cannot reach {place}: {cause}"))
    } else {
        Failure::Closed(format!(
            "{place} ended the connection without an answer: {cause}"
        ))
    }
}

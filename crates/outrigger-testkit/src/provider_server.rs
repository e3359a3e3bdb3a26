//! A model provider on loopback that says what a script tells it, over real HTTP.
//!
//! Speaks Chat Completions, Responses, Messages and `streamGenerateContent` on one port, told apart
//! by path. Like the real ones it refuses conversations that break the protocol's rules (a call
//! without its result, roles that do not alternate). It records what it was sent. It knows no
//! authentication unless the script refuses.

mod anthropic;
mod dialect;
mod gemini;
mod http;
mod openai_chat;
mod openai_responses;
mod request;
mod script;
mod search;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use dialect::Protocol;
pub use request::RecordedRequest;
pub use script::{Delivery, Script, ScriptedCall, ScriptedUsage, Stop, StreamError, Trouble, Turn};

use dialect::{Dialect, Said, dialect};
use http::{Answer, Request};

/// The running server. Dropping it closes every connection.
#[derive(Debug)]
pub struct ProviderServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

type Respond = Box<dyn Fn(&RecordedRequest) -> Turn + Send + Sync>;

struct Shared {
    respond: Respond,
    requests: Mutex<Vec<RecordedRequest>>,
    searches: Mutex<search::Said>,
    /// How many clients hung up before their answer was over.
    hung_up: watch::Sender<usize>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}

impl ProviderServer {
    /// Serves the turns of `script`, one for each request, in order.
    pub async fn start(script: Script) -> io::Result<Self> {
        let turns = Mutex::new(script.into_queue());
        let next = move |request: &RecordedRequest| {
            let turn = turns
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            match turn {
                Some(turn) => turn.filled(request),
                None => Turn::status(400, "the script has no more turns"),
            }
        };
        Self::answering(next).await
    }

    /// Serves what `respond` makes of each request, so that a model can react to tool results.
    pub async fn answering(
        respond: impl Fn(&RecordedRequest) -> Turn + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            respond: Box::new(respond),
            requests: Mutex::new(Vec::new()),
            searches: Mutex::default(),
            hung_up: watch::Sender::new(0),
        });
        let mut tasks = JoinSet::new();
        let accepting = Arc::clone(&shared);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&accepting);
                connections.spawn(async move { serve(stream, &shared).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            shared,
            _tasks: tasks,
        })
    }

    /// `http://127.0.0.1:PORT/v1`, which works as base URL for all four protocols.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// `127.0.0.1:PORT`, as it would stand in `OLLAMA_HOST`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Everything that was asked of a model so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until `count` clients have hung up in the middle of a stalled answer.
    pub async fn hung_up(&self, count: usize) {
        let mut seen = self.shared.hung_up.subscribe();
        // The sender lives as long as `self`, so this ends only with the count.
        seen.wait_for(|hung_up| *hung_up >= count).await.ok();
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) {
    stream.set_nodelay(true).ok();
    let Ok(Some(request)) = http::read(&mut stream).await else {
        return;
    };
    let answer = shared.answer(request);
    if http::write(&mut stream, &answer)
        .await
        .is_ok_and(|outcome| outcome == http::Outcome::HungUp)
    {
        shared.hung_up.send_modify(|count| *count += 1);
    }
}

impl Shared {
    fn answer(&self, request: Request) -> Answer {
        let path = request
            .path
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned();
        match (&*request.method, Protocol::of_path(&path)) {
            ("POST", Some(protocol)) => self.turn(protocol, request),
            ("GET", None) if path == "/api/tags" => Answer::json(200, &installed()),
            ("GET", None) if path.ends_with("/models") => Answer::json(
                200,
                &json!({ "object": "list", "data": [{ "id": "scripted", "object": "model" }] }),
            ),
            _ => Answer::plain(404, "404 page not found"),
        }
    }

    fn turn(&self, protocol: Protocol, request: Request) -> Answer {
        let dialect = dialect(protocol);
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            return Answer::json(400, &dialect.error_body(400, "the body is not JSON"));
        };
        let recorded = RecordedRequest {
            protocol,
            path: request.path,
            headers: request.headers,
            body,
            text: String::from_utf8_lossy(&request.body).into_owned(),
        };
        let searches = || self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        let objection = dialect.objection(&recorded.body).or_else(|| {
            // Without deferred tools there is nothing for searches to go with.
            let hidden = dialect.hidden(&recorded.body);
            (!hidden.is_empty()).then(|| searches().objection(&recorded.text))?
        });
        let number = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(recorded.clone());
            requests.len()
        };
        if let Some(objection) = objection {
            return Answer::json(400, &dialect.error_body(400, &objection));
        }
        let turn = (self.respond)(&recorded);
        let said = Said {
            turn: &turn,
            number,
            hidden: dialect.hidden(&recorded.body),
        };
        let calls = (0..turn.calls.len()).map(|index| said.call_id(index));
        searches().note(calls.collect(), &dialect.searches(&said));
        answer(dialect, &said)
    }
}

/// The answer that a turn makes, whatever goes wrong in it.
fn answer(dialect: &dyn Dialect, said: &Said<'_>) -> Answer {
    let turn = said.turn;
    let stream = |events| {
        Answer::new(
            200,
            "text/event-stream; charset=utf-8",
            events,
            turn.delivery.clone(),
        )
    };
    match &turn.trouble {
        Some(Trouble::Status {
            status,
            message,
            headers,
        }) => {
            let mut answer = Answer::json(*status, &dialect.error_body(*status, message));
            answer.headers.extend(
                headers
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
            answer
        }
        Some(Trouble::Body {
            status,
            content_type,
            body,
        }) => Answer::new(
            *status,
            content_type,
            vec![body.clone()],
            turn.delivery.clone(),
        ),
        Some(Trouble::InStream { error, message }) => {
            let mut events = dialect.events(said);
            events.push(dialect.error_event(*error, message));
            stream(events)
        }
        None => {
            let mut events = dialect.events(said);
            events.extend(dialect.end(said));
            stream(events)
        }
    }
}

fn installed() -> Value {
    json!({ "models": [
        { "name": "nomic-embed-text:latest", "details": { "family": "nomic-bert" } },
        { "name": "scripted:latest", "details": { "family": "llama" } },
    ] })
}

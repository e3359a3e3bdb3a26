//! What servers of the legacy era ask: people, models, folders.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_connect::{
    Asker, CallError, CallOptions, Connection, Connector, Elicitation, ElicitationAnswer,
    ElicitationHandler, Handlers, Refusal, Root, RootsHandler, SamplingHandler,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peer::{Act, Peer, call, call_within, good, raw, result, until};

/// What [`People`] does.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// Fills in what the schema gives.
    Agree,
    Decline,
    Refuse,
    /// Never answers.
    Think,
}

/// A person.
pub(crate) struct People {
    pub(crate) manner: Manner,
    pub(crate) asked: Mutex<Vec<(Asker, Elicitation)>>,
    pub(crate) dropped: Arc<AtomicUsize>,
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl People {
    pub(crate) fn new(manner: Manner) -> Arc<Self> {
        Arc::new(Self {
            manner,
            asked: Mutex::default(),
            dropped: Arc::default(),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl ElicitationHandler for People {
    fn elicit(
        &self,
        asker: Asker,
        question: Elicitation,
    ) -> BoxFuture<'static, Result<ElicitationAnswer, Refusal>> {
        let manner = self.manner;
        let values = raw(&Value::Object(question.defaults()).to_string());
        self.asked.lock().unwrap().push((asker, question));
        let dropped = Dropped(self.dropped.clone());
        Box::pin(async move {
            let _dropped = dropped;
            match manner {
                Manner::Agree => Ok(ElicitationAnswer::Accept(Some(values))),
                Manner::Decline => Ok(ElicitationAnswer::Decline),
                Manner::Refuse => Err(Refusal("nobody is there".to_owned())),
                Manner::Think => std::future::pending().await,
            }
        })
    }

    fn takes_addresses(&self) -> bool {
        true
    }
}

struct Folders;

impl RootsHandler for Folders {
    fn roots(&self, _: Asker) -> BoxFuture<'static, Result<Vec<Root>, Refusal>> {
        let uri = "file:///w".to_owned();
        Box::pin(async { Ok(vec![Root { uri, name: None }]) })
    }
}

struct Echo;

impl SamplingHandler for Echo {
    fn sample(
        &self,
        _: Asker,
        params: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, Refusal>> {
        Box::pin(async { Ok(params) })
    }
}

pub(crate) fn asks(people: &Arc<People>) -> Handlers {
    Handlers {
        elicitation: Some(people.clone()),
        ..Handlers::default()
    }
}

pub(crate) async fn connect_with(peer: &Peer, handlers: Handlers) -> Connection {
    let connector = Connector::new("0.0.0", None).with_handlers(handlers);
    Box::pin(connector.connect(&peer.spec(), &CancellationToken::new()))
        .await
        .unwrap()
}

fn ask(id: &str, method: &str, params: &Value) -> Act {
    Act::Say(format!(
        "{}\n",
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    ))
}

fn form() -> Value {
    let properties =
        json!({ "age": { "type": "integer", "default": 30 }, "name": { "type": "string" } });
    json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": properties } })
}

/// Asks `params` during each call, and gives what it heard as the result.
fn asking(method: &'static str, params: Value) -> Peer {
    let waiting = Mutex::new(Value::Null);
    Peer::legacy(move |message| {
        if message["method"] == "tools/call" {
            *waiting.lock().unwrap() = message.clone();
            return Some(ask("q", method, &params));
        }
        if message["id"] == "q" {
            let call = waiting.lock().unwrap().clone();
            let heard = message.get("result").or(message.get("error"));
            return Some(result(&call, &json!({ "content": [], "heard": heard })));
        }
        None
    })
}

async fn heard(connection: &Connection) -> Value {
    let answer = call(connection).await.unwrap();
    serde_json::from_str::<Value>(answer.get()).unwrap()["heard"].clone()
}

#[tokio::test]
async fn a_form_is_filled_in_during_a_call() {
    let people = People::new(Manner::Agree);
    let peer = asking("elicitation/create", form());
    let connection = connect_with(&peer, asks(&people)).await;
    let capabilities = json!({ "elicitation": { "form": {}, "url": {} } });
    assert_eq!(
        peer.heard.lock().unwrap()[1]["params"]["capabilities"],
        capabilities
    );
    assert_eq!(
        heard(&connection).await,
        json!({ "action": "accept", "content": { "age": 30 } })
    );
    let asked = people.asked.lock().unwrap();
    let (from, question) = &asked[0];
    assert_eq!(
        (from.server.as_str(), from.tool.as_deref()),
        ("scripted", Some("echo"))
    );
    assert!(matches!(question, Elicitation::Form { message, .. } if message == "Who?"));
}

#[tokio::test]
async fn each_kind_of_question_has_its_handler() {
    let all = || Handlers {
        elicitation: Some(People::new(Manner::Decline)),
        sampling: Some(Arc::new(Echo)),
        roots: Some(Arc::new(Folders)),
        ..Handlers::default()
    };
    let url = json!({ "mode": "url", "message": "Sign in", "url": "https://a.example", "elicitationId": "7" });
    for (method, params, answer) in [
        ("elicitation/create", url, json!({ "action": "decline" })),
        (
            "sampling/createMessage",
            json!({ "n": 1 }),
            json!({ "n": 1 }),
        ),
        (
            "roots/list",
            json!({}),
            json!({ "roots": [{ "uri": "file:///w" }] }),
        ),
    ] {
        let connection = connect_with(&asking(method, params), all()).await;
        assert_eq!(heard(&connection).await, answer, "{method}");
    }
}

#[tokio::test]
async fn what_is_not_offered_or_not_understood_is_refused_with_words() {
    let none = Handlers::default();
    let peer = asking("elicitation/create", form());
    let connection = connect_with(&peer, none).await;
    assert_eq!(
        peer.heard.lock().unwrap()[1]["params"]["capabilities"],
        json!({})
    );
    assert_eq!(
        heard(&connection).await,
        json!({ "code": -32601, "message": "this client does not offer `elicitation/create`" })
    );
    for (manner, params, code, words) in [
        (Manner::Refuse, form(), -1, "nobody is there"),
        (
            Manner::Agree,
            json!({ "message": "?" }),
            -32602,
            "`requestedSchema` is missing",
        ),
        (
            Manner::Agree,
            json!({ "mode": "x", "message": "?" }),
            -32602,
            "neither",
        ),
        (
            Manner::Agree,
            json!({ "message": "?".repeat(2 << 20) }),
            -32602,
            "larger than",
        ),
    ] {
        let people = People::new(manner);
        let peer = asking("elicitation/create", params);
        let heard = heard(&connect_with(&peer, asks(&people)).await).await;
        assert_eq!(heard["code"], code);
        assert!(
            heard["message"].as_str().unwrap().contains(words),
            "{heard}"
        );
    }
}

#[tokio::test]
async fn a_question_ends_with_its_call() {
    let people = People::new(Manner::Think);
    let peer = asking("elicitation/create", form());
    let connection = connect_with(&peer, asks(&people)).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let call = connection.call_tool("echo", RawValue::NULL, options);
    let (outcome, ()) = tokio::join!(call, async {
        until(|| people.count() == 1).await;
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(CallError::Cancelled)));
    until(|| people.dropped.load(Ordering::SeqCst) == 1).await;
    let asker = people.asked.lock().unwrap()[0].0.clone();
    assert!(asker.cancel.is_cancelled());
    let told = || {
        let heard = peer.heard.lock().unwrap();
        let answer = heard.iter().find(|message| message["id"] == "q");
        answer.is_some_and(|answer| answer["error"]["code"] == -1)
    };
    until(told).await;
}

#[tokio::test]
async fn a_server_can_take_its_question_back() {
    let people = People::new(Manner::Think);
    let gone = people.dropped.clone();
    let peer = Peer::legacy(|message| match message["method"].as_str() {
        Some("tools/call") => Some(ask("q", "elicitation/create", &form())),
        Some("tools/list") => {
            let cancelled =
                json!({ "method": "notifications/cancelled", "params": { "requestId": "q" } });
            let Act::Say(listed) = good(message) else {
                unreachable!()
            };
            Some(Act::Say(format!("{cancelled}\n{listed}")))
        }
        _ => None,
    });
    let connection = connect_with(&peer, asks(&people)).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let call = connection.call_tool("echo", RawValue::NULL, options);
    let (_, ()) = tokio::join!(call, async {
        until(|| people.count() == 1).await;
        connection.list_tools().await.unwrap();
        until(|| gone.load(Ordering::SeqCst) == 1).await;
        cancel.cancel();
    });
    assert!(!peer.methods().contains(&"reply".to_owned()));
}

#[tokio::test]
async fn the_time_of_a_person_is_not_the_servers() {
    let people = People::new(Manner::Think);
    let peer = asking("elicitation/create", form());
    let mut spec = peer.spec();
    spec.deadlines.call_hard = Duration::from_millis(300);
    let connector = Connector::new("0.0.0", None).with_handlers(asks(&people));
    let never = CancellationToken::new();
    let connection = Box::pin(connector.connect(&spec, &never)).await.unwrap();
    let begun = std::time::Instant::now();
    let outcome = call_within(&connection, Duration::from_millis(50)).await;
    // Nobody answers, so the server is told, after which its own time runs again.
    assert!(
        matches!(&outcome, Ok(_) | Err(CallError::Deadline { .. })),
        "{outcome:?}"
    );
    assert!(begun.elapsed() >= Duration::from_millis(250));
}

#[tokio::test]
async fn questions_are_counted() {
    let people = People::new(Manner::Agree);
    let peer = Peer::legacy(|message| {
        (message["method"] == "tools/call").then(|| {
            let questions = (0..40).map(|at| {
                json!({ "id": format!("q{at}"), "method": "elicitation/create", "params": form() })
            });
            let lines: Vec<String> = questions.map(|question| format!("{question}\n")).collect();
            Act::Say(lines.concat())
        })
    });
    let connection = connect_with(&peer, asks(&people)).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let call = connection.call_tool("echo", RawValue::NULL, options);
    let replies = || {
        peer.methods()
            .iter()
            .filter(|method| *method == "reply")
            .count()
    };
    let (_, ()) = tokio::join!(call, async {
        until(|| replies() == 40).await;
        cancel.cancel();
    });
    assert!((1..=16).contains(&people.count()), "{}", people.count());
}

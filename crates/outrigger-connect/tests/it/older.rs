//! The deprecated HTTP+SSE transport, asked for and fallen back to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outrigger_connect::{CallError, CallOptions, ConnectErrorKind, HttpSpec, TransportSpec};
use serde_json::json;
use tokio::sync::mpsc;

use crate::peer::{call, connect, raw, spec, until};
use crate::web::{Asked, Reply, Web, error, plain, result};

/// A server that posts its answers on the stream; `endpoint` is what it says first.
pub(crate) async fn older(endpoint: &'static str) -> Web {
    let feed: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>> = Arc::default();
    Web::new(
        move |asked| match (asked.verb.as_str(), asked.path.as_str()) {
            ("GET", "/mcp") => {
                let (sender, receiver) = mpsc::unbounded_channel();
                sender
                    .send(format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n"))
                    .unwrap();
                *feed.lock().unwrap() = Some(sender);
                Reply::Feed(receiver)
            }
            ("POST", "/messages?s=1") => {
                let mut feed = feed.lock().unwrap();
                if asked.body["params"]["name"] == "end" {
                    *feed = None;
                } else if let (Some(answer), Some(feed)) = (answer(asked), feed.as_ref()) {
                    let _ = feed.send(format!("event: message\r\ndata: {answer}\r\n\r\n"));
                }
                plain(202, "text/plain", "Accepted")
            }
            _ => plain(405, "text/plain", "Method Not Allowed"),
        },
    )
    .await
}

fn answer(asked: &Asked) -> Option<serde_json::Value> {
    asked.body.get("id")?;
    Some(match asked.method() {
        "initialize" => result(
            asked,
            &json!({ "protocolVersion": "2024-11-05", "capabilities": {} }),
        ),
        "tools/call" => result(asked, &json!("done")),
        _ => error(asked, -32601, "no"),
    })
}

#[tokio::test]
async fn a_server_of_2024_is_found_behind_a_refusal() {
    let web = older("/messages?s=1").await;
    let connection = connect(&web.spec()).await.unwrap();
    assert_eq!(connection.peer().protocol_version, "2024-11-05");
    assert_eq!(call(&connection).await.unwrap().get(), "\"done\"");
    assert_eq!(web.last("tools/call").header("x-key"), Some("k-123"));
    let failed = connection
        .call_tool("end", &raw("{}"), CallOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(failed, CallError::Closed(_)), "{failed}");
    let mut ended = connection.ended();
    let why = ended.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(why.as_deref(), Some("the server ended its event stream"));
    connection.close().await;
}

#[tokio::test]
async fn it_can_be_asked_for() {
    let web = older("/messages?s=1").await;
    let wanted = spec(TransportSpec::Sse(HttpSpec::new(web.url.parse().unwrap())));
    let connection = connect(&wanted).await.unwrap();
    call(&connection).await.unwrap();
    assert_eq!(web.methods()[..2], ["GET", "initialize"]);
    drop(connection);
    until(|| web.count("tools/call") == 1).await;
}

#[tokio::test]
async fn nothing_is_posted_to_another_origin() {
    let elsewhere = Web::new(|_| plain(202, "text/plain", "")).await;
    let endpoint = elsewhere.url.replace("/mcp", "/messages?s=1");
    let web = older(endpoint.leak()).await;
    let failed = connect(&web.spec()).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::HttpError);
    assert!(
        failed
            .message
            .contains("names an endpoint at another origin"),
        "{failed}"
    );
    assert!(elsewhere.methods().is_empty());
}

#[tokio::test]
async fn a_server_that_offers_neither_is_judged_by_its_first_refusal() {
    let web = Web::new(|_| plain(405, "text/plain", "only PUT here")).await;
    let failed = connect(&web.spec()).await.unwrap_err();
    assert!(
        failed.message.ends_with(
            "answered `initialize` with HTTP 405 Method Not Allowed with text/plain: only PUT here"
        ),
        "{failed}"
    );

    // A stream that never says where to post does not use up the start deadline.
    let web = Web::new(|asked| match asked.verb.as_str() {
        "GET" => Reply::Open(": nothing\n\n".to_owned()),
        _ => plain(404, "text/plain", "not here"),
    })
    .await;
    let mut wanted = web.spec();
    wanted.deadlines.probe = Duration::from_millis(100);
    let failed = connect(&wanted).await.unwrap_err();
    assert!(failed.message.contains("HTTP 404 Not Found"), "{failed}");
}

//! WebSocket servers.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use outrigger_connect::{
    CallError, ConnectErrorKind, Connection, HttpSpec, ServerSpec, TransportSpec,
};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use crate::peer::{Act, call, connect, good, spec};

/// Serves one socket after the other; `calls` says what is done about a call.
pub(crate) async fn serve(
    calls: fn(&Value) -> Vec<Message>,
) -> (JoinSet<()>, ServerSpec, mpsc::UnboundedReceiver<Message>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // It knows no subprotocol, and the client must not mind.
            let Ok(mut socket) = accept_async(stream).await else {
                continue;
            };
            while let Some(Ok(message)) = socket.next().await {
                let _ = tell.send(message.clone());
                let Message::Text(text) = message else {
                    continue;
                };
                let message: Value = serde_json::from_str(&text).unwrap();
                let said = match (message["method"] == "tools/call", good(&message)) {
                    (true, _) => calls(&message),
                    (false, Act::Say(line)) => vec![Message::text(line)],
                    _ => vec![],
                };
                for one in said {
                    if socket.send(one).await.is_err() {
                        break;
                    }
                }
            }
        }
    });
    (
        serving,
        spec(TransportSpec::WebSocket(HttpSpec::new(url))),
        told,
    )
}

pub(crate) fn answer(message: &Value) -> Vec<Message> {
    match good(message) {
        Act::Say(line) => vec![Message::Ping("p".into()), Message::text(line)],
        _ => vec![],
    }
}

async fn connected(spec: &ServerSpec) -> Connection {
    connect(spec).await.unwrap()
}

#[tokio::test]
async fn a_socket_carries_calls_and_pongs_and_is_closed_in_order() {
    let (_serving, spec, mut told) = serve(answer).await;
    let connection = connected(&spec).await;
    call(&connection).await.unwrap();
    call(&connection).await.unwrap();
    let report = connection.close().await;
    assert!(report.took < Duration::from_secs(1), "{report:?}");
    let mut kinds = Vec::new();
    while let Some(message) = told.recv().await {
        let last = message.is_close();
        kinds.push(message);
        if last {
            break;
        }
    }
    assert!(kinds.contains(&Message::Pong("p".into())), "{kinds:?}");
}

#[tokio::test]
async fn the_end_of_the_socket_ends_its_calls() {
    let (_serving, spec, _told) = serve(|_| vec![Message::Close(None)]).await;
    let connection = connected(&spec).await;
    let failed = call(&connection).await.unwrap_err();
    assert!(
        matches!(&failed, CallError::Closed(why) if why == "the server closed the socket"),
        "{failed}"
    );
    assert!(matches!(
        call(&connection).await,
        Err(CallError::NotSent(_))
    ));
}

#[tokio::test]
async fn messages_are_bounded() {
    let (_serving, mut spec, _told) = serve(|_| vec![Message::text("x".repeat(300_000))]).await;
    spec.limits.frame_bytes = 100_000;
    let connection = connected(&spec).await;
    let failed = call(&connection).await.unwrap_err();
    assert!(
        matches!(&failed, CallError::Closed(why) if why.contains("too large") || why.contains("too long")),
        "{failed}"
    );
}

#[tokio::test]
async fn what_is_no_websocket_is_named() {
    let web = crate::web::Web::new(|_| crate::web::plain(401, "text/plain", "who are you?")).await;
    let url = web.url.replace("http:", "ws:").parse().unwrap();
    let wanted = spec(TransportSpec::WebSocket(HttpSpec::new(url)));
    let failed = connect(&wanted).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::AuthRequired);
    assert!(
        failed
            .message
            .contains("HTTP 401 Unauthorized instead of a WebSocket: who are you?"),
        "{failed}"
    );
    drop(web);
    let failed = connect(&wanted).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::Unreachable);
}

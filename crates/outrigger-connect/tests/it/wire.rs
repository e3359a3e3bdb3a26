//! What a watcher sees of each transport.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use outrigger_connect::{
    Connection, Connector, Crossing, Direction, HttpSpec, Offer, ServerSpec, Tap, TransportSpec,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::older::older;
use crate::peer::{Act, Peer, call, good, result, spec};
use crate::process::python;
use crate::web::{Reply, Web, event, plain};
use crate::websocket;

/// What was seen, a line each: link, direction, transport, then what HTTP says, then the message.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Tap for Seen {
    fn see(&self, crossing: &Crossing<'_>) {
        let direction = match crossing.direction {
            Direction::Out => "out",
            Direction::In => "in",
        };
        assert_eq!(crossing.server.as_str(), "scripted");
        let mut line = format!("{} {direction} {}", crossing.link, crossing.transport);
        if let Some(http) = &crossing.http {
            for word in [http.method, http.event].into_iter().flatten() {
                write!(line, " {word}").unwrap();
            }
            if let Some(status) = http.status {
                write!(line, " {status}").unwrap();
            }
            let headers = http.headers.iter();
            let headers = headers.filter(|(name, _)| !name.starts_with("content-"));
            for (name, value) in headers {
                write!(line, " {name}={value}").unwrap();
            }
        }
        if let Some(payload) = crossing.payload {
            write!(line, " {}", brief(&String::from_utf8_lossy(payload))).unwrap();
        }
        if let Some(note) = crossing.note {
            write!(line, " ({note})").unwrap();
        }
        self.0.lock().unwrap().push(line);
    }
}

/// The method of a request, `result` or `error` of an answer, else the text itself.
fn brief(text: &str) -> String {
    let Ok(message) = serde_json::from_str::<Value>(text) else {
        return text.to_owned();
    };
    if let Some(method) = message["method"].as_str() {
        return format!("<{method}>");
    }
    let kind = ["result", "error"];
    let kind = kind.into_iter().find(|kind| message.get(kind).is_some());
    kind.map_or_else(|| text.to_owned(), |kind| format!("<{kind}>"))
}

impl Seen {
    fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

async fn watched(spec: &ServerSpec) -> (Connection, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let connector = Connector::new("0.0.0", None).with_tap(seen.clone());
    let connected = Box::pin(connector.connect(spec, &CancellationToken::new())).await;
    (connected.unwrap(), seen)
}

#[tokio::test]
async fn in_this_process() {
    let peer = Peer::legacy(|message| {
        let Act::Say(line) = good(message) else {
            return None;
        };
        (message["method"] == "tools/call").then(|| Act::Say(format!("calling…\n{line}")))
    });
    let (connection, seen) = watched(&peer.spec()).await;
    call(&connection).await.unwrap();
    insta::assert_snapshot!(seen.text(), @r"
    1 out in-process <server/discover>
    1 in in-process <error>
    1 out in-process <initialize>
    1 in in-process <result>
    1 out in-process <notifications/initialized>
    1 out in-process <tools/call>
    1 in in-process calling…
    1 in in-process <result>
    ");
}

#[tokio::test]
async fn children_in_both_framings_and_started_again() {
    let script = "m = read()\nif m['method'] != 'initialize': sys.exit('unknown method')\nprint('hello')\nprint(answer(m), flush=True)\nserve()";
    let (connection, seen) = watched(&python(script)).await;
    call(&connection).await.unwrap();
    insta::assert_snapshot!(seen.text(), @r"
    1 out stdio <server/discover>
    1 in stdio (the server process ended (exit status 1))
    2 out stdio <initialize>
    2 in stdio hello
    2 in stdio <result>
    2 out stdio <notifications/initialized>
    2 out stdio <tools/call>
    2 in stdio <result>
    ");
    let script = r#"
def read():
    length = 0
    while (line := sys.stdin.buffer.readline()).strip():
        length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if length else sys.exit(0)
while True:
    m = read()
    if "id" in m:
        text = answer(m)
        sys.stdout.write(f"Content-Length: {len(text)}\r\n\r\n{text}")
        sys.stdout.flush()
"#;
    let mut framed = python(script);
    if let TransportSpec::Stdio(stdio) = &mut framed.transport {
        stdio.framing = outrigger_connect::Framing::ContentLength;
    }
    let (connection, seen) = watched(&framed).await;
    call(&connection).await.unwrap();
    insta::assert_snapshot!(seen.text(), @r"
    1 out stdio <server/discover>
    1 in stdio <error>
    1 out stdio <initialize>
    1 in stdio <result>
    1 out stdio <notifications/initialized>
    1 out stdio <tools/call>
    1 in stdio <result>
    ");
}

#[tokio::test]
async fn streamable_http_with_status_and_headers_and_without_keys() {
    let web = Web::legacy(|asked| {
        let answer = crate::web::result(asked, &json!({ "content": [] }));
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} });
        (asked.method() == "tools/call").then(|| {
            Reply::Events(format!(
                "{}event: ping\ndata: x\n\n{}",
                event(&log),
                event(&answer)
            ))
        })
    })
    .await;
    let (connection, seen) = watched(&web.spec()).await;
    call(&connection).await.unwrap();
    connection.close().await;
    let text = seen.text();
    assert!(
        !text.contains("k-123") && !text.to_lowercase().contains("x-key"),
        "{text}"
    );
    // The stream for messages that belong to no call is asked for beside the call.
    let beside = ["GET", "405"];
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !beside.iter().any(|word| line.contains(word)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    1 out http POST accept=application/json, text/event-stream mcp-protocol-version=2026-07-28 mcp-method=server/discover <server/discover>
    1 in http 200
    1 in http 200 <error>
    1 out http POST accept=application/json, text/event-stream <initialize>
    1 in http 200 mcp-session-id=s…
    1 in http 200 <result>
    1 out http POST accept=application/json, text/event-stream mcp-session-id=s… mcp-protocol-version=2025-06-18 <notifications/initialized>
    1 in http 202
    1 out http POST accept=application/json, text/event-stream mcp-session-id=s… mcp-protocol-version=2025-06-18 <tools/call>
    1 in http 200
    1 in http 200 <notifications/message>
    1 in http ping 200 x
    1 in http 200 <result>
    1 out http DELETE accept=text/event-stream mcp-session-id=s… mcp-protocol-version=2025-06-18
    1 in http 200
    ");
}

#[tokio::test]
async fn an_answer_that_is_no_message_is_seen_with_its_status() {
    let web = Web::new(|_| plain(502, "text/html", "<h1>Bad gateway</h1>")).await;
    let seen = Arc::new(Seen::default());
    let connector = Connector::new("0.0.0", None).with_tap(seen.clone());
    let failed = Box::pin(connector.connect(&web.spec(), &CancellationToken::new())).await;
    assert!(failed.is_err());
    let text = seen.text();
    assert!(
        text.contains("1 in http 502 <h1>Bad gateway</h1>"),
        "{text}"
    );
}

#[tokio::test]
async fn an_event_stream_with_the_place_to_post_to() {
    let web = older("/messages?s=1").await;
    let wanted = spec(TransportSpec::Sse(HttpSpec::new(web.url.parse().unwrap())));
    let (connection, seen) = watched(&wanted).await;
    call(&connection).await.unwrap();
    let text = seen.text();
    for line in [
        "1 in sse endpoint 200 /messages?s=1",
        "1 in sse 202 Accepted",
        "1 in sse 200 <result>",
    ] {
        assert!(
            text.lines().any(|seen| seen == line),
            "no `{line}` in\n{text}"
        );
    }
}

#[tokio::test]
async fn a_web_socket() {
    let (_serving, spec, _told) = websocket::serve(websocket::answer).await;
    let (connection, seen) = watched(&spec).await;
    call(&connection).await.unwrap();
    insta::assert_snapshot!(seen.text(), @r"
    1 out ws GET sec-websocket-protocol=mcp
    1 in ws (WebSocket protocol error: SubProtocol error: Server sent no subprotocol)
    1 out ws GET
    1 in ws 101
    1 out ws <server/discover>
    1 in ws <error>
    1 out ws <initialize>
    1 in ws <result>
    1 out ws <notifications/initialized>
    1 out ws <tools/call>
    1 in ws <result>
    ");
}

#[tokio::test]
async fn nobody_is_told_of_what_never_left() {
    let peer = Peer::legacy(|_| None);
    let (connection, seen) = watched(&peer.spec()).await;
    connection.close().await;
    let before = seen.text();
    assert!(call(&connection).await.is_err());
    assert_eq!(seen.text(), before);
}

#[tokio::test]
async fn what_a_server_offers_besides_tools_is_listed_page_by_page() {
    let peer = Peer::new(|message| match message["method"].as_str() {
        Some("initialize") => result(
            message,
            &json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {} } }),
        ),
        Some("resources/list") => {
            let page = &message["params"]["cursor"];
            if page.is_null() {
                result(
                    message,
                    &json!({ "resources": [{ "uri": "a:1" }], "nextCursor": "2" }),
                )
            } else {
                result(
                    message,
                    &json!({ "resources": [{ "uri": "a:2" }], "nextCursor": "2" }),
                )
            }
        }
        _ => good(message),
    });
    let connection = peer.connect().await;
    let listing = connection.list(Offer::Resources).await.unwrap().unwrap();
    let entries: Vec<_> = listing.entries.iter().map(|entry| entry.get()).collect();
    assert_eq!(entries, [r#"{"uri":"a:1"}"#, r#"{"uri":"a:2"}"#]);
    assert_eq!(
        listing.problems,
        ["stopped: the server gave the cursor `2` twice"]
    );
    // It is not asked for what it does not declare; an error is told where it does.
    assert!(connection.list(Offer::Prompts).await.unwrap().is_none());
    assert!(connection.list(Offer::ResourceTemplates).await.is_err());
    assert!(!peer.methods().contains(&"prompts/list".to_owned()));
}

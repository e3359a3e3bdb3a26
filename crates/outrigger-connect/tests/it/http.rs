//! Streamable HTTP, with servers that are right and with servers that are not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outrigger_connect::{CallError, CallOptions, ConnectErrorKind, Era};
use serde_json::json;

use crate::peer::{call, call_within, connect, raw, until};
use crate::web::{Asked, Reply, Web, error, event, good, json_reply, plain, result};

fn modern(asked: &Asked) -> Reply {
    match asked.method() {
        "server/discover" => json_reply(&result(
            asked,
            &json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} }),
        )),
        "initialize" => json_reply(&error(asked, -32022, "no")),
        _ => good(asked),
    }
}

#[tokio::test]
async fn a_session_is_kept_and_ended() {
    let web = Web::legacy(|_| None).await;
    let connection = connect(&web.spec()).await.unwrap();
    call(&connection).await.unwrap();
    connection.close().await;
    assert_eq!(connection.peer().protocol_version, "2025-06-18");
    assert_eq!(web.last("initialize").header("mcp-protocol-version"), None);
    for method in ["notifications/initialized", "tools/call", "DELETE"] {
        let asked = web.last(method);
        assert_eq!(
            (
                asked.header("mcp-session-id"),
                asked.header("mcp-protocol-version")
            ),
            (Some("s-1"), Some("2025-06-18"))
        );
        assert_eq!(
            (asked.header("x-key"), asked.header("mcp-method")),
            (Some("k-123"), None)
        );
    }
    assert_eq!(
        web.methods()[..3],
        ["server/discover", "initialize", "notifications/initialized"]
    );
}

#[tokio::test]
async fn modern_requests_repeat_themselves_in_headers() {
    let web = Web::new(|asked| match asked.method() {
        "tools/list" => {
            let region = json!({ "type": "string", "x-mcp-header": "Region" });
            let bad = json!({ "type": "number", "x-mcp-header": "N" });
            json_reply(&result(
                asked,
                &json!({ "tools": [
                { "name": "größe", "inputSchema": { "properties": { "region": region } } },
                { "name": "bad", "inputSchema": { "properties": { "n": bad } } },
            ] }),
            ))
        }
        _ => modern(asked),
    })
    .await;
    let connection = connect(&web.spec()).await.unwrap();
    assert_eq!(connection.peer().era, Era::Modern);
    let listing = connection.list_tools().await.unwrap();
    assert_eq!(listing.tools.len(), 1);
    assert_eq!(
        listing.problems,
        ["`bad` is left out: `n` has an `x-mcp-header` and is no string, integer or boolean"]
    );
    connection
        .call_tool("größe", &raw("{\"region\":\"eu\"}"), CallOptions::default())
        .await
        .unwrap();
    let asked = web.last("tools/call");
    assert_eq!(asked.header("mcp-method"), Some("tools/call"));
    assert_eq!(asked.header("mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(asked.header("mcp-param-region"), Some("eu"));
    assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
    connection.close().await;
    assert_eq!(web.count("DELETE"), 0);
}

#[tokio::test]
async fn a_probe_may_be_answered_with_anything() {
    for at in 0..5 {
        let web = Web::legacy(move |asked| {
            let answers = [
                plain(500, "text/html", "<h1>x"),
                plain(202, "text/plain", ""),
                plain(200, "text/html", "<h1>"),
                Reply::Cut,
                Reply::Hang,
            ];
            (asked.method() == "server/discover").then(|| answers.into_iter().nth(at).unwrap())
        })
        .await;
        let mut spec = web.spec();
        spec.deadlines.probe = Duration::from_millis(100);
        let connection = connect(&spec).await.unwrap();
        assert_eq!(connection.peer().era, Era::Legacy, "{at}");
    }
}

#[tokio::test]
async fn what_is_no_mcp_is_shown() {
    let web = Web::new(|_| {
        plain(
            200,
            "text/html; charset=utf-8",
            "<title>Sign\x1b[2J in</title>",
        )
    })
    .await;
    let failed = connect(&web.spec()).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::HttpError);
    let said = "answered `initialize` with HTTP 200 OK with text/html; charset=utf-8: <title>Sign\\u{1b}[2J in</title>";
    assert!(failed.message.ends_with(said), "{failed}");
}

#[tokio::test]
async fn credentials_that_are_wanted_are_named() {
    let web = Web::new(|_| {
        let challenge = (
            "WWW-Authenticate",
            "Bearer resource_metadata=\"http://a.example/x\"".to_owned(),
        );
        Reply::Full(401, vec![challenge], String::new())
    })
    .await;
    let failed = connect(&web.spec()).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::AuthRequired);
    assert!(
        failed
            .message
            .contains("resource_metadata: http://a.example/x"),
        "{failed}"
    );
    assert_eq!(web.methods().len(), 1);
}

#[tokio::test]
async fn an_error_in_the_exchange_is_the_answer_whatever_its_id() {
    let web = Web::new(|asked| match asked.method() {
        "initialize" => plain(400, "application/json", &json!({ "jsonrpc": "2.0", "id": "x", "error": { "code": 1, "message": "licence expired" } }).to_string()),
        _ => good(asked),
    })
    .await;
    let failed = connect(&web.spec()).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::RpcError);
    assert!(failed.message.contains("licence expired"), "{failed}");

    let web = Web::legacy(|asked| {
        (asked.method() == "tools/call")
            .then(|| json_reply(&json!({ "jsonrpc": "2.0", "id": "other", "result": {} })))
    })
    .await;
    let failed = call(&connect(&web.spec()).await.unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(&failed, CallError::Malformed(why) if why.contains("another request's id (\"other\")")),
        "{failed}"
    );
}

#[tokio::test]
async fn statuses_say_whether_a_call_may_have_run() {
    for (status, refused_is) in [
        (429, true),
        (404, true),
        (500, false),
        (504, false),
        (400, false),
    ] {
        let web = Web::legacy(move |asked| {
            // Without a session a 404 is only a 404.
            let strip = asked.method() == "initialize";
            let Reply::Full(code, headers, body) = good(asked) else {
                return None;
            };
            let headers = headers
                .into_iter()
                .filter(|(name, _)| !name.starts_with("Mcp"))
                .collect();
            if asked.method() == "tools/call" {
                return Some(plain(status, "text/plain", "no"));
            }
            strip.then_some(Reply::Full(code, headers, body))
        })
        .await;
        let failed = call(&connect(&web.spec()).await.unwrap())
            .await
            .unwrap_err();
        let CallError::Http {
            status: got,
            refused,
            ..
        } = failed
        else {
            panic!("{failed}")
        };
        assert_eq!((got, refused), (status, refused_is));
        assert_eq!(web.count("tools/call"), 1);
    }
}

#[tokio::test]
async fn a_session_that_is_lost_is_made_again_once() {
    for status in [404, 400] {
        let lost = AtomicBool::new(false);
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = ran.clone();
        let web = Web::legacy(move |asked| {
            if asked.method() != "tools/call" {
                return None;
            }
            if !lost.swap(true, Ordering::SeqCst) {
                return Some(plain(
                    status,
                    "text/plain",
                    "Bad Request: session not found",
                ));
            }
            runs.fetch_add(1, Ordering::SeqCst);
            None
        })
        .await;
        let connection = connect(&web.spec()).await.unwrap();
        call(&connection).await.unwrap();
        assert_eq!(
            (ran.load(Ordering::SeqCst), web.count("initialize")),
            (1, 2),
            "{status}"
        );
        assert_eq!(
            web.asked
                .lock()
                .unwrap()
                .iter()
                .filter(|asked| asked.method() == "initialize"
                    && asked.header("mcp-session-id").is_some())
                .count(),
            0
        );
    }
    let web = Web::legacy(|asked| {
        (asked.method() == "tools/call").then(|| plain(404, "text/plain", "gone"))
    })
    .await;
    let connection = connect(&web.spec()).await.unwrap();
    let failed = call(&connection).await.unwrap_err();
    assert!(
        matches!(
            failed,
            CallError::Http {
                status: 404,
                refused: true,
                ..
            }
        ),
        "{failed}"
    );
    assert_eq!(web.count("tools/call"), 2);
}

#[tokio::test]
async fn a_stream_is_taken_up_again_and_the_call_is_not_repeated() {
    let answer = Mutex::new(String::new());
    let polls = AtomicUsize::new(0);
    let web = Web::legacy(move |asked| match asked.method() {
        "tools/call" => {
            *answer.lock().unwrap() = event(&result(asked, &json!("resumed")));
            Some(Reply::Events("id: e-1\nretry: 60\ndata:\n\n".to_owned()))
        }
        "GET" if asked.header("last-event-id") == Some("e-1") => {
            Some(match polls.fetch_add(1, Ordering::SeqCst) {
                0 => plain(503, "text/plain", "busy"),
                1 => Reply::Events("id: e-1\ndata:\n\n".to_owned()),
                _ => Reply::Open(answer.lock().unwrap().clone()),
            })
        }
        _ => None,
    })
    .await;
    let connection = connect(&web.spec()).await.unwrap();
    assert_eq!(call(&connection).await.unwrap().get(), "\"resumed\"");
    assert_eq!(web.count("tools/call"), 1);
}

#[tokio::test]
async fn a_stream_that_ends_without_an_answer_ends_its_call() {
    let web = Web::legacy(|asked| {
        let noise = "event: ping\ndata: x\n\ndata: not json\n\n";
        (asked.method() == "tools/call").then(|| Reply::Events(noise.to_owned()))
    })
    .await;
    let failed = call(&connect(&web.spec()).await.unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(&failed, CallError::Closed(why) if why.contains("ended the stream")),
        "{failed}"
    );
}

#[tokio::test]
async fn an_answer_on_an_open_stream_is_there_at_once() {
    let web = Web::legacy(|asked| {
        (asked.method() == "tools/call").then(|| Reply::Open(event(&result(asked, &json!(1)))))
    })
    .await;
    let connection = connect(&web.spec()).await.unwrap();
    assert_eq!(
        call_within(&connection, Duration::from_secs(5))
            .await
            .unwrap()
            .get(),
        "1"
    );
    let begun = Instant::now();
    connection.close().await;
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn redirects_stay_within_the_origin() {
    let elsewhere = Web::new(good).await;
    let target = elsewhere.url.clone();
    let web =
        Web::new(move |_| Reply::Full(307, vec![("Location", target.clone())], String::new()))
            .await;
    let failed = connect(&web.spec()).await.unwrap_err();
    assert!(
        failed.message.contains("leads from") && failed.message.contains("to another origin"),
        "{failed}"
    );
    assert_eq!((web.methods().len(), elsewhere.methods().len()), (1, 0));

    let web = Web::legacy(|asked| {
        (asked.path == "/mcp")
            .then(|| Reply::Full(308, vec![("Location", "/mcp/".to_owned())], String::new()))
    })
    .await;
    let connection = connect(&web.spec()).await.unwrap();
    call(&connection).await.unwrap();
    let asked = web.last("tools/call");
    assert_eq!(
        (asked.path.as_str(), asked.header("x-key")),
        ("/mcp/", Some("k-123"))
    );
    assert_eq!(
        web.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|asked| asked.path == "/mcp")
            .count(),
        1
    );

    let web =
        Web::new(|_| Reply::Full(307, vec![("Location", "/mcp".to_owned())], String::new())).await;
    let failed = connect(&web.spec()).await.unwrap_err();
    assert!(
        failed.message.contains("redirects more than 5 times"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let web = Web::legacy(|_| None).await;
    let spec = web.spec();
    let connection = connect(&spec).await.unwrap();
    drop(web);
    let failed = call(&connection).await.unwrap_err();
    // The pooled connection may be found closed only when it is used.
    assert!(
        matches!(failed, CallError::NotSent(_) | CallError::Closed(_)),
        "{failed}"
    );
    let failed = call(&connection).await.unwrap_err();
    assert!(
        matches!(&failed, CallError::NotSent(why) if why.contains("refused")),
        "{failed}"
    );
    let failed = connect(&spec).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::Unreachable);
}

#[tokio::test]
async fn giving_up_hangs_up_in_the_modern_era_and_says_so_in_the_legacy_one() {
    let web = Web::new(|asked| {
        if asked.method() == "tools/call" {
            Reply::Hang
        } else {
            modern(asked)
        }
    })
    .await;
    let connection = connect(&web.spec()).await.unwrap();
    let failed = call_within(&connection, Duration::from_millis(100))
        .await
        .unwrap_err();
    assert!(matches!(failed, CallError::Deadline { .. }), "{failed}");
    until(|| web.gone.load(Ordering::SeqCst) == 1).await;
    assert_eq!(web.count("notifications/cancelled"), 0);

    let web = Web::legacy(|asked| (asked.method() == "tools/call").then_some(Reply::Hang)).await;
    let connection = connect(&web.spec()).await.unwrap();
    call_within(&connection, Duration::from_millis(100))
        .await
        .unwrap_err();
    until(|| web.count("notifications/cancelled") == 1).await;
    assert_eq!(web.gone.load(Ordering::SeqCst), 0);
    drop(connection);
    until(|| web.gone.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn the_get_stream_brings_changes_and_holds_nothing_up() {
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let web =
        Web::legacy(move |asked| (asked.method() == "GET").then(|| Reply::Open(event(&changed))))
            .await;
    let connection = connect(&web.spec()).await.unwrap();
    connection
        .tools_changed()
        .wait_for(|count| *count == 1)
        .await
        .unwrap();

    let web =
        Web::legacy(|asked| matches!(asked.method(), "GET" | "DELETE").then_some(Reply::Hang))
            .await;
    let begun = Instant::now();
    let connection = connect(&web.spec()).await.unwrap();
    call(&connection).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    connection.close().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// What a server asks on its stream before that is open gets lost, and its call never ends. So the
/// first call waits for it, here until it gives up; no other does.
#[tokio::test]
async fn the_first_call_waits_until_the_server_can_ask() {
    let web =
        Web::legacy(|asked| matches!(asked.method(), "GET" | "DELETE").then_some(Reply::Hang))
            .await;
    let connection = connect(&web.spec()).await.unwrap();
    let begun = Instant::now();
    call(&connection).await.unwrap();
    let first = begun.elapsed();
    assert!(first >= Duration::from_millis(400), "{first:?}");
    let begun = Instant::now();
    call(&connection).await.unwrap();
    assert!(
        begun.elapsed() < first,
        "{:?} after {first:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn bodies_are_bounded() {
    let web = Web::legacy(|asked| {
        let text = "x".repeat(300_000);
        (asked.method() == "tools/call").then(|| match asked.body["params"]["name"].as_str() {
            Some("json") => json_reply(&result(asked, &json!(text))),
            _ => Reply::Events(event(&result(asked, &json!(text)))),
        })
    })
    .await;
    let mut spec = web.spec();
    spec.limits.frame_bytes = 100_000;
    let connection = connect(&spec).await.unwrap();
    for tool in ["json", "events"] {
        let failed = connection
            .call_tool(tool, &raw("{}"), CallOptions::default())
            .await
            .unwrap_err();
        assert!(
            matches!(&failed, CallError::Malformed(why) if why.contains("limit of 100000 bytes")),
            "{tool}: {failed}"
        );
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let web = Web::legacy(|_| None).await;
    let connection = connect(&web.spec()).await.unwrap();
    let begun = Instant::now();
    for _ in 0..200 {
        call(&connection).await.unwrap();
    }
    // With a delayed acknowledgement on each this would be eight seconds.
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

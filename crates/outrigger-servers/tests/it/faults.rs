//! Input that no client should send, and what it does to the ones after it: nothing.

use std::{fmt::Write, path::PathBuf, time::Duration};

use outrigger_servers::{BuiltIn, ServeOptions, serve};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::client::{Client, call, modern, request};

#[tokio::test]
async fn lines_that_are_no_messages_do_not_end_the_server() {
    let mut client = Client::legacy(BuiltIn::Echo).await;
    for silent in [
        &b"not json\n"[..],
        b"\n\r\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\n",
        b"\xff\xfe\x00\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard-of\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n",
    ] {
        client.send_bytes(silent).await;
    }
    assert_eq!(
        client.call("echo", json!({"text": "a"})).await["isError"],
        json!(false)
    );
    for wrong in ["42", "[]", "{}", "null", "\"text\"", "{\"id\":5}"] {
        client.send_bytes(format!("{wrong}\n").as_bytes()).await;
        let answer = client.receive().await;
        assert_eq!(answer["error"]["code"], -32600, "{wrong}: {answer}");
    }
    assert_eq!(
        client.call("echo", json!({"text": "b"})).await["isError"],
        json!(false)
    );
}

#[tokio::test]
async fn a_byte_order_mark_and_windows_line_ends_are_fine() {
    let mut client = Client::legacy(BuiltIn::Echo).await;
    let message = call(5, "echo", json!({"text": "x"}));
    client
        .send_bytes(format!("\u{feff}{message}\r\n").as_bytes())
        .await;
    assert_eq!(
        client.receive().await["result"]["structuredContent"]["text"],
        "x"
    );
}

#[tokio::test]
async fn requests_that_do_not_fit_say_what_is_wrong() {
    let mut client = Client::legacy(BuiltIn::Echo).await;
    let mut errors = String::new();
    for message in [
        request(1, "tools/call", json!({"name": 5})),
        request(2, "tools/call", json!({"name": "echo", "arguments": "{}"})),
        request(3, "tools/call", json!({"name": "ekko"})),
        request(4, "tools/list", json!({"cursor": "next"})),
        request(6, "no/such/method", json!({})),
        request(7, "resources/list", json!({})),
        request(8, "initialize", json!({"protocolVersion": "2025-11-25"})),
    ] {
        let answer = client.ask(message).await;
        let error = &answer["error"];
        writeln!(errors, "{} {}", error["code"], error["message"]).unwrap();
    }
    insta::assert_snapshot!(errors, @r#"
    -32602 "the parameters of `tools/call` do not fit: `name` must be a string, `arguments` an object"
    -32602 "the parameters of `tools/call` do not fit: `name` must be a string, `arguments` an object"
    -32602 "unknown tool `ekko`: the server `echo` has `echo`"
    -32602 "unknown cursor `next`: all tools are on one page"
    -32601 "the server `echo` has no method `no/such/method`"
    -32601 "resources/list"
    -32602 "the parameters of `initialize` do not fit: `protocolVersion`, `capabilities` and `clientInfo` (`name`, `version`) are required"
    "#);
}

#[tokio::test]
async fn a_mistake_in_arguments_is_a_tool_error() {
    let mut client = Client::legacy(BuiltIn::Echo).await;
    let result = client.call("echo", json!({"txt": "a"})).await;
    insta::assert_snapshot!(result, @r#"{"content":[{"type":"text","text":"`text` is missing: it must be a string; unknown argument `txt`: did you mean `text`?"}],"isError":true}"#);
    let result = client
        .ask(modern(call(3, "echo", json!({"text": 5}))))
        .await;
    insta::assert_snapshot!(result["result"], @r#"{"resultType":"complete","content":[{"type":"text","text":"`text` must be a string, not the number 5"}],"isError":true}"#);
}

#[tokio::test]
async fn a_cancelled_call_gets_no_answer_and_the_next_one_does() {
    let mut client = Client::legacy(BuiltIn::Workspace).await;
    // Held back by nothing: it may be done before it is cancelled, then its answer comes.
    client
        .send(&call(11, "search", json!({"pattern": "x"})))
        .await;
    client
        .send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 11}}),
        )
        .await;
    client.send(&call(12, "list", json!({}))).await;
    let mut answer = client.receive().await;
    if answer["id"] == 11 {
        answer = client.receive().await;
    }
    assert_eq!(answer["id"], 12);
    let (ended, rest) = client.end().await;
    ended.unwrap();
    let late: Vec<&Value> = rest.iter().filter(|answer| answer["id"] != 11).collect();
    assert!(late.is_empty(), "{late:?}");
}

#[tokio::test]
async fn a_client_that_stops_reading_does_not_keep_the_server() {
    // Room for less than the answer takes.
    let (ours, theirs) = tokio::io::duplex(512);
    let (reader, writer) = tokio::io::split(theirs);
    let (mut output, mut input) = tokio::io::split(ours);
    let client = async move {
        let line = format!("{}\n", modern(request(1, "tools/list", json!({}))));
        input.write_all(line.as_bytes()).await.unwrap();
        // The answer has begun, and now it is stuck.
        output.read_u8().await.unwrap();
        input.shutdown().await.unwrap();
        output
    };
    let options = ServeOptions::new(PathBuf::from("."));
    let served = timeout(Duration::from_secs(60), async {
        tokio::join!(client, serve(BuiltIn::Time, options, reader, writer))
    });
    let (_unread, ended) = served.await.expect("the server never ended");
    ended.unwrap();
}

#[tokio::test]
async fn a_default_zone_that_does_not_exist_is_refused() {
    let mut options = ServeOptions::new(PathBuf::from("."));
    options.time_zone = Some("Mars/Olympus".to_owned());
    let error = serve(
        BuiltIn::Time,
        options,
        tokio::io::empty(),
        tokio::io::sink(),
    )
    .await
    .unwrap_err();
    insta::assert_snapshot!(error, @r#"the default time zone is wrong: unknown time zone "Mars/Olympus": use an IANA name such as Europe/Berlin, America/New_York or UTC"#);
}

//! Both protocol eras, alone and over the same pipe.

use outrigger_servers::BuiltIn;
use serde_json::json;

use crate::client::{Client, call, initialize, modern, request};

#[tokio::test]
async fn the_older_era_begins_with_initialize() {
    let mut client = Client::of(BuiltIn::Time);
    let answer = client.ask(initialize("2025-11-25")).await;
    insta::assert_snapshot!(answer, @r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"outrigger-time","version":"0.1.0","description":"the current time, days between dates, time zone conversion"}}}"#);
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await;
    let list = client.ask(request(1, "tools/list", json!({}))).await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 3);
    assert_eq!(list["result"].get("resultType"), None);
    assert_eq!(list["result"].get("ttlMs"), None);
    let answer = client
        .ask(call(2, "days_between", json!({"end": "2027-01-01"})))
        .await;
    insta::assert_snapshot!(answer, @r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"There are 32 days from Monday 2026-11-30 (today) to Friday 2027-01-01."}],"structuredContent":{"days":32,"start":"2026-11-30","start_weekday":"Monday","end":"2027-01-01","end_weekday":"Friday"},"isError":false}}"#);
    let pong = client
        .ask(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}))
        .await;
    assert_eq!(pong["result"], json!({}));
    let (ended, rest) = client.end().await;
    ended.unwrap();
    assert_eq!(rest, Vec::<serde_json::Value>::new());
}

#[tokio::test]
async fn every_older_revision_is_agreed_to_and_a_newer_one_is_not() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = Client::of(BuiltIn::Echo).ask(initialize(version)).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
    }
    for version in ["2026-07-28", "2099-01-01"] {
        let mut client = Client::of(BuiltIn::Echo);
        let answer = client.ask(initialize(version)).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        // What was agreed counts, not what was asked for: ping is gone in 2026-07-28.
        let pong = client.ask(request(1, "ping", json!({}))).await;
        assert_eq!(pong["result"], json!({}));
    }
}

#[tokio::test]
async fn the_newer_era_needs_no_handshake() {
    let mut client = Client::of(BuiltIn::Time);
    let answer = client
        .ask(modern(request(1, "server/discover", json!({}))))
        .await;
    insta::assert_snapshot!(answer, @r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"outrigger-time","version":"0.1.0","description":"the current time, days between dates, time zone conversion"}}}}"#);
    let list = client
        .ask(modern(request(2, "tools/list", json!({}))))
        .await;
    assert_eq!(list["result"]["resultType"], "complete");
    assert_eq!(list["result"]["ttlMs"], 3_600_000);
    let answer = client
        .ask(modern(call(
            3,
            "days_between",
            json!({"end": "2027-01-01"}),
        )))
        .await;
    insta::assert_snapshot!(answer, @r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","content":[{"type":"text","text":"There are 32 days from Monday 2026-11-30 (today) to Friday 2027-01-01."}],"structuredContent":{"days":32,"start":"2026-11-30","start_weekday":"Monday","end":"2027-01-01","end_weekday":"Friday"},"isError":false}}"#);
    client.end().await.0.unwrap();
}

#[tokio::test]
async fn a_first_request_may_be_a_modern_call() {
    let mut client = Client::of(BuiltIn::Echo);
    let answer = client
        .ask(modern(call(1, "echo", json!({"text": "hi"}))))
        .await;
    assert_eq!(answer["result"]["structuredContent"], json!({"text": "hi"}));
}

#[tokio::test]
async fn both_eras_share_a_pipe_in_any_order() {
    let mut client = Client::of(BuiltIn::Echo);
    client
        .ask(modern(request(1, "server/discover", json!({}))))
        .await;
    // A client that gives up on its probe says so before it tries the older way.
    client
        .send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1, "reason": "timeout"}}),
        )
        .await;
    client
        .ask(modern(call(2, "echo", json!({"text": "modern"}))))
        .await;
    client.ask(initialize("2025-06-18")).await;
    let older = client.ask(call(3, "echo", json!({"text": "older"}))).await;
    assert_eq!(older["result"]["structuredContent"]["text"], "older");
    assert_eq!(older["result"].get("resultType"), None);
    let newer = client
        .ask(modern(call(4, "echo", json!({"text": "newer"}))))
        .await;
    assert_eq!(newer["result"]["structuredContent"]["text"], "newer");
    assert_eq!(newer["result"]["resultType"], "complete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_sent_without_waiting_are_all_answered_before_the_end() {
    for _ in 0..20 {
        let mut client = Client::of(BuiltIn::Echo);
        let calls = (1..=20).map(|id| call(id, "echo", json!({"text": id.to_string()})));
        let lines: Vec<String> = std::iter::once(initialize("2025-11-25"))
            .chain(calls)
            .map(|message| message.to_string())
            .collect();
        // Without its newline, as `printf` leaves it.
        client.send_bytes(lines.join("\n").as_bytes()).await;
        let (ended, answers) = client.end().await;
        ended.unwrap();
        assert_eq!(answers.len(), 21);
        for answer in &answers {
            assert!(answer.get("result").is_some(), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_request_of_neither_era_is_refused() {
    let mut client = Client::of(BuiltIn::Echo);
    let answer = client.ask(call(1, "echo", json!({"text": "hi"}))).await;
    insta::assert_snapshot!(answer["error"], @r#"{"code":-32602,"message":"no protocol version is agreed: send `initialize` first (2025-11-25 and older), or name `io.modelcontextprotocol/protocolVersion` and `io.modelcontextprotocol/clientCapabilities` in `_meta` (2026-07-28)"}"#);
    let mut incomplete = modern(request(2, "tools/list", json!({})));
    incomplete["params"]["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("io.modelcontextprotocol/clientCapabilities");
    insta::assert_snapshot!(client.ask(incomplete).await["error"], @r#"{"code":-32602,"message":"request _meta is missing or has malformed required fields: io.modelcontextprotocol/clientCapabilities"}"#);
    let mut unknown = modern(request(3, "tools/list", json!({})));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    insta::assert_snapshot!(client.ask(unknown).await["error"], @r#"{"code":-32022,"message":"Unsupported protocol version","data":{"requested":"2099-01-01","supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"]}}"#);
    // None of that has decided anything.
    client.ask(initialize("2025-11-25")).await;
    assert_eq!(
        client.call("echo", json!({"text": "hi"})).await["isError"],
        json!(false)
    );
}

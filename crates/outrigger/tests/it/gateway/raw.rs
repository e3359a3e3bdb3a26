//! HTTP as bytes: what a page of another site may try, and what clients do wrong or differently.

use std::io::{BufRead as _, BufReader};

use serde_json::json;

use super::served::{Served, modern};
use super::text;
use crate::scripted::lab;

#[test]
fn only_this_machine_is_answered() {
    let (place, _) = lab();
    let served = Served::start(&place, &["--allow", "*"]);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": modern(json!({})) });
    let good = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "server/discover"),
    ];
    for (name, value, status) in [
        ("Host", "evil.example", 403),
        ("Host", "127.0.0.1.evil.example:1", 403),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Host", "localhost", 200),
        ("Host", "[::1]:99", 200),
        ("Origin", "http://localhost:6274", 200),
    ] {
        let heard = served.post(&ping, &[&good[..], &[(name, value)]].concat());
        assert_eq!(heard.status, status, "{name}: {value}: {heard:?}");
    }
    // What is not there costs little.
    for path in [
        "/.well-known/oauth-authorization-server",
        "/pages",
        "/mcp/x",
        "/favicon.ico",
    ] {
        let heard = served.request("GET", path, &[], b"");
        assert_eq!((heard.status, heard.body.len()), (404, 10), "{path}");
    }
    assert_eq!(served.request("GET", "/mcp", &[], b"").status, 405);
    assert_eq!(served.request("PUT", "/mcp", &[], b"").status, 405);
    assert_eq!(served.request("GET", "/health", &[], b"").body, "ok\n");
}

#[test]
fn a_head_and_a_body_that_cannot_be_used_are_refused() {
    let (place, _) = lab();
    let served = Served::start(&place, &["--allow", "*"]);
    let json = ("Content-Type", "application/json");
    let send = |headers: &[_], body: &[u8]| served.request("POST", "/mcp", headers, body).status;
    assert_eq!(send(&[("Content-Type", "text/plain")], b"{}"), 415);
    assert_eq!(send(&[json, ("Accept", "text/html")], b"{}"), 406);
    assert_eq!(send(&[json], b"{not json"), 400);
    assert_eq!(send(&[json], b"\xff\xfe{}"), 400);
    assert_eq!(send(&[json], b"[]"), 400);
    assert_eq!(send(&[json], b""), 400);
    assert_eq!(
        send(&[json], br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
        400
    );
    assert_eq!(
        send(&[json], br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        400,
        "no session"
    );
    assert_eq!(
        send(
            &[json, ("Mcp-Session-Id", "none")],
            br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#
        ),
        404
    );
    let deep = [&b"{\"a\":"[..], &b"[".repeat(5000), b"}"].concat();
    assert_eq!(send(&[json], &deep), 400);
    // Too large is said before it is sent.
    let head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50000000\r\n\r\n";
    let mut status = String::new();
    BufReader::new(served.open(head))
        .read_line(&mut status)
        .unwrap();
    assert!(status.contains("413"), "{status}");
}

#[test]
fn a_modern_request_stands_alone() {
    let (place, _) = lab();
    let served = Served::start(&place, &["--allow", "*"]);
    let call = json!({ "name": "lab__repeat", "arguments": { "text": "a" } });
    let heard = served.modern_heard("tools/call", call.clone());
    assert_eq!(text(&heard.json()), "a");
    assert_eq!(heard.header("mcp-session-id"), None);
    assert_eq!(heard.header("content-type").unwrap(), "application/json");

    let ask = |params, headers: &[(&str, &str)]| {
        let message =
            json!({ "jsonrpc": "2.0", "id": "s-1", "method": "tools/call", "params": params });
        let heard = served.post(&message, headers);
        assert_eq!(heard.json()["id"], "s-1");
        (
            heard.status,
            heard.json()["error"]["code"].as_i64().unwrap_or(0),
        )
    };
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let method = ("Mcp-Method", "tools/call");
    let name = ("Mcp-Name", "lab__repeat");
    assert_eq!(
        ask(modern(call.clone()), &[version, method, name]),
        (200, 0)
    );
    assert_eq!(ask(modern(call.clone()), &[version, method]), (400, -32020));
    assert_eq!(
        ask(
            modern(call.clone()),
            &[version, ("Mcp-Method", "tools/list"), name]
        ),
        (400, -32020)
    );
    assert_eq!(ask(modern(call.clone()), &[method, name]), (400, -32020));
    assert_eq!(
        ask(modern(call.clone()), &[version, method, name, name]),
        (400, -32020)
    );
    assert_eq!(ask(call.clone(), &[version, method, name]), (400, -32602));
    let mut other = modern(call);
    other["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v9".into();
    assert_eq!(
        ask(other, &[("MCP-Protocol-Version", "v9"), method, name]),
        (400, -32022)
    );
    assert_eq!(served.modern_heard("no/such", json!({})).status, 404);
}

#[test]
fn a_session_lives_from_initialize_to_delete() {
    let (place, _) = lab();
    let served = Served::start(&place, &["--allow", "*"]);
    let id = served.session(json!({}));
    // Neither a version nor the newest handshake is needed for the rest.
    let session = [("Mcp-Session-Id", id.as_str())];
    let told = served.post(
        &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        &session,
    );
    assert_eq!((told.status, told.body.as_str()), (202, ""));
    let big = served.post(
        &json!({ "jsonrpc": "2.0", "id": 9_007_199_254_740_993_u64, "method": "ping" }),
        &session,
    );
    assert_eq!(
        big.body,
        r#"{"jsonrpc":"2.0","id":9007199254740993,"result":{}}"#
    );
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "lab__repeat", "arguments": { "text": "b" } } });
    assert_eq!(text(&served.post(&call, &session).json()), "b");
    assert_eq!(served.request("DELETE", "/mcp", &session, b"").status, 204);
    assert_eq!(served.post(&call, &session).status, 404);
    assert_eq!(served.request("DELETE", "/mcp", &session, b"").status, 404);
}

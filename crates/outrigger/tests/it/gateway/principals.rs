//! Several principals at one gateway: whoever has to show who they are is nobody before, and what is
//! one's own is nobody else's.

use std::io::BufReader;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::served::{Heard, Served, modern};
use super::text;
use crate::place::Place;
use crate::scripted::{lab, scripted};

/// A token for somebody, who is known by it from here on; `more` is the rest of their entry.
pub(crate) fn principal(place: &Place, name: &str, more: &str) -> String {
    let made = place.json(&["gateway", "token", name, "--json"]);
    let hash = made["hash"].as_str().unwrap();
    place.user(&format!(
        "[gateway.principals.{name}]\ntoken = \"{hash}\"\n{more}"
    ));
    made["token"].as_str().unwrap().to_owned()
}

/// Somebody at a gateway.
pub(crate) struct Somebody<'a> {
    pub(crate) served: &'a Served,
    pub(crate) authorization: String,
}

impl<'a> Somebody<'a> {
    pub(crate) fn with(served: &'a Served, token: &str) -> Self {
        Self {
            served,
            authorization: format!("Bearer {token}"),
        }
    }

    pub(crate) fn shown(&self) -> (&str, &str) {
        ("Authorization", &self.authorization)
    }

    /// A request of the modern era.
    #[track_caller]
    pub(crate) fn heard(&self, method: &str, params: Value) -> Heard {
        let subjects = ["name", "uri", "taskId"].map(|key| params[key].as_str());
        let name = subjects.into_iter().flatten().next();
        let name = name.unwrap_or_default().to_owned();
        let mut headers = vec![
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
            self.shown(),
        ];
        if !name.is_empty() {
            headers.push(("Mcp-Name", &name));
        }
        let params = if params["_meta"].is_null() {
            modern(params)
        } else {
            params
        };
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.served.post(&message, &headers)
    }

    /// A request of the modern era whose answer is not waited for.
    pub(crate) fn begin(&self, method: &str, params: Value) -> BufReader<TcpStream> {
        let subject = params["name"].as_str().or(params["uri"].as_str());
        let name = match subject {
            Some(name) => format!("Mcp-Name: {name}\r\n"),
            None => String::new(),
        };
        let params = if params["_meta"].is_null() {
            modern(params)
        } else {
            params
        };
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = message.to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nAuthorization: {}\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
            self.authorization,
            body.len()
        );
        BufReader::new(self.served.open(head.as_bytes()))
    }

    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut params = json!({ "name": tool });
        params["arguments"] = arguments;
        self.heard("tools/call", params).json()
    }

    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        let listed = self.heard("tools/list", json!({})).json();
        let tools = listed["result"]["tools"].as_array();
        let tools = tools.unwrap_or_else(|| panic!("no tools: {listed}"));
        let names = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.collect()
    }

    /// A session of the legacy era; its id.
    #[track_caller]
    pub(crate) fn session(&self) -> String {
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "legacy", "version": "3.1" },
        } });
        let begun = self.served.post(&message, &[self.shown()]);
        begun.header("mcp-session-id").expect("a session")
    }

    /// A message within a session.
    #[track_caller]
    pub(crate) fn within(&self, session: &str, message: &Value) -> Heard {
        let session = ("Mcp-Session-Id", session);
        self.served.post(message, &[session, self.shown()])
    }
}

#[test]
fn whoever_shows_nothing_is_nobody() {
    let (place, log) = lab();
    let token = principal(&place, "alice", "");
    let served = Served::start(&place, &["--allow", "*"]);
    let heard = served.modern_heard("tools/list", json!({}));
    assert_eq!(heard.status, 401);
    let challenge = heard.header("www-authenticate").unwrap();
    assert_eq!(challenge, "Bearer realm=\"outrigger\"");
    for method in ["GET", "DELETE", "PUT"] {
        let heard = served.request(method, "/mcp", &[("Mcp-Session-Id", "x")], b"");
        assert_eq!(heard.status, 401, "{method}");
    }
    let nobody = Somebody::with(&served, "ogt_nobody");
    let heard = nobody.heard("tools/list", json!({}));
    assert_eq!(heard.status, 401);
    let challenge = heard.header("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    assert!(!heard.body.contains("ogt_nobody") && !heard.head.contains("ogt_nobody"));
    let basic = served.post(
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
        &[("Authorization", "Basic YTpi")],
    );
    assert_eq!(basic.status, 400);
    let path = format!("/mcp?access_token={token}");
    assert_eq!(served.request("GET", &path, &[], b"").status, 401);
    // What the person may see without a token stays as it was.
    assert_eq!(served.request("GET", "/health", &[], b"").status, 200);
    assert!(log.heard().is_empty(), "no server is started for nobody");

    let alice = Somebody::with(&served, &token);
    let answer = alice.call("lab__repeat", json!({ "text": "a" }));
    assert_eq!(text(&answer), "a");
    // Whoever keeps failing is told to wait, and holds up nobody else.
    let statuses: Vec<_> = (0..40)
        .map(|_| nobody.heard("tools/list", json!({})).status)
        .collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(alice.names().contains(&"lab__repeat".to_owned()));
    drop(served);
    place.assert_nothing_runs();

    let run = place.last_run();
    assert!(run.contains("client    alice"), "{run}");
    assert!(run.contains("(by test 1)"), "{run}");
    assert!(place.run(&["runs"]).out.contains("for alice"));
    let journal = std::fs::read(place.journal()).unwrap();
    let holds = |text: &str| journal.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(holds("alice") && !holds(&token) && !holds(&token[4..]));
}

#[test]
fn nothing_listens_beyond_loopback_while_nobody_is_asked() {
    let place = Place::new();
    let ran = place.run(&["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("outrigger gateway token NAME"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("[gateway.oauth]"), "{}", ran.err);
}

#[test]
fn a_token_is_shown_once_and_kept_as_its_hash() {
    let place = Place::new();
    let ran = place.run(&["gateway", "token", "alice"]);
    assert_eq!(ran.code, 0);
    let token = ran.out.trim();
    assert!(token.starts_with("ogt_") && token.len() == 47, "{token}");
    assert!(
        ran.err
            .contains("[gateway.principals.alice]\ntoken = \"sha256:")
    );
    assert!(!ran.err.contains(token));
    assert_eq!(place.run(&["gateway", "token", "../x"]).code, 2);
    // A token where its hash should stand is not repeated.
    place.user(&format!("[gateway.principals.bob]\ntoken = \"{token}\""));
    let ran = place.run(&["config", "show"]);
    assert!(ran.out.contains("not complete"), "{}", ran.out);
    assert!(!(ran.out + &ran.err).contains(token));
    assert_eq!(place.run(&["serve", "--http", "127.0.0.1:0"]).code, 2);
}

#[test]
fn on_loopback_nobody_need_be_asked_where_configuration_says_so() {
    let (place, _) = lab();
    let token = principal(&place, "alice", "");
    place.user("[gateway]\nopen_loopback = true");
    let served = Served::start(&place, &["--allow", "*"]);
    assert!(served.names().contains(&"lab__repeat".to_owned()));
    assert!(!Somebody::with(&served, &token).names().is_empty());
    assert_eq!(
        Somebody::with(&served, "ogt_x")
            .heard("tools/list", json!({}))
            .status,
        401
    );
}

#[test]
fn each_sees_what_its_policy_allows() {
    let place = Place::new();
    let (lab, _) = scripted(&place, "lab");
    place.servers(&json!({ "lab": lab }));
    let tokens = ["alice", "bob"].map(|name| principal(&place, name, ""));
    let narrow = principal(&place, "carol", "profile = \"clock\"");
    place.user("[profiles.clock]\nservers = [\"time\"]");
    place.user(
        "[[policy.rule]]\ntool = \"mcp__lab__repeat\"\nwhen = \"client == 'alice'\"\ndecision = \"allow\"\n\
         [[policy.rule]]\ntool = \"mcp__lab__keep\"\nwhen = \"client == 'bob'\"\ndecision = \"allow\"\n\
         [[policy.rule]]\ntool = \"mcp__lab__*\"\nwhen = \"client == 'bob' && tool == 'mcp__lab__repeat'\"\ndecision = \"deny\"",
    );
    let served = Served::start(&place, &[]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    assert_eq!(
        text(&alice.call("lab__repeat", json!({ "text": "a" }))),
        "a"
    );
    assert!(alice.names().contains(&"lab__repeat".to_owned()));
    assert!(!bob.names().contains(&"lab__repeat".to_owned()));
    let narrow = Somebody::with(&served, &narrow).names();
    assert!(
        !narrow.is_empty() && narrow.iter().all(|name| name.starts_with("time__")),
        "{narrow:?}"
    );
    let answer = bob.call("lab__repeat", json!({ "text": "b" }));
    assert!(!answer.to_string().contains("\"b\""), "{answer}");
    assert_ne!(bob.call("lab__keep", json!({}))["result"]["isError"], true);
    assert_eq!(
        alice.call("lab__keep", json!({}))["result"]["isError"],
        true
    );
}

#[test]
fn each_may_do_so_much_and_is_told_what_was_too_much() {
    let (place, _) = lab();
    let limits = "limits = { calls_per_minute = 3 }";
    let tokens = [
        principal(&place, "alice", limits),
        principal(&place, "bob", ""),
        principal(&place, "carol", ""),
    ];
    place.user("[gateway.servers.lab]\ncalls_per_minute = 7");
    let served = Served::start(&place, &["--allow", "*"]);
    let [alice, bob, carol] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    let call = |somebody: &Somebody<'_>| somebody.call("lab__repeat", json!({ "text": "a" }));
    for _ in 0..3 {
        assert_eq!(text(&call(&alice)), "a");
    }
    let heard = alice.heard(
        "tools/call",
        json!({ "name": "lab__repeat", "arguments": { "text": "a" } }),
    );
    assert_eq!(heard.status, 503);
    let error = &heard.json()["error"];
    assert_eq!(error["code"], -32000);
    let words = error["message"].as_str().unwrap();
    assert!(
        words.starts_with("busy: `alice` may make 3 calls in a minute; try again in"),
        "{words}"
    );
    assert_eq!(error["data"]["limit"], "calls_per_minute");
    assert!(error["data"]["retryAfterMs"].as_u64().unwrap() <= 20_000);
    // Others have their own, and all together that of the server.
    for somebody in [&bob, &bob, &carol, &carol] {
        assert_eq!(text(&call(somebody)), "a");
    }
    let error = call(&carol)["error"].clone();
    assert_eq!(error["data"]["of"], "all clients of the server `lab`");
}

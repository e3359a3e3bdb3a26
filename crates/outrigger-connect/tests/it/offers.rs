//! Prompts and resources: fetched like calls, completed, followed in both eras.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_connect::{CallError, CallOptions, Connection, ListError, Offer, Reference};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peer::{Act, Peer, error, good, raw, result, until};

fn capabilities() -> Value {
    json!({
        "tools": {}, "completions": {},
        "prompts": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
    })
}

/// What a server with one prompt and one resource answers, in any era.
fn shared(message: &Value) -> Option<Act> {
    let params = &message["params"];
    Some(match message["method"].as_str()? {
        "prompts/get" if params["name"] == "greet" => result(
            message,
            &json!({ "messages": [], "saw": params["arguments"] }),
        ),
        "prompts/get" => error(message, -32602, "Unknown prompt"),
        "resources/read" => result(
            message,
            &json!({ "contents": [{ "uri": params["uri"], "text": "hello" }] }),
        ),
        "resources/subscribe" | "resources/unsubscribe" => result(message, &json!({})),
        "completion/complete" => {
            let values: Vec<_> = (0..150).map(|n| format!("v{n}")).collect();
            result(
                message,
                &json!({ "completion": { "values": values, "total": 150 } }),
            )
        }
        _ => return None,
    })
}

fn legacy() -> Peer {
    Peer::legacy(|message| match message["method"].as_str() {
        Some("initialize") => Some(result(
            message,
            &json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": capabilities(),
                "serverInfo": { "name": "shelf", "version": "1" },
            }),
        )),
        _ => shared(message),
    })
}

/// A modern server that confirms what `confirm` makes of the resources that are listened for.
fn modern(confirm: impl Fn(Vec<Value>) -> Vec<Value> + Send + Sync + 'static) -> Peer {
    Peer::new(move |message| match message["method"].as_str() {
        Some("server/discover") => result(
            message,
            &json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities() }),
        ),
        Some("subscriptions/listen") => {
            let wanted = &message["params"]["notifications"]["resourceSubscriptions"];
            let confirmed = confirm(wanted.as_array().cloned().unwrap_or_default());
            let params = json!({ "notifications": { "resourceSubscriptions": confirmed } });
            let mut said = format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params })
            );
            for uri in &confirmed {
                let params = json!({ "uri": uri });
                said.push_str(&json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params }).to_string());
                said.push('\n');
            }
            Act::Say(said)
        }
        _ => shared(message).unwrap_or_else(|| good(message)),
    })
}

fn params_of(peer: &Peer, method: &str) -> Vec<Value> {
    let heard = peer.heard.lock().unwrap();
    let all = heard.iter().filter(|message| message["method"] == method);
    all.map(|message| {
        let mut params = message["params"].clone();
        params.as_object_mut().unwrap().remove("_meta");
        params
    })
    .collect()
}

#[tokio::test]
async fn prompts_and_resources_are_asked_for_by_name_and_address() {
    for peer in [legacy(), modern(|wanted| wanted)] {
        let connection = peer.connect().await;
        assert!(connection.declares(Offer::Prompts) && connection.tells_of_updates());
        let got = connection
            .get_prompt("greet", &raw(r#"{"who":"Ada"}"#), CallOptions::default())
            .await
            .unwrap();
        assert_eq!(got.get(), r#"{"messages":[],"saw":{"who":"Ada"}}"#);
        let unknown = connection
            .get_prompt("greets", &raw("{}"), CallOptions::default())
            .await;
        assert!(matches!(unknown, Err(CallError::Rpc { code: -32602, .. })));
        let read = connection
            .read_resource("note:///a b", CallOptions::default())
            .await
            .unwrap();
        assert_eq!(
            read.get(),
            r#"{"contents":[{"uri":"note:///a b","text":"hello"}]}"#
        );
        assert_eq!(
            params_of(&peer, "prompts/get"),
            [
                json!({ "name": "greet", "arguments": { "who": "Ada" } }),
                json!({ "name": "greets" })
            ]
        );
        assert_eq!(
            params_of(&peer, "resources/read"),
            [json!({ "uri": "note:///a b" })]
        );
    }
}

#[tokio::test]
async fn completions_are_bounded_and_only_asked_for_where_they_are_offered() {
    let peer = legacy();
    let connection = peer.connect().await;
    let given = BTreeMap::from([("owner".to_owned(), "ada".to_owned())]);
    let done = connection
        .complete(Reference::Template("note:///{name}"), ("name", "v"), &given)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((done.values.len(), done.more), (100, true));
    assert_eq!(
        params_of(&peer, "completion/complete"),
        [json!({
            "ref": { "type": "ref/resource", "uri": "note:///{name}" },
            "argument": { "name": "name", "value": "v" },
            "context": { "arguments": { "owner": "ada" } },
        })]
    );

    let plain = Peer::legacy(|_| None);
    let connection = plain.connect().await;
    let none = connection
        .complete(Reference::Prompt("greet"), ("who", ""), &BTreeMap::new())
        .await;
    assert_eq!(none.unwrap(), None);
    assert!(!connection.declares(Offer::Resources) && !connection.tells_of_updates());
    assert_eq!(params_of(&plain, "completion/complete").len(), 0);
}

#[tokio::test]
async fn reading_is_given_up_as_a_call_is() {
    let peer =
        Peer::legacy(|message| (message["method"] == "resources/read").then_some(Act::Nothing));
    let connection = peer.connect().await;
    let within = CallOptions {
        deadline: Some(Duration::from_millis(50)),
        ..CallOptions::default()
    };
    let late = connection.read_resource("a:b", within).await;
    assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    let cancel = CancellationToken::new();
    let options = CallOptions {
        cancel: cancel.clone(),
        ..CallOptions::default()
    };
    let (cancelled, ()) = tokio::join!(connection.read_resource("a:c", options), async {
        until(|| params_of(&peer, "resources/read").len() == 2).await;
        cancel.cancel();
    });
    assert!(matches!(cancelled, Err(CallError::Cancelled)));
    until(|| params_of(&peer, "notifications/cancelled").len() == 2).await;
}

/// How often this resource was updated.
fn updates(connection: &Connection, uri: &str) -> u64 {
    let updates = connection.updates();
    let updates = updates.borrow();
    updates.resources.get(uri).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_resource_is_followed_in_the_legacy_era() {
    let peer = {
        Peer::legacy(|message| match message["method"].as_str() {
            Some("initialize") => Some(result(
                message,
                &json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": capabilities(),
                    "serverInfo": { "name": "shelf", "version": "1" },
                }),
            )),
            Some("resources/subscribe") => {
                let Act::Say(answer) = result(message, &json!({})) else {
                    unreachable!()
                };
                let params = json!({ "uri": message["params"]["uri"] });
                let told = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params });
                let lists = ["resources", "prompts"].map(|list| {
                    let method = format!("notifications/{list}/list_changed");
                    json!({ "jsonrpc": "2.0", "method": method })
                });
                Some(Act::Say(format!(
                    "{answer}{told}\n{}\n{}\n",
                    lists[0], lists[1]
                )))
            }
            _ => shared(message),
        })
    };
    let connection = peer.connect().await;
    let followed = connection.follow("note:///a").await.unwrap();
    until(|| updates(&connection, "note:///a") == 1).await;
    until(|| *connection.prompts_changed().borrow() == 1).await;
    assert_eq!(*connection.resources_changed().borrow(), 1);
    assert_eq!(*connection.tools_changed().borrow(), 0);
    // One more who follows it is nothing new to the server, and neither is one less.
    let again = connection.follow("note:///a").await.unwrap();
    drop(followed);
    let other = connection.follow("note:///b").await.unwrap();
    other.end().await;
    again.end().await;
    let uris = |method| {
        let params = params_of(&peer, method).into_iter();
        params.map(|it| it["uri"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(uris("resources/subscribe"), ["note:///a", "note:///b"]);
    assert_eq!(uris("resources/unsubscribe"), ["note:///b", "note:///a"]);
    // And once more from the beginning.
    drop(connection.follow("note:///a").await.unwrap());
    until(|| uris("resources/unsubscribe").len() == 3).await;
    assert_eq!(uris("resources/subscribe").len(), 3);
}

#[tokio::test]
async fn so_many_are_followed_at_one_time() {
    let peer = Peer::new(|message| match message["method"].as_str() {
        Some("initialize") => result(
            message,
            &json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": capabilities(),
                "serverInfo": { "name": "shelf", "version": "1" },
            }),
        ),
        _ => result(message, &json!({})),
    });
    let mut spec = peer.spec();
    spec.protocol = outrigger_connect::Protocol::Legacy;
    let connection = crate::peer::connect(&spec).await.unwrap();
    let mut all = Vec::new();
    for number in 0..256 {
        let uri = format!("note:///{number}");
        all.push(connection.follow(&uri).await.unwrap());
    }
    assert!(connection.follow("note:///7").await.is_ok());
    let refused = connection.follow("note:///more").await.unwrap_err();
    assert!(refused.to_string().contains("256 resources"), "{refused}");
    all.pop().unwrap().end().await;
    assert!(connection.follow("note:///more").await.is_ok());
}

#[tokio::test]
async fn a_resource_is_followed_in_the_modern_era() {
    let peer = modern(|wanted| wanted);
    let connection = peer.connect().await;
    connection.list(Offer::Prompts).await.ok();
    let a = connection.follow("note:///a").await.unwrap();
    until(|| updates(&connection, "note:///a") == 1).await;
    let _b = connection.follow("note:///b").await.unwrap();
    until(|| updates(&connection, "note:///b") == 1).await;
    drop(a);
    until(|| params_of(&peer, "subscriptions/listen").len() == 4).await;
    let all = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    let with = |uris: Value| {
        let mut all = all.clone();
        all["resourceSubscriptions"] = uris;
        json!({ "notifications": all })
    };
    assert_eq!(
        params_of(&peer, "subscriptions/listen"),
        [
            json!({ "notifications": all }),
            with(json!(["note:///a"])),
            with(json!(["note:///a", "note:///b"])),
            with(json!(["note:///b"])),
        ]
    );
    // Each one before was given up, and none before the next was there.
    until(|| params_of(&peer, "notifications/cancelled").len() == 3).await;
    let methods: Vec<_> = peer
        .methods()
        .into_iter()
        .filter(|method| method.contains("listen") || method.contains("cancelled"))
        .collect();
    assert_eq!(
        methods[..3],
        [
            "subscriptions/listen",
            "subscriptions/listen",
            "notifications/cancelled"
        ]
    );
}

#[tokio::test]
async fn what_a_server_does_not_confirm_is_not_followed() {
    let peer = modern(|_| vec![json!("note:///other")]);
    let mut spec = peer.spec();
    spec.deadlines.list = Duration::from_millis(200);
    let connection = crate::peer::connect(&spec).await.unwrap();
    let refused = connection.follow("note:///a").await.unwrap_err();
    assert!(
        refused.to_string().contains("confirms other resources"),
        "{refused}"
    );

    let deaf = Peer::new(|message| match message["method"].as_str() {
        Some("server/discover") => result(
            message,
            &json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities() }),
        ),
        _ => good(message),
    });
    let connection = deaf.connect().await;
    let refused = connection.follow("note:///a").await.unwrap_err();
    assert!(matches!(refused, ListError::Malformed { .. }), "{refused}");
}

#[tokio::test]
async fn a_list_that_never_ends_is_stopped_and_says_so() {
    for (repeats, problem) in [(false, "stopped after 3 pages"), (true, "twice")] {
        let peer = modern_list(repeats);
        let mut spec = peer.spec();
        spec.limits.pages = 3;
        let connection = crate::peer::connect(&spec).await.unwrap();
        let listing = connection.list(Offer::Prompts).await.unwrap().unwrap();
        assert!(
            listing.problems[0].contains(problem),
            "{:?}",
            listing.problems
        );
        assert!(listing.entries.len() <= 6);
    }
}

/// A modern server whose list of prompts goes on and on.
fn modern_list(repeats: bool) -> Peer {
    Peer::new(move |message| match message["method"].as_str() {
        Some("server/discover") => result(
            message,
            &json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities() }),
        ),
        Some("prompts/list") => {
            let cursor = message["params"]["cursor"].as_str().unwrap_or_default();
            let next = if repeats {
                "again".to_owned()
            } else {
                format!("{cursor}x")
            };
            result(
                message,
                &json!({ "prompts": [{ "name": "p" }, 7], "nextCursor": next }),
            )
        }
        _ => good(message),
    })
}

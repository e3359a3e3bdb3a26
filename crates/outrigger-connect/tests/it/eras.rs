//! Agreeing with servers of both eras, and with those that answer strangely.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outrigger_connect::{ConnectErrorKind, Connector, Era, EraCache, Protocol, Stage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::peer::{Act, Peer, call, connect, error, good, result};
use crate::web::{self, Reply, Web, json_reply};

fn modern(message: &Value) -> Act {
    match message["method"].as_str() {
        Some("server/discover") => result(
            message,
            &json!({
                "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "instructions": "be kind",
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "new", "version": "9" } },
            }),
        ),
        Some("initialize") => error(message, -32022, "Unsupported protocol version"),
        _ => good(message),
    }
}

#[tokio::test]
async fn a_legacy_server_hears_initialized_before_anything_else() {
    let peer = Peer::legacy(|_| None);
    let connection = peer.connect().await;
    assert_eq!(connection.list_tools().await.unwrap().tools.len(), 1);
    assert_eq!(
        peer.methods(),
        [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list"
        ]
    );
    let info = connection.peer();
    assert_eq!(
        (
            info.era,
            info.protocol_version.as_str(),
            info.name.as_deref()
        ),
        (Era::Legacy, "2025-11-25", Some("good"))
    );
    assert_eq!(peer.heard.lock().unwrap()[3]["params"], json!({}));
}

#[tokio::test]
async fn a_modern_server_hears_who_asks_with_every_request() {
    let peer = Peer::new(modern);
    let connection = peer.connect().await;
    call(&connection).await.unwrap();
    let info = connection.peer();
    assert_eq!(
        (
            info.era,
            info.version.as_deref(),
            info.instructions.as_deref()
        ),
        (Era::Modern, Some("9"), Some("be kind"))
    );
    let heard = peer.heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 2);
    for message in &heard {
        let meta = &message["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert_eq!(
            meta["io.modelcontextprotocol/clientInfo"]["name"],
            "outrigger"
        );
        assert_eq!(
            meta["io.modelcontextprotocol/clientCapabilities"],
            json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
        );
    }
    assert_eq!(heard[1]["params"]["_meta"]["progressToken"], heard[1]["id"]);
}

#[tokio::test]
async fn anything_but_a_modern_answer_means_legacy() {
    for answer in [
        json!({ "result": {} }),
        json!({ "result": { "isError": true, "content": [] } }),
        json!({ "result": { "supportedVersions": ["2025-06-18"] } }),
        json!({ "result": [], "error": null }),
        json!({ "error": { "code": -32022, "message": "no", "data": { "supported": ["2025-06-18"] } } }),
        json!({ "error": "what?" }),
    ] {
        let peer = Peer::legacy(move |message| {
            let mut answer = answer.clone();
            answer["id"] = message["id"].clone();
            (message["method"] == "server/discover").then(|| Act::Say(format!("{answer}\n")))
        });
        assert_eq!(peer.connect().await.peer().era, Era::Legacy);
    }
}

#[tokio::test]
async fn a_silent_probe_costs_its_deadline_and_a_late_answer_to_it_nothing() {
    let peer =
        Peer::legacy(|message| (message["method"] == "server/discover").then_some(Act::Nothing));
    let mut spec = peer.spec();
    spec.deadlines.probe = Duration::from_millis(50);
    let begun = Instant::now();
    let connection = connect(&spec).await.unwrap();
    assert!(begun.elapsed() >= spec.deadlines.probe);
    assert_eq!(connection.peer().era, Era::Legacy);

    // Slow to start and modern: it answers both, the probe first.
    let slow = Peer::new(|message| match message["method"].as_str() {
        Some("server/discover") => Act::Nothing,
        Some("initialize") => {
            let Act::Say(refused) = modern(message) else {
                unreachable!()
            };
            let probe = json!({ "id": "1000001", "method": "server/discover" });
            let Act::Say(found) = modern(&probe) else {
                unreachable!()
            };
            Act::Say(refused + &found)
        }
        _ => modern(message),
    });
    let mut spec = slow.spec();
    spec.deadlines.probe = Duration::from_millis(50);
    assert_eq!(connect(&spec).await.unwrap().peer().era, Era::Modern);
}

#[tokio::test]
async fn a_server_that_dies_of_the_probe_is_started_again_without_it() {
    let peer =
        Peer::legacy(|message| (message["method"] == "server/discover").then_some(Act::Leave));
    let connection = peer.connect().await;
    assert_eq!(peer.starts.load(Ordering::SeqCst), 2);
    assert_eq!(
        peer.methods(),
        ["server/discover", "initialize", "notifications/initialized"]
    );
    call(&connection).await.unwrap();
}

#[tokio::test]
async fn a_version_that_is_refused_is_not_offered_again() {
    let refused = AtomicBool::new(false);
    let peer = Peer::legacy(move |message| {
        let first = message["method"] == "initialize" && !refused.swap(true, Ordering::SeqCst);
        first.then(|| {
            error(
                message,
                -32602,
                "Unsupported protocol version; I speak 2024-11-05 and 2025-03-26",
            )
        })
    });
    assert_eq!(peer.connect().await.peer().protocol_version, "2025-03-26");
}

#[tokio::test]
async fn an_unknown_version_names_both_sides() {
    let unknown = json!({ "protocolVersion": "2031-01-01", "capabilities": {} });
    let peer = Peer::legacy(move |message| {
        (message["method"] == "initialize").then(|| result(message, &unknown))
    });
    let failed = connect(&peer.spec()).await.unwrap_err();
    assert_eq!(
        (failed.kind, failed.stage),
        (ConnectErrorKind::VersionMismatch, Stage::Handshake)
    );
    assert!(
        failed
            .message
            .contains("speaks 2031-01-01, this client speaks 2026-07-28, 2025-11-25"),
        "{failed}"
    );
}

#[tokio::test]
async fn one_era_can_be_asked_for() {
    let peer = Peer::legacy(|_| None);
    let mut spec = peer.spec();
    spec.protocol = Protocol::Legacy;
    connect(&spec).await.unwrap();
    assert_eq!(peer.methods()[0], "initialize");
    spec.protocol = Protocol::Modern;
    let failed = connect(&spec).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::VersionMismatch);
    assert!(
        failed
            .message
            .contains("does not speak 2026-07-28 (error -32601: Method not found)"),
        "{failed}"
    );
}

#[tokio::test]
async fn the_start_deadline_holds_and_the_server_is_gone_then() {
    let peer = Peer::new(|_| Act::Nothing);
    let mut spec = peer.spec();
    spec.deadlines.start = Duration::from_millis(200);
    let failed = connect(&spec).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::Timeout);
    assert_eq!(
        failed.message,
        "no answer to `initialize` from the built-in server within 0.2 s"
    );
    assert_eq!(peer.running.load(Ordering::SeqCst), 0);
}

#[derive(Default)]
struct Memory(Mutex<HashMap<String, Era>>);

impl EraCache for Memory {
    fn get(&self, key: &str) -> Option<Era> {
        self.0.lock().unwrap().get(key).copied()
    }

    fn put(&self, key: &str, era: Option<Era>) {
        let mut kept = self.0.lock().unwrap();
        match era {
            Some(era) => kept.insert(key.to_owned(), era),
            None => kept.remove(key),
        };
    }
}

#[tokio::test]
async fn the_era_is_remembered_and_probed_again_when_it_does_not_hold() {
    let updated = Arc::new(AtomicBool::new(false));
    let now_modern = updated.clone();
    let web = Web::new(move |asked| {
        let modern = now_modern.load(Ordering::SeqCst);
        let found = json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} });
        match asked.method() {
            "server/discover" if modern => json_reply(&web::result(asked, &found)),
            "initialize" if modern => json_reply(&web::error(asked, -32022, "Unsupported")),
            _ => web::good(asked),
        }
    })
    .await;
    let memory = Arc::new(Memory::default());
    let connector = Connector::new("0.0.0", None).with_eras(memory.clone());
    let (spec, never) = (web.spec(), CancellationToken::new());
    let connect = || Box::pin(connector.connect(&spec, &never));
    for _ in 0..2 {
        assert_eq!(connect().await.unwrap().peer().era, Era::Legacy);
    }
    assert_eq!(web.count("server/discover"), 1);
    updated.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(connect().await.unwrap().peer().era, Era::Modern);
    }
    // The secret header is no part of what is kept.
    let kept = memory.0.lock().unwrap().clone();
    assert_eq!(kept.values().collect::<Vec<_>>(), [&Era::Modern]);
    assert_eq!(kept.keys().map(String::len).collect::<Vec<_>>(), [64]);

    drop(web);
    assert!(connect().await.is_err());
    assert!(memory.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_update_that_is_silent_or_hangs_up_is_probed_again() {
    for (how, answer) in [
        ("is silent", (|| Reply::Hang) as fn() -> Reply),
        ("hangs up", || Reply::Cut),
    ] {
        let updated = Arc::new(AtomicBool::new(false));
        let now_modern = updated.clone();
        let web = Web::new(move |asked| {
            let found = json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} });
            match (asked.method(), now_modern.load(Ordering::SeqCst)) {
                ("server/discover", true) => json_reply(&web::result(asked, &found)),
                ("initialize", true) => answer(),
                _ => web::good(asked),
            }
        })
        .await;
        let memory = Arc::new(Memory::default());
        let connector = Connector::new("0.0.0", None).with_eras(memory.clone());
        let (mut spec, never) = (web.spec(), CancellationToken::new());
        spec.deadlines.start = Duration::from_secs(4);
        let first = Box::pin(connector.connect(&spec, &never)).await.unwrap();
        assert_eq!(first.peer().era, Era::Legacy);
        updated.store(true, Ordering::SeqCst);
        let second = Box::pin(connector.connect(&spec, &never)).await;
        assert_eq!(second.unwrap().peer().era, Era::Modern, "{how}");
        let kept = memory.0.lock().unwrap().clone();
        assert_eq!(kept.values().collect::<Vec<_>>(), [&Era::Modern], "{how}");
    }
}

#[tokio::test]
async fn what_was_agreed_on_under_a_restriction_is_not_remembered() {
    let web = Web::new(web::good).await;
    let memory = Arc::new(Memory::default());
    let connector = Connector::new("0.0.0", None).with_eras(memory.clone());
    let mut spec = web.spec();
    spec.protocol = Protocol::Legacy;
    let never = CancellationToken::new();
    Box::pin(connector.connect(&spec, &never)).await.unwrap();
    assert!(memory.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn only_allowed_versions_are_spoken() {
    let allow = |peer: &Peer, versions: &[&str]| {
        let mut spec = peer.spec();
        spec.versions = Some(
            versions
                .iter()
                .map(|version| (*version).to_owned())
                .collect(),
        );
        spec
    };
    let peer = Peer::legacy(|_| None);
    let connection = connect(&allow(&peer, &["2025-03-26", "2025-06-18"])).await;
    assert_eq!(connection.unwrap().peer().protocol_version, "2025-06-18");
    assert_eq!(peer.methods()[0], "initialize");

    let old = json!({ "protocolVersion": "2024-11-05", "capabilities": {} });
    let older = Peer::legacy(move |message| {
        (message["method"] == "initialize").then(|| result(message, &old))
    });
    let failed = connect(&allow(&older, &["2025-06-18"])).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::VersionMismatch);
    assert_eq!(
        failed.message,
        "no common protocol version: the built-in server speaks 2024-11-05, this client speaks 2025-06-18"
    );

    let failed = connect(&allow(&peer, &["2031-01-01"])).await.unwrap_err();
    assert!(failed.message.contains("(2031-01-01)"), "{failed}");
}

#[tokio::test]
async fn both_sides_versions_are_told_when_they_have_none_in_common() {
    let failed = async |peer: &Peer, version: &str| {
        let mut spec = peer.spec();
        spec.versions = Some(vec![version.to_owned()]);
        let failed = connect(&spec).await.unwrap_err();
        assert_eq!(failed.kind, ConnectErrorKind::VersionMismatch, "{failed}");
        assert_eq!(
            failed.hints,
            ["allow a version that it speaks in `versions`"]
        );
        failed.message
    };
    let legacy = Peer::legacy(|_| None);
    assert_eq!(
        failed(&legacy, "2026-07-28").await,
        "the built-in server does not speak 2026-07-28 (error -32601: Method not found); it speaks 2025-11-25"
    );
    let old = Peer::legacy(|message| {
        (message["method"] == "server/discover").then(|| {
            let versions = json!({ "supportedVersions": ["2025-03-26", "2024-11-05"] });
            result(message, &versions)
        })
    });
    assert_eq!(
        failed(&old, "2026-07-28").await,
        "the built-in server does not speak 2026-07-28; it speaks 2025-03-26, 2024-11-05"
    );
    // Neither says anything of itself on `initialize`.
    let new = Peer::new(|message| match message["method"].as_str() {
        Some("initialize") => error(message, -32601, "Method not found"),
        _ => modern(message),
    });
    for peer in [&new, &Peer::new(modern)] {
        assert_eq!(
            failed(peer, "2025-06-18").await,
            "no common protocol version: the built-in server speaks 2026-07-28, this client speaks 2025-06-18"
        );
    }
}

#[tokio::test]
async fn a_version_that_is_refused_and_named_at_once_is_offered_again() {
    let refused = AtomicBool::new(false);
    let peer = Peer::new(move |message| {
        let first = message["method"] == "server/discover" && !refused.swap(true, Ordering::SeqCst);
        if !first {
            return modern(message);
        }
        let data = json!({ "supported": ["2026-07-28"] });
        let error = json!({ "code": -32022, "message": "Unsupported", "data": data });
        Act::Say(format!(
            "{}\n",
            json!({ "id": message["id"], "error": error })
        ))
    });
    assert_eq!(peer.connect().await.peer().era, Era::Modern);
    assert_eq!(peer.methods(), ["server/discover", "server/discover"]);
}

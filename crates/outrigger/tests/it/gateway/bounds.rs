//! How large a message may be, and how many sessions and connections there may be: as configured, and whoever
//! is refused is told by which key.

use std::io::{BufRead as _, Read as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::isolation::standing;
use super::let_in::{Made, configure, entry, made};
use super::principals::Somebody;
use super::served::{Heard, Line, Served};
use super::text;
use crate::place::{Place, until};
use crate::scripted::lab;

fn initialize(somebody: &Somebody<'_>) -> Heard {
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "legacy", "version": "3.1" },
    } });
    somebody.served.post(&message, &[somebody.shown()])
}

/// A connection that goes on; `None`: it was closed at once.
fn kept(served: &Served) -> Option<TcpStream> {
    let mut stream = served.open(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let count = stream.read(&mut [0; 512]).unwrap_or(0);
    (count > 0).then_some(stream)
}

/// A refusal that names this key.
#[track_caller]
fn names(heard: &Heard, status: u16, key: &str) {
    assert_eq!(heard.status, status, "{heard:?}");
    let words = heard.json()["error"]["message"].clone();
    let words = words.as_str().unwrap();
    assert!(words.contains(&format!("(`gateway.{key}`)")), "{words}");
}

/// Two principals, and what is said beside them.
fn two(place: &Place, [alice, bob]: [&Made; 2], (of_alice, more): (&str, &str)) {
    let alice = entry("alice", &[alice], of_alice);
    let bob = entry("bob", &[bob], "");
    configure(
        place,
        &format!("[policy]\ndefault = 'allow'\n[gateway]\n{more}\n{alice}{bob}"),
    );
}

#[test]
fn a_message_may_be_so_large() {
    let (place, _) = lab();
    let user = "[policy]\ndefault = 'allow'\n[gateway]\nmax_message = ";
    configure(&place, &format!("{user}'2 KiB'"));
    let served = Served::start(&place, &[]);
    let say = |bytes: usize| {
        let arguments = json!({ "text": "x".repeat(bytes) });
        json!({ "name": "lab__repeat", "arguments": arguments })
    };
    assert_eq!(text(&served.modern("tools/call", say(10))), "x".repeat(10));
    names(
        &served.modern_heard("tools/call", say(3000)),
        413,
        "max_message",
    );
    let mut line = Line::start(&place, &["serve"]);
    line.begin("2025-11-25", json!({}));
    line.send("tools/call", say(3000));
    let told: Value = serde_json::from_str(&line.line()).unwrap();
    let words = told["error"]["message"].as_str().unwrap();
    assert!(words.contains("2048 bytes"), "{words}");
    assert_eq!(line.end(), 0);

    configure(&place, &format!("{user}'8 KiB'"));
    served.reload();
    until("more is taken", || {
        served.modern_heard("tools/call", say(3000)).status == 200
    });
}

#[test]
fn there_may_be_so_many_sessions_of_one_and_of_all() {
    let (place, _) = lab();
    let [of_alice, of_bob] = [(); 2].map(|()| made(&place));
    let both = [&of_alice, &of_bob];
    let few = "limits = { sessions = 2 }";
    two(&place, both, (few, "max_sessions = 3"));
    let served = Served::start(&place, &[]);
    let [alice, bob] = both.map(|made| Somebody::with(&served, &made.token));
    let first = alice.session();
    alice.session();
    names(&initialize(&alice), 503, "limits.sessions");
    bob.session();
    names(&initialize(&bob), 503, "max_sessions");
    let headers = [("Mcp-Session-Id", first.as_str()), alice.shown()];
    assert_eq!(served.request("DELETE", "/mcp", &headers, b"").status, 204);
    bob.session();
    names(&initialize(&alice), 503, "max_sessions");

    two(&place, both, (few, "max_sessions = 4"));
    served.reload();
    until("one more is let in", || initialize(&alice).status == 200);
    names(&initialize(&alice), 503, "limits.sessions");
    names(&initialize(&bob), 503, "max_sessions");

    let more = "limits = { sessions = 3 }";
    two(&place, both, (more, "max_sessions = 9"));
    served.reload();
    until("alice is let in again", || initialize(&alice).status == 200);
    names(&initialize(&alice), 503, "limits.sessions");
    bob.session();
}

#[test]
fn there_may_be_so_many_connections_of_one_and_of_all() {
    let (place, _) = lab();
    let [of_alice, of_bob] = [(); 2].map(|()| made(&place));
    let both = [&of_alice, &of_bob];
    let one = "limits = { connections = 1 }";
    two(&place, both, (one, "max_connections = 3"));
    let served = Served::start(&place, &[]);
    let [alice, bob] = both.map(|made| Somebody::with(&served, &made.token));
    let session = alice.session();
    let (mut stream, mut told) = (None, String::new());
    // The connection before may be there for a moment still.
    until("alice has a stream", || {
        told.clear();
        let stream = stream.insert(standing(&alice, &session));
        stream.read_line(&mut told).unwrap();
        told.starts_with("HTTP/1.1 200")
    });
    let status = |somebody: &Somebody<'_>| somebody.heard("server/discover", json!({})).status;
    until("alice has no connection left", || status(&alice) == 503);
    names(
        &alice.heard("server/discover", json!({})),
        503,
        "limits.connections",
    );
    assert_eq!(status(&bob), 200);
    // Two more, whoever they are, and then there is room for nobody.
    let mut idle = Vec::new();
    until("two more are there", || {
        idle.extend(kept(&served));
        idle.len() == 2
    });
    assert!(kept(&served).is_none());

    two(&place, both, ("", "max_connections = 9"));
    served.reload();
    until("it is read again", || {
        served.talk().contains("was read again")
    });
    assert_eq!(status(&alice), 200);
    drop(served);
    let mut rest = String::new();
    stream.unwrap().read_to_string(&mut rest).unwrap();
    assert!(rest.contains("text/event-stream"), "{rest}");
    place.assert_nothing_runs();
}

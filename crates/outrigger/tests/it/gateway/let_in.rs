//! Who may connect, and how much, when the configuration is read again: whoever it does not know any more
//! is nobody from the next request on.

use std::fs;
use std::io::{BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use super::isolation::{standing, state, until_line};
use super::principals::Somebody;
use super::served::{Line, Served};
use super::text;
use crate::place::{Place, fixture, until};
use crate::scripted::{Log, lab};

const PING: &str = r#"{ "jsonrpc": "2.0", "id": 5, "method": "ping" }"#;

/// A token, and the line that knows it.
pub(super) struct Made {
    pub(super) token: String,
    hash: String,
}

pub(super) fn made(place: &Place) -> Made {
    let made = place.json(&["gateway", "token", "somebody", "--json"]);
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    Made {
        token: text("token"),
        hash: text("hash"),
    }
}

/// The whole configuration of the person.
pub(super) fn configure(place: &Place, toml: &str) {
    let always = "[builtin]\ntime = false\nworkspace = false\n";
    place.write(
        "config/outrigger/outrigger.toml",
        format!("{always}{toml}\n"),
    );
}

pub(super) fn entry(name: &str, tokens: &[&Made], more: &str) -> String {
    let hashes: Vec<_> = tokens.iter().map(|made| made.hash.as_str()).collect();
    format!("[gateway.principals.{name}]\ntoken = {hashes:?}\n{more}\n")
}

/// A place with a server that keeps things; `more` is the rest of its entry.
pub(super) fn keeping(more: &Value) -> (Place, Log) {
    let place = Place::new();
    let log = place.root.join("keep.log");
    let mut entry = json!({ "command": "python3", "args": [fixture("keeping_server.py"), log] });
    for (key, value) in more.as_object().unwrap() {
        entry[key] = value.clone();
    }
    place.servers(&json!({ "lab": entry }));
    (place, Log::at(log))
}

fn status(somebody: &Somebody<'_>) -> u16 {
    somebody.heard("server/discover", json!({})).status
}

/// All that comes until the other side ends it.
pub(super) fn rest(stream: &mut BufReader<TcpStream>) -> String {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    rest
}

pub(super) fn is_gone(pid: &Value) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn ping() -> Value {
    serde_json::from_str(PING).unwrap()
}

#[test]
fn a_token_that_is_taken_away_is_good_for_nothing_from_the_next_request_on() {
    let (place, _) = keeping(&json!({}));
    let [old, new, of_bob, of_carol] = [(); 4].map(|()| made(&place));
    let open = "[policy]\ndefault = 'allow'\n";
    let bob = entry("bob", &[&of_bob], "");
    let alice = entry("alice", &[&old, &new], "");
    configure(&place, &format!("{open}{alice}{bob}"));
    let served = Served::start(&place, &[]);
    let somebody = |made: &Made| Somebody::with(&served, &made.token);
    let (by_old, by_new, bob) = (somebody(&old), somebody(&new), somebody(&of_bob));
    assert_eq!(status(&somebody(&of_carol)), 401);
    let sessions = [by_old.session(), by_new.session()];
    let mut streams = [
        standing(&by_old, &sessions[0]),
        standing(&by_new, &sessions[1]),
    ];
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = bob.begin("subscriptions/listen", wanted);
    until_line(&mut listening, "acknowledged");
    let pids = [&by_new, &bob].map(|somebody| state(somebody)["pid"].clone());

    // Another token for alice, carol for bob.
    let alice = entry("alice", &[&new], "");
    configure(
        &place,
        &format!("{open}{alice}{}", entry("carol", &[&of_carol], "")),
    );
    served.reload();
    until("the old token is refused", || status(&by_old) == 401);
    let refused = by_old.heard("tools/list", json!({}));
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    assert_eq!(status(&bob), 401);
    assert_eq!(by_old.within(&sessions[0], &ping()).status, 401);
    // What was begun with it is nobody's, also for the same principal.
    assert_eq!(by_new.within(&sessions[0], &ping()).status, 404);
    assert_eq!(by_new.within(&sessions[1], &ping()).status, 200);
    rest(&mut streams[0]);
    let told = rest(&mut listening);
    assert!(told.contains("\"resultType\":\"complete\""), "{told}");
    until("bob's servers are gone", || is_gone(&pids[1]));
    assert_eq!(state(&by_new)["pid"], pids[0], "alice's go on");
    by_new.call("lab__grow", json!({}));
    until_line(&mut streams[1], "notifications/tools/list_changed");
    assert_eq!(
        text(&somebody(&of_carol).call("lab__keep", json!({ "text": "c" }))),
        "kept"
    );
    drop(streams);
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn a_call_that_was_sent_ends_and_one_that_waits_for_a_person_is_given_up() {
    let (place, log) = keeping(&json!({}));
    let [of_alice, of_bob] = [(); 2].map(|()| made(&place));
    let rules = "[policy]\ndefault = 'allow'\n[[policy.rule]]\ntool = 'mcp__lab__keep'\ndecision = 'ask'\n\
                 [gateway]\napprovals = ['queue']\n";
    let alice = entry("alice", &[&of_alice], "");
    configure(
        &place,
        &format!("{rules}{alice}{}", entry("bob", &[&of_bob], "")),
    );
    let served = Served::start(&place, &[]);
    let bob = Somebody::with(&served, &of_bob.token);
    let pid = state(&bob)["pid"].clone();
    let call = |tool: &str| {
        let params = json!({ "name": tool, "arguments": { "text": "of bob" } });
        bob.begin("tools/call", params)
    };
    let (mut sent, mut waits) = (call("lab__hold"), call("lab__keep"));
    let named = |name: &str| {
        let calls = log.of("tools/call").into_iter();
        calls.filter(|it| it["params"]["name"] == name).count()
    };
    until("it is sent", || named("hold") == 1);
    until("it waits", || {
        place.json(&["approvals", "list", "--json"])[0].is_object()
    });

    configure(&place, &format!("{rules}{alice}"));
    served.reload();
    let told = rest(&mut waits);
    assert!(told.contains("Not called"), "{told}");
    assert_eq!(place.json(&["approvals", "list", "--json"]), json!([]));
    assert_eq!(status(&bob), 401);
    assert!(!is_gone(&pid), "a call is under way");
    fs::write(log.0.with_extension("log.go"), "").unwrap();
    let told = rest(&mut sent);
    assert!(told.contains("held"), "{told}");
    until("the server is gone", || is_gone(&pid));
    assert_eq!(named("keep"), 0);
    drop(served);
    place.assert_nothing_runs();
    let runs = place.json(&["runs", "list", "--json"]);
    assert_eq!(runs[0]["principal"], "bob");
    let run = place.last_run();
    assert!(run.contains("hold") && !run.contains("unknown"), "{run}");
}

#[test]
fn other_limits_hold_for_the_next_call() {
    let (place, log) = lab();
    let [of_alice, of_bob] = [(); 2].map(|()| made(&place));
    let both = |alice: &str, more: &str| {
        let alice = entry("alice", &[&of_alice], alice);
        let bob = entry("bob", &[&of_bob], "");
        configure(
            &place,
            &format!("[policy]\ndefault = 'allow'\n{alice}{bob}{more}"),
        );
    };
    both("limits = { calls_per_minute = 1 }", "");
    let served = Served::start(&place, &[]);
    let [alice, bob] = [&of_alice, &of_bob].map(|made| Somebody::with(&served, &made.token));
    let call = |somebody: &Somebody<'_>| somebody.call("lab__repeat", json!({ "text": "a" }));
    let limit = |answer: &Value| answer["error"]["data"]["limit"].clone();
    let whose = |answer: &Value| answer["error"]["data"]["of"].clone();
    assert_eq!(text(&call(&alice)), "a");
    assert_eq!(limit(&call(&alice)), "calls_per_minute");
    for _ in 0..3 {
        assert_eq!(text(&call(&bob)), "a");
    }

    both("", "");
    served.reload();
    until("nothing holds alice up", || {
        call(&alice).get("result").is_some()
    });
    assert_eq!(text(&call(&alice)), "a");
    assert_eq!(text(&call(&alice)), "a");

    both("", "[gateway.servers.lab]\ncalls_per_minute = 2\n");
    served.reload();
    until("all together are held up", || {
        whose(&call(&bob)) == "all clients of the server `lab`"
    });
    assert_eq!(limit(&call(&alice)), "calls_per_minute");

    both("limits = { concurrent_calls = 1 }", "");
    served.reload();
    until("bob is not held up any more", || {
        call(&bob).get("result").is_some()
    });
    let _waits = alice.begin(
        "tools/call",
        json!({ "name": "lab__wait", "arguments": {} }),
    );
    let waits = |it: &Value| it["params"]["name"] == "wait";
    until("it is under way", || log.of("tools/call").iter().any(waits));
    assert_eq!(limit(&call(&alice)), "concurrent_calls");
    assert_eq!(text(&call(&bob)), "a");
}

#[test]
fn another_secret_of_a_principal_is_for_its_own_server_and_a_shared_one_goes_on() {
    let (place, log) = keeping(&json!({ "env": { "SECRET": "of-everybody" } }));
    let shared = place.root.join("shared.log");
    place.user(&format!(
        "[servers.all]\ncommand = 'python3'\nargs = ['{}', '{}']\nsharing = 'shared'",
        fixture("keeping_server.py"),
        shared.display()
    ));
    let all = fs::read_to_string(place.root.join("config/outrigger/outrigger.toml")).unwrap();
    let [of_alice, of_bob] = [(); 2].map(|()| made(&place));
    let both = |alice: &str, bob: bool| {
        let own = format!("servers.lab.env.SECRET = 'literal:{alice}'");
        let alice = entry("alice", &[&of_alice], &own);
        let bob = if bob {
            entry("bob", &[&of_bob], "")
        } else {
            String::new()
        };
        configure(
            &place,
            &format!("[policy]\ndefault = 'allow'\n{alice}{bob}{all}"),
        );
    };
    both("first-secret", true);
    let served = Served::start(&place, &[]);
    let [alice, bob] = [&of_alice, &of_bob].map(|made| Somebody::with(&served, &made.token));
    let pid = |somebody: &Somebody<'_>, server: &str| {
        let answer = somebody.call(&format!("{server}__kept"), json!({}));
        serde_json::from_str::<Value>(text(&answer)).unwrap()["pid"].clone()
    };
    let of_all = pid(&alice, "all");
    assert_eq!(pid(&bob, "all"), of_all);
    let before = [&alice, &bob].map(|somebody| pid(somebody, "lab"));

    both("second-secret", true);
    served.reload();
    until("alice's server is another one", || {
        pid(&alice, "lab") != before[0]
    });
    assert_eq!(log.heard().last().unwrap()["secret"], "second-secret");
    assert_eq!(pid(&bob, "lab"), before[1]);
    both("second-secret", false);
    served.reload();
    until("bob is nobody", || status(&bob) == 401);
    until("bob's server is gone", || is_gone(&before[1]));
    assert_eq!(pid(&alice, "all"), of_all, "it is alice's still");
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn once_somebody_is_known_those_who_show_nothing_are_nobody_and_back() {
    let (place, _) = lab();
    let of_alice = made(&place);
    configure(&place, "[policy]\ndefault = 'allow'");
    let served = Served::start(&place, &[]);
    let session = served.session(json!({}));
    let within = || served.post(&ping(), &[("Mcp-Session-Id", &session)]).status;
    assert_eq!(within(), 200);
    let alice = Somebody::with(&served, &of_alice.token);
    let known = entry("alice", &[&of_alice], "");
    configure(&place, &format!("[policy]\ndefault = 'allow'\n{known}"));
    served.reload();
    until("those who show nothing are refused", || within() == 401);
    until("nobody's servers are left", || {
        place
            .processes()
            .iter()
            .all(|it| !it.contains("scripted_server"))
    });
    assert!(alice.names().contains(&"lab__repeat".to_owned()));
    configure(
        &place,
        &format!("[policy]\ndefault = 'allow'\n[gateway]\nopen_loopback = true\n{known}"),
    );
    served.reload();
    until("those of this machine are let in", || within() != 401);
    assert_eq!(within(), 404, "the session has ended");
    assert!(served.names().contains(&"lab__repeat".to_owned()));
    // A slip of the pen lets nobody in or out.
    configure(&place, "[gateway.principals.alice]\ntoken = 'sha256:0'\n");
    served.reload();
    until("it is told", || {
        served.talk().contains("the one before stays")
    });
    assert_eq!(status(&alice), 200);
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn a_pipe_is_its_hosts_whoever_is_known_and_what_takes_a_restart_is_named() {
    let (place, _) = lab();
    let of_alice = made(&place);
    configure(&place, "[policy]\ndefault = 'allow'");
    let mut command = place.command(&["serve"]);
    command.arg("-q");
    let talk = place.root.join("talk");
    let mut line = Line::of(command, fs::File::create(&talk).unwrap().into());
    line.begin("2025-11-25", json!({}));
    let call = json!({ "name": "lab__repeat", "arguments": { "text": "here" } });
    assert_eq!(text(&line.ask("tools/call", call.clone())), "here");
    let known = entry("alice", &[&of_alice], "");
    configure(
        &place,
        &format!(
            "[policy]\ndefault = 'deny'\n[storage]\ngrace = '7s'\nurl = 'postgres://x@127.0.0.1:1/x'\n{known}"
        ),
    );
    line.poke("-HUP");
    until("what takes a restart is named", || {
        let talk = fs::read_to_string(&talk).unwrap();
        talk.contains("warning: `[storage]` is another one; that takes a restart")
    });
    until("the rest holds", || {
        let answer = line.ask("tools/call", call.clone());
        answer["result"]["isError"] == true || answer.get("error").is_some()
    });
    assert_eq!(line.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(line.end(), 0);
    place.assert_nothing_runs();
}

#[test]
fn who_is_known_later_is_lent_the_one_copy_that_there_is() {
    let place = Place::new();
    let log = Log::at(place.root.join("lab.log"));
    let of_alice = made(&place);
    let args = json!([fixture("single_server.py"), log.0]);
    let lab = format!("[servers.lab]\ncommand = 'python3'\nargs = {args}\nsingle = true\n");
    let allowed = format!("[policy]\ndefault = 'allow'\n{lab}");
    configure(&place, &allowed);
    let served = Served::start(&place, &[]);
    let who = || {
        let params = json!({ "name": "lab__who", "arguments": {} });
        text(&served.modern("tools/call", params)).to_owned()
    };
    assert_eq!(who(), "fence 1");
    let known = entry("alice", &[&of_alice], "");
    configure(
        &place,
        &format!("{allowed}[gateway]\nopen_loopback = true\n{known}"),
    );
    served.reload();
    let stranger = Somebody::with(&served, "somebody-else");
    until("she is known", || status(&stranger) == 401);
    let alice = Somebody::with(&served, &of_alice.token);
    for _ in 0..2 {
        assert_eq!(text(&alice.call("lab__who", json!({}))), "fence 1");
        assert_eq!(who(), "fence 1");
    }
    drop(served);
    place.assert_nothing_runs();
}

//! The configuration is read again while somebody is being opened, asked, or served still: whoever goes
//! goes at once, what was sent ends as it would have, and nobody is lost on the way.

use std::fs;
use std::io::BufReader;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::isolation::{call_asked, standing, state, until_line};
use super::let_in::{configure, entry, is_gone, keeping, made, rest};
use super::principals::Somebody;
use super::served::Served;
use super::text;
use crate::place::{fixture, until};

const OPEN: &str = "[policy]\ndefault = 'allow'\n";

/// A hook that is run before each principal's servers are started.
fn starting(script: &str) -> String {
    format!("[[hooks.session_start]]\ncommand = ['sh', '-c', '''{script}''']\ntimeout = '300s'\n")
}

fn discover(somebody: &Somebody<'_>) -> BufReader<TcpStream> {
    somebody.begin("server/discover", json!({}))
}

#[test]
fn whoever_goes_does_not_wait_for_somebody_who_comes() {
    let (place, _) = keeping(&json!({}));
    let [slow, seen] = ["slow", "seen"].map(|name| place.root.join(name));
    let waits = format!(
        "if test -e {slow}; then touch {seen}; while test -e {slow}; do sleep 0.05; done; fi",
        slow = slow.display(),
        seen = seen.display()
    );
    let always = format!("{OPEN}{}", starting(&waits));
    let [old, new, of_bob, of_carol] = [(); 4].map(|()| made(&place));
    let carol = entry("carol", &[&of_carol], "");
    let alice = entry("alice", &[&old, &new], "");
    let bob = entry("bob", &[&of_bob], "");
    configure(&place, &format!("{always}{alice}{bob}{carol}"));
    let served = Served::start(&place, &[]);
    let [by_old, by_new, bob, carol_] =
        [&old, &new, &of_bob, &of_carol].map(|made| Somebody::with(&served, &made.token));
    let session = by_old.session();
    let mut stream = standing(&by_old, &session);
    let mut listening = bob.begin(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    until_line(&mut listening, "acknowledged");
    let pids = [&by_new, &bob].map(|somebody| state(somebody)["pid"].clone());

    fs::write(&slow, "").unwrap();
    let mut comes = discover(&carol_);
    until("carol's are being opened", || seen.exists());
    let alice = entry("alice", &[&new], "");
    configure(&place, &format!("{always}{alice}{carol}"));
    served.reload();
    rest(&mut stream);
    rest(&mut listening);
    until("bob's server is gone", || is_gone(&pids[1]));
    assert_eq!(state(&by_new)["pid"], pids[0]);
    fs::remove_file(&slow).unwrap();
    let told = rest(&mut comes);
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn a_question_to_a_client_whose_token_is_taken_away_is_given_up() {
    let (place, log) = keeping(&json!({ "answers": ["elicitation"] }));
    let [old, new] = [(); 2].map(|()| made(&place));
    configure(
        &place,
        &format!("{OPEN}{}", entry("alice", &[&old, &new], "")),
    );
    let served = Served::start(&place, &[]);
    let [by_old, by_new] = [&old, &new].map(|made| Somebody::with(&served, &made.token));
    let answers = || {
        let heard = log.heard().into_iter();
        heard.filter(|it| it.get("method").is_none()).count()
    };
    let asked = call_asked(&by_old, json!({ "name": "lab__ask" }));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(answers(), 0);
    configure(&place, &format!("{OPEN}{}", entry("alice", &[&new], "")));
    served.reload();
    until("the server is told", || answers() == 1);
    state(&by_new);
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn state_is_kept_where_it_was_at_the_start() {
    let (place, _) = keeping(&json!({}));
    let shared = format!(
        "[servers.all]\ncommand = 'python3'\nargs = ['{}', '{}']\nsharing = 'shared'\n",
        fixture("keeping_server.py"),
        place.root.join("shared.log").display()
    );
    let [of_alice, of_bob] = [(); 2].map(|()| made(&place));
    let alice = entry("alice", &[&of_alice], "");
    configure(&place, &format!("{OPEN}{alice}"));
    let served = Served::start(&place, &[]);
    let [alice_, bob_] = [&of_alice, &of_bob].map(|made| Somebody::with(&served, &made.token));
    state(&alice_);

    let other = "[storage]\nurl = 'postgres://x@127.0.0.1:1/x'\n";
    let bob = entry("bob", &[&of_bob], "");
    configure(&place, &format!("{OPEN}{other}{alice}{bob}{shared}"));
    served.reload();
    until("what takes a restart is named", || {
        served.talk().contains("`[storage]` is another one")
    });
    until("bob is let in", || {
        bob_.heard("server/discover", json!({})).status != 401
    });
    let kept = bob_.call("all__keep", json!({ "text": "of bob" }));
    assert_eq!(text(&kept), "kept");
    drop(served);
    place.assert_nothing_runs();
    // Where it says now, nothing can be read.
    configure(&place, OPEN);
    let runs = place.json(&["runs", "list", "--json"]);
    let whose: Vec<_> = runs.as_array().unwrap().iter().collect();
    let of = |name: &str| whose.iter().any(|run| run["principal"] == name);
    assert!(of("alice") && of("bob"), "{runs}");
}

#[test]
fn who_comes_after_one_who_failed_is_there_once() {
    let (place, _) = keeping(&json!({}));
    let [count, fail, go] = ["count", "fail", "go"].map(|name| place.root.join(name));
    let script = format!(
        "echo once >> {count}\n\
         if test $(wc -l < {count}) = 1; then while ! test -e {fail}; do sleep 0.05; done; exit 1; fi\n\
         while ! test -e {go}; do sleep 0.05; done",
        count = count.display(),
        fail = fail.display(),
        go = go.display()
    );
    let opened = || fs::read_to_string(&count).map_or(0, |text| text.lines().count());
    let of_alice = made(&place);
    let alice = entry("alice", &[&of_alice], "");
    configure(&place, &format!("{OPEN}{}{alice}", starting(&script)));
    let served = Served::start(&place, &[]);
    let alice = Somebody::with(&served, &of_alice.token);
    let mut first = discover(&alice);
    until("it is being opened", || opened() == 1);
    let mut second = discover(&alice);
    // Until it waits for the first.
    thread::sleep(Duration::from_millis(300));
    fs::write(&fail, "").unwrap();
    let told = rest(&mut first);
    assert!(told.starts_with("HTTP/1.1 503"), "{told}");
    until("it is being opened again", || opened() == 2);
    let mut third = discover(&alice);
    fs::write(&go, "").unwrap();
    for stream in [&mut second, &mut third] {
        let told = rest(stream);
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    }
    assert_eq!(opened(), 2);
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn what_somebody_who_is_gone_has_sent_has_its_time_when_the_gateway_ends() {
    let (place, log) = keeping(&json!({}));
    let [of_alice, of_bob] = [(); 2].map(|()| made(&place));
    let alice = entry("alice", &[&of_alice], "");
    let bob = entry("bob", &[&of_bob], "");
    configure(&place, &format!("{OPEN}{alice}{bob}"));
    let served = Served::start(&place, &[]);
    let bob = Somebody::with(&served, &of_bob.token);
    let params = json!({ "name": "lab__hold", "arguments": {} });
    let mut sent = bob.begin("tools/call", params);
    let holds = |it: &Value| it["params"]["name"] == "hold";
    until("it is sent", || log.of("tools/call").iter().any(holds));
    configure(&place, &format!("{OPEN}{alice}"));
    served.reload();
    until("bob is nobody", || {
        bob.heard("server/discover", json!({})).status == 401
    });
    served.ask_to_end();
    until("it is not ready any more", || {
        served.request("GET", "/ready", &[], b"").status == 503
    });
    fs::write(log.0.with_extension("log.go"), "").unwrap();
    let told = rest(&mut sent);
    assert!(told.contains("held"), "{told}");
    drop(served);
    place.assert_nothing_runs();
    let run = place.last_run();
    assert!(run.contains("hold") && !run.contains("unknown"), "{run}");
}

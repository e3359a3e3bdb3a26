//! A server that may run in one place at a time, behind gateways that share their storage: it is never there
//! twice, it goes to who wants it, and who has lost it sends nothing.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outrigger_testkit::postgres::{name_of, server};
use serde_json::{Value, json};

use crate::gateway::served::Served;
use crate::gateway::text;
use crate::place::{Place, fixture, until};
use crate::scripted::Log;

/// How long a lease lasts without its holder. A machine that is busy with other tests must not lose one.
const TERM: u64 = 4;

/// Replicas: places of their own, with the same configuration and the same database.
struct Replicas {
    one: Place,
    two: Place,
    log: Log,
    url: String,
}

fn entry(log: &Log) -> Value {
    json!({ "lab": {
        "command": "python3", "args": [fixture("single_server.py"), log.0], "single": true
    } })
}

/// The servers, as our own file says it: `single` is a word of ours.
fn configure(place: &Place, log: &Log, storage: &str) {
    let entry = entry(log);
    let args = &entry["lab"]["args"];
    place.user(&format!(
        "[servers.lab]\ncommand = 'python3'\nargs = {args}\nsingle = true\n[storage]\ngrace = '{TERM}s'\n{storage}"
    ));
}

impl Replicas {
    fn new() -> Self {
        let (one, two) = (Place::new(), Place::new());
        let log = Log::at(one.root.join("lab.log"));
        let url = server().database();
        for (place, name) in [(&one, "one"), (&two, "two")] {
            configure(place, &log, &format!("url = '{url}'\nreplica = '{name}'"));
        }
        Self { one, two, log, url }
    }

    fn start(&self) -> (Served, Served) {
        let one = served(&self.one);
        until("the first one has it", || {
            self.holder().starts_with("replica one,")
        });
        let two = served(&self.two);
        until("the other one knows its tools", || {
            two.names().contains(&"lab__who".to_owned())
        });
        (one, two)
    }

    fn sql(&self, sql: &str) -> String {
        let sql = format!("SET search_path = outrigger; {sql}");
        server().sql(name_of(&self.url), &sql).unwrap()
    }

    fn holder(&self) -> String {
        self.sql("SELECT coalesce((SELECT holder FROM leases WHERE name = 'lab'), '')")
    }

    /// The ends of all calls, in the order of the ledger, with whether an intent was written. They are
    /// written after the answers.
    fn ends(&self) -> Vec<String> {
        until("all calls are ended", || {
            self.sql("SELECT count(*) FROM calls WHERE outcome IS NULL") == "0"
        });
        let ends = "SELECT coalesce(outcome, '') || ' ' || (intent_at IS NOT NULL) FROM calls
            ORDER BY run, call";
        self.sql(ends).lines().map(ToOwned::to_owned).collect()
    }

    #[track_caller]
    fn verified(&self) {
        let verified = self.one.run(&["audit", "verify"]);
        assert_eq!(verified.code, 0, "{verified:#?}");
    }
}

fn served(place: &Place) -> Served {
    Served::start(place, &["--allow", "*"])
}

fn call(replica: &Served, tool: &str) -> Value {
    replica.modern("tools/call", json!({ "name": tool, "arguments": {} }))
}

fn nap(replica: &Served, seconds: u64) -> Value {
    let arguments = json!({ "seconds": seconds });
    replica.modern(
        "tools/call",
        json!({ "name": "lab__nap", "arguments": arguments }),
    )
}

/// The fence of the copy that answered.
#[track_caller]
fn fence(answer: &Value) -> u64 {
    let fence = text(answer).strip_prefix("fence ").map(str::parse);
    fence.unwrap_or_else(|| panic!("{answer}")).unwrap()
}

#[track_caller]
fn is_refused(answer: &Value) {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let told = text(answer);
    assert!(
        told.contains("nothing was sent") && told.contains("busy: "),
        "{told}"
    );
}

/// Of each copy that was started, in order: its fence, and whether no other was there.
fn starts(log: &Log) -> Vec<(u64, bool)> {
    let all = log.heard().into_iter();
    all.filter(|line| line["what"] == "start")
        .map(|line| (line["fence"].as_u64().unwrap(), line["alone"] == true))
        .collect()
}

#[track_caller]
fn never_twice(log: &Log) {
    let starts = starts(log);
    assert!(starts.iter().all(|(_, alone)| *alone), "{starts:?}");
    assert!(
        starts.is_sorted_by(|one, two| one.0 < two.0),
        "a copy that comes later has a greater fence: {starts:?}"
    );
}

#[test]
fn it_goes_to_who_wants_it_and_is_never_there_twice() {
    let all = Replicas::new();
    let (one, two) = all.start();
    let listed = |replica: &Served| {
        let mut names = replica.names();
        names.sort();
        names
    };
    assert_eq!(listed(&one), listed(&two));
    assert_eq!(starts(&all.log), [(1, true)]);
    let first = fence(&call(&one, "lab__who"));
    assert_eq!(
        fence(&call(&one, "lab__who")),
        first,
        "it stays where it is"
    );
    let second = fence(&call(&two, "lab__who"));
    assert!(second > first, "{second}");
    assert!(all.holder().starts_with("replica two,"), "{}", all.holder());

    // Whoever has it ends no call for it.
    std::thread::scope(|scope| {
        for replica in [&one, &two, &one, &two] {
            scope.spawn(move || {
                for _ in 0..3 {
                    fence(&call(replica, "lab__who"));
                }
            });
        }
    });
    never_twice(&all.log);

    // One that ends lets go at once.
    drop(one);
    assert!(!all.holder().starts_with("replica one,"));
    let last = fence(&call(&two, "lab__who"));
    assert!(last >= second, "{last}");
    drop(two);
    assert_eq!(all.holder(), "");
    assert!(
        all.ends().iter().all(|end| end == "completed true"),
        "{:?}",
        all.ends()
    );
    never_twice(&all.log);
    all.verified();
    all.one.assert_nothing_runs();
    all.two.assert_nothing_runs();
}

#[test]
fn while_a_call_is_under_way_there_others_are_refused_here() {
    let all = Replicas::new();
    let (one, two) = all.start();
    std::thread::scope(|scope| {
        let napping = scope.spawn(|| nap(&one, TERM + 8));
        until("it naps", || all.log.text().contains("\"nap\""));
        let refused = call(&two, "lab__who");
        is_refused(&refused);
        assert!(
            text(&refused).contains("that is replica one, process "),
            "{refused}"
        );
        let doctor = all.two.run(&["doctor"]);
        assert!(
            doctor.out.contains("away lab not here: busy: ") && doctor.out.contains("replica one"),
            "{doctor:#?}"
        );
        assert_eq!(doctor.code, 0, "{doctor:#?}");
        let page = two.request("GET", "/metrics", &[], b"").body;
        assert!(page.contains("state=\"elsewhere\""), "{page}");
        assert_eq!(fence(&napping.join().unwrap()), 1);
    });
    // Time to end it, if that were still wanted.
    std::thread::sleep(Duration::from_millis(500));
    let kept = fence(&call(&one, "lab__who"));
    assert_eq!(kept, 1, "the wish was over before the call was");
    assert!(fence(&call(&two, "lab__who")) > 1);
    let ends = all.ends();
    assert_eq!(
        ends,
        [
            "completed true",
            "completed true",
            "not_sent false",
            "completed true"
        ]
    );
    never_twice(&all.log);
}

#[test]
fn when_who_has_it_is_killed_another_one_takes_over() {
    let all = Replicas::new();
    let (one, two) = all.start();
    let waiting = one.call_alone("lab__nap");
    until("it naps", || all.log.text().contains("\"nap\""));
    let begun = Instant::now();
    one.kill();
    drop(waiting);
    assert_eq!(fence(&call(&two, "lab__who")), 2);
    // Within a second of its last renewal.
    assert!(
        begun.elapsed() > Duration::from_secs(TERM - 2),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(all.ends(), ["unknown true", "completed true"]);
    never_twice(&all.log);
    all.verified();
}

#[test]
fn who_was_away_sends_nothing_and_ends_its_copy() {
    let all = Replicas::new();
    let (one, two) = all.start();
    assert_eq!(fence(&call(&one, "lab__who")), 1);
    one.poke("-STOP");
    // Nobody can end its copy; the next one knows by its fence that it came later.
    assert_eq!(fence(&call(&two, "lab__who")), 2);
    assert_eq!(starts(&all.log), [(1, true), (2, false)]);
    std::thread::scope(|scope| {
        let napping = scope.spawn(|| nap(&two, TERM + 8));
        until("it naps", || all.log.text().contains("\"nap\""));
        let late = scope.spawn(|| call(&one, "lab__who"));
        // It is there before that one goes on.
        std::thread::sleep(Duration::from_millis(200));
        one.poke("-CONT");
        is_refused(&late.join().unwrap());
        until("its copy has ended", || {
            !all.one
                .processes()
                .iter()
                .any(|line| line.contains("single_server"))
        });
        assert_eq!(fence(&napping.join().unwrap()), 2);
    });
    let calls = all
        .log
        .heard()
        .into_iter()
        .filter(|line| line["what"] == "who");
    assert_eq!(calls.count(), 2);
    assert!(
        all.ends().contains(&"not_sent false".to_owned()),
        "{:?}",
        all.ends()
    );
    // It comes to it again like anybody else.
    assert_eq!(fence(&call(&one, "lab__who")), 3);
    assert_eq!(starts(&all.log)[2], (3, true));
    drop((one, two));
    all.verified();
}

#[test]
fn what_waited_for_a_slot_while_it_was_away_is_not_sent() {
    let all = Replicas::new();
    let file = all.one.root.join("config/outrigger/outrigger.toml");
    let one_at_a_time = "single = true\nlimits = { concurrent_calls = 1 }";
    let with = fs::read_to_string(&file).unwrap();
    fs::write(&file, with.replace("single = true", one_at_a_time)).unwrap();
    let one = served(&all.one);
    std::thread::scope(|scope| {
        let napping = scope.spawn(|| nap(&one, 1));
        until("it naps", || all.log.text().contains("\"nap\""));
        let waiting = scope.spawn(|| call(&one, "lab__who"));
        until("both are written down", || {
            all.sql("SELECT count(*) FROM calls WHERE intent_at IS NOT NULL") == "2"
        });
        one.poke("-STOP");
        std::thread::sleep(Duration::from_secs(TERM));
        // Nobody takes it, and it does not run out by itself.
        all.sql("UPDATE leases SET expires_at = now() + interval '1 hour'");
        one.poke("-CONT");
        is_refused(&waiting.join().unwrap());
        napping.join().unwrap();
    });
    assert!(!all.log.text().contains("\"who\""), "{}", all.log.text());
    assert_eq!(all.ends()[1], "not_sent true", "{:?}", all.ends());
    // What was lost by its own clock alone was let go, so it is there to be had again, once what ran under it
    // has ended.
    let mut again = Value::Null;
    until("it is had again", || {
        again = call(&one, "lab__who");
        !text(&again).contains("this program was away for too long")
    });
    assert_eq!(fence(&again), 2);
    never_twice(&all.log);
    drop(one);
    all.verified();
}

#[test]
fn an_intent_is_refused_by_the_database_when_another_one_has_it() {
    let all = Replicas::new();
    let one = served(&all.one);
    until("it has it", || all.holder().starts_with("replica one,"));
    assert_eq!(fence(&call(&one, "lab__who")), 1);
    // Before it can have noticed, mostly.
    all.sql(
        "UPDATE leases SET token = 7, holder = 'somebody else', expires_at = now() + interval '1 hour'",
    );
    let refused = call(&one, "lab__who");
    is_refused(&refused);
    until("its copy has ended", || {
        !all.one
            .processes()
            .iter()
            .any(|line| line.contains("single_server"))
    });
    is_refused(&call(&one, "lab__who"));
    assert_eq!(
        all.ends(),
        ["completed true", "not_sent false", "not_sent false"]
    );
    assert_eq!(starts(&all.log), [(1, true)]);
    all.sql("UPDATE leases SET expires_at = now()");
    assert_eq!(fence(&call(&one, "lab__who")), 8);
    drop(one);
    all.verified();
}

#[test]
fn programs_of_one_machine_share_it_without_a_database() {
    let place = Place::new();
    let log = Log::at(place.root.join("lab.log"));
    configure(&place, &log, "");
    let (one, two) = (served(&place), served(&place));
    for round in 0..3 {
        for replica in [&one, &two] {
            let answer = call(replica, "lab__who");
            assert!(fence(&answer) > round, "{answer}");
        }
    }
    // A command takes it from a gateway that does not use it, and gives it back.
    let said = place.run(&["call", "lab", "who", "--allow", "*"]);
    assert_eq!(said.code, 0, "{said:#?}");
    let before = starts(&log).len();
    let looked = place.run(&["tools"]);
    assert_eq!(looked.code, 0, "{looked:#?}");
    fence(&call(&one, "lab__who"));
    assert!(starts(&log).len() <= before + 2, "{:?}", starts(&log));
    never_twice(&log);
    drop((one, two));
    never_twice(&log);
    let state = place.root.join("state/outrigger");
    assert!(fs::exists(state.join("journal.db")).unwrap());
    place.assert_nothing_runs();
}

#[test]
fn what_a_reload_removes_is_let_go() {
    let all = Replicas::new();
    let (one, two) = all.start();
    let file = all.one.root.join("config/outrigger/outrigger.toml");
    let with = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        with.replace("single = true", "single = true\nenabled = false"),
    )
    .unwrap();
    one.poke("-HUP");
    until("it is let go", || !all.holder().starts_with("replica one"));
    until("the other one takes it, unasked", || {
        all.holder().starts_with("replica two")
    });
    assert_eq!(fence(&call(&two, "lab__who")), 2);
    never_twice(&all.log);
}

#[test]
fn one_at_an_address_waits_to_be_wanted_and_is_sent_the_fence() {
    let place = Place::new();
    let log = Log::at(place.root.join("lab.log"));
    let mut server = Command::new("python3")
        .args([fixture("keeping_server.py").as_ref(), log.0.as_os_str()])
        .arg("http")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let port = place.root.join("lab.log.port");
    until("it listens", || port.exists());
    let port = fs::read_to_string(port).unwrap();
    place.user(&format!(
        "[servers.lab]\nurl = 'http://127.0.0.1:{port}/mcp'\nstart = 'lazy'\nsingle = true\n[storage]\ngrace = '{TERM}s'"
    ));
    // What was never seen is not listed.
    let seen = place.run(&["call", "lab", "keep", "text=a", "--allow", "*"]);
    assert_eq!(seen.code, 0, "{seen:#?}");
    let (one, two) = (served(&place), served(&place));
    let fences = || -> Vec<String> {
        let headers = fs::read_to_string(place.root.join("lab.log.headers")).unwrap_or_default();
        let headers = headers
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut fences: Vec<_> = headers
            .map(|headers| {
                headers["outrigger-fence"]
                    .as_str()
                    .unwrap_or("none")
                    .to_owned()
            })
            .collect();
        fences.dedup();
        fences
    };
    let keep = json!({ "name": "lab__keep", "arguments": { "text": "a" } });
    for replica in [&two, &one] {
        let kept = replica.modern("tools/call", keep.clone());
        assert_eq!(kept["result"]["isError"], Value::Null, "{kept}");
    }
    // Nobody had it before it was called.
    assert_eq!(fences(), ["1", "2", "3"]);
    drop((one, two));
    drop(server.stdin.take());
    server.wait().unwrap();
}

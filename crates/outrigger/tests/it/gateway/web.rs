//! The pages of a gateway, in a real browser, and what may be asked of them without one; health,
//! readiness, metrics.

use serde_json::{Value, json};

use super::browser::Browser;
use super::principals::{Somebody, principal};
use super::served::Served;
use super::text;
use crate::place::{Place, fixture, until};
use crate::scripted::{Log, lab};

/// A tool whose name is markup; the arguments are, too.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

fn queue() -> (Place, Log) {
    let (place, log) = lab();
    place.user("[gateway]\napprovals = ['queue']\n");
    (place, log)
}

/// The address of the page, as the person is given it.
fn door(place: &Place) -> String {
    let printed = place.run(&["approvals", "open", "--print"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    printed.out.trim().to_owned()
}

#[track_caller]
fn waits(place: &Place) -> String {
    let mut id = None;
    until("a call waits", || {
        let listed = place.json(&["approvals", "list", "--json"]);
        id = listed[0]["id"].as_str().map(ToOwned::to_owned);
        id.is_some()
    });
    id.unwrap()
}

fn call(served: &Served, words: &str) -> Value {
    let arguments = json!({ "text": words });
    served.modern(
        "tools/call",
        json!({ "name": "lab__repeat", "arguments": arguments }),
    )
}

/// The page's own address.
fn page(served: &Served) -> String {
    served.place.strip_suffix("/mcp").unwrap().to_owned()
}

#[test]
#[allow(clippy::too_many_lines, reason = "one visit of a person")]
fn a_person_sees_what_goes_on_and_decides() {
    let (place, log) = queue();
    place.servers(&json!({
        "lab": { "command": "python3", "args": [fixture("scripted_server.py"), log.0.display().to_string()] },
        "gone": { "command": "no-such-program" },
    }));
    let served = Served::start(&place, &[]);
    let browser = Browser::start();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&served, HOSTILE));
        let id = waits(&place);
        browser.go(&format!("{}/", page(&served)));
        let parts = [
            "ready",
            "lab",
            "gone",
            "quarantined",
            "no-such-program",
            "repeat",
            &id,
        ];
        let status = browser.reads(&parts);
        assert!(!status.contains("onerror"), "no arguments: {status}");
        // A name that somebody made up is text.
        served.modern("tools/call", json!({ "name": HOSTILE, "arguments": {} }));
        browser.go(&format!("{}/", page(&served)));
        browser.reads(&[HOSTILE]);
        assert_eq!(browser.run("return document.images.length"), 0);
        browser.picture("status");
        // Nobody has come in with a key yet.
        browser.go(&format!("{}/approvals", page(&served)));
        assert!(browser.text().contains("outrigger approvals open"));
        assert!(!browser.text().contains(HOSTILE));

        let door = door(&place);
        browser.go(&door);
        assert_eq!(browser.at(), format!("{}/approvals", page(&served)));
        let shown = browser.text();
        assert!(shown.contains(HOSTILE), "as text: {shown}");
        assert_eq!(browser.run("return document.images.length"), 0);
        browser.picture("approvals");
        browser.click("button.yes");
        browser.reads(&["repeat is approved"]);
        assert_eq!(text(&waiting.join().unwrap()), HOSTILE);
        browser.picture("decided");

        // It comes up by itself, and a no is told with its reason.
        let waiting = scope.spawn(|| call(&served, "second"));
        browser.reads(&["second"]);
        browser.click("article summary");
        browser.run("document.querySelector('input[name=reason]').value = 'not now'");
        browser.click("button.no");
        browser.reads(&["repeat is declined"]);
        let refused = waiting.join().unwrap();
        assert!(text(&refused).contains("not now"), "{refused}");
        // A key is good once.
        let again = served.request("GET", door.strip_prefix(&page(&served)).unwrap(), &[], b"");
        assert_eq!(again.status, 403);
    });
    assert_eq!(log.of("tools/call").len(), 1);
    drop(browser);
    drop(served);
    let run = place.last_run();
    assert!(
        run.contains("allowed by a person on the gateway's page"),
        "{run}"
    );
}

#[test]
#[allow(
    clippy::too_many_lines,
    reason = "all that a page of another site could send"
)]
fn what_is_sent_from_elsewhere_decides_nothing() {
    let (place, log) = queue();
    let served = Served::start(&place, &[]);
    let address = page(&served);
    let path = door(&place);
    let entered = served.request("GET", path.strip_prefix(&address).unwrap(), &[], b"");
    assert_eq!(entered.status, 303, "{entered:?}");
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&served, "a"));
        let id = waits(&place);
        let shown = served.request("GET", "/approvals", &[("Cookie", cookie)], b"");
        let policy = shown.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        let token = shown.body.split("name=\"token\" value=\"").nth(1).unwrap();
        let token = token.split('"').next().unwrap();
        let good = format!("id={id}&decision=approve&token={token}");
        let decide = |origin: &str, site: &str, cookie: &str, body: &str| {
            let headers = [
                ("Origin", origin),
                ("Sec-Fetch-Site", site),
                ("Cookie", cookie),
                ("Content-Type", "application/x-www-form-urlencoded"),
            ];
            let sent = served.request("POST", "/approvals/decide", &headers, body.as_bytes());
            sent.status
        };
        let here = address.as_str();
        for (origin, site, cookie, body) in [
            ("http://evil.example", "cross-site", cookie, good.as_str()),
            ("http://localhost:1", "same-site", cookie, &good),
            ("null", "cross-site", cookie, &good),
            (here, "cross-site", cookie, &good),
            (here, "same-origin", "x=y", &good),
            (
                here,
                "same-origin",
                cookie,
                &format!("id={id}&decision=approve&token=x"),
            ),
            (
                here,
                "same-origin",
                cookie,
                &format!("id={id}&decision=approve"),
            ),
        ] {
            assert_eq!(
                decide(origin, site, cookie, body),
                403,
                "{origin} {site} {body}"
            );
        }
        let got = served.request(
            "GET",
            &format!("/approvals/decide?{good}"),
            &[("Cookie", cookie)],
            b"",
        );
        assert_eq!(got.status, 404);
        let listed = place.json(&["approvals", "list", "--json"]);
        assert_eq!(listed[0]["state"], "waiting", "nothing was decided");
        assert_eq!(log.of("tools/call").len(), 0);
        assert_eq!(decide(here, "same-origin", cookie, &good), 303);
        assert_eq!(text(&waiting.join().unwrap()), "a");
    });
}

#[test]
fn the_page_of_approvals_is_there_before_anybody_has_come() {
    let (place, _) = lab();
    principal(&place, "alice", "");
    let served = Served::start(&place, &[]);
    let get = |path: &str, cookie: &str| served.request("GET", path, &[("Cookie", cookie)], b"");
    assert_eq!(get("/approvals", "").status, 401);
    let path = door(&place);
    let entered = get(path.strip_prefix(&page(&served)).unwrap(), "");
    assert_eq!(entered.status, 303, "{entered:?}");
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let shown = get("/approvals", cookie);
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(shown.body.contains("Nothing waits for you."), "{shown:?}");
    assert_eq!(get("/approvals/other", cookie).status, 404);
}

#[test]
fn a_principal_sees_from_elsewhere_what_is_its_own() {
    let (place, _) = queue();
    let tokens = ["alice", "bob"].map(|name| principal(&place, name, ""));
    place.user(
        "[[policy.rule]]\ntool = 'mcp__lab__keep'\nwhen = \"client == 'bob'\"\ndecision = 'allow'",
    );
    let served = Served::start(&place, &[]);
    let [alice, bob] = tokens
        .each_ref()
        .map(|token| Somebody::with(&served, token));
    // A proxy on this machine has passed it on.
    let get = |path: &str, shown: Option<&Somebody<'_>>| {
        let mut headers = vec![("Via", "1.1 proxy")];
        headers.extend(shown.map(Somebody::shown));
        served.request("GET", path, &headers, b"")
    };
    assert_eq!(get("/", None).status, 404);
    assert_eq!(
        get("/", Some(&Somebody::with(&served, "ogt_x"))).status,
        401
    );
    let before = get("/", Some(&alice));
    assert_eq!(before.status, 200, "{before:?}");
    assert!(before.body.contains("with the first request"), "{before:?}");
    assert_eq!(get("/page.css", Some(&alice)).status, 200);
    for path in ["/metrics", "/approvals", "/approvals/open"] {
        assert_eq!(get(path, Some(&alice)).status, 404, "{path}");
    }

    assert_ne!(bob.call("lab__keep", json!({}))["result"]["isError"], true);
    let call = json!({ "name": "lab__repeat", "arguments": { "text": "word of alice" } });
    let _call = alice.begin("tools/call", call);
    let id = waits(&place);
    let own = get("/", Some(&alice)).body;
    for words in ["alice", "repeat", id.as_str(), "lab"] {
        assert!(own.contains(words), "{words}: {own}");
    }
    let (_, ended) = own.split_once("Ended last").unwrap();
    assert!(ended.contains("No call has ended yet."), "{ended}");
    for words in ["bob", "word of alice", "href=\"/approvals"] {
        assert!(!own.contains(words), "{words}: {own}");
    }
    let own = get("/", Some(&bob)).body;
    assert!(own.contains("Nothing of yours waits."), "{own}");
    let (_, ended) = own.split_once("Ended last").unwrap();
    assert!(ended.contains("keep"), "{ended}");
    assert!(!own.contains("alice") && !own.contains(&id), "{own}");
}

#[test]
fn it_says_how_it_is_in_numbers() {
    let (place, _) = lab();
    let served = Served::start(&place, &["--allow", "*"]);
    served.names();
    assert_eq!(text(&call(&served, "a")), "a");
    served.modern(
        "tools/call",
        json!({ "name": "made-up-name", "arguments": {} }),
    );
    let get = |path: &str| served.request("GET", path, &[], b"");
    assert_eq!(get("/health").body, "ok\n");
    let ready = get("/ready");
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({ "ready": true, "why": [] }))
    );
    let metrics = get("/metrics");
    let kind = metrics.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    for line in [
        "outrigger_calls_total{server=\"lab\",outcome=\"completed\"} 1",
        "outrigger_calls_total{server=\"\",outcome=\"rejected\"} 1",
        "outrigger_decisions_total{decision=\"allowed\",by=\"policy\"} 1",
        "outrigger_call_duration_seconds_count{server=\"lab\"} 1",
        "outrigger_server_state{server=\"lab\",state=\"ready\"} 1",
        "outrigger_server_starts_total{server=\"lab\"} 1",
        "outrigger_calls_in_flight 0",
        "outrigger_ready 1",
        "# EOF",
    ] {
        assert!(
            metrics.body.lines().any(|it| it == line),
            "no `{line}`: {}",
            metrics.body
        );
    }
    assert!(!metrics.body.contains("made-up-name"), "{}", metrics.body);
    // What another site would have a browser ask for.
    let headers = [("Host", "evil.example")];
    for path in ["/", "/metrics", "/approvals", "/ready"] {
        assert_eq!(
            served.request("GET", path, &headers, b"").status,
            403,
            "{path}"
        );
    }
}

#[test]
fn asked_to_end_it_lets_calls_end_and_takes_no_more() {
    let (place, log) = queue();
    let served = Served::start(&place, &[]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&served, "a"));
        let id = waits(&place);
        served.ask_to_end();
        let not_ready = || served.request("GET", "/ready", &[], b"").status == 503;
        until("it is not ready any more", not_ready);
        let ready = served.request("GET", "/ready", &[], b"").json();
        assert_eq!(ready["why"], json!(["the gateway is ending"]));
        let refused = call(&served, "b");
        assert!(
            refused["error"]["message"]
                .as_str()
                .unwrap()
                .starts_with("busy: the gateway is ending"),
            "{refused}"
        );
        let approved = place.run(&["approvals", "approve", &id]);
        assert_eq!(approved.code, 0, "{approved:?}");
        assert_eq!(text(&waiting.join().unwrap()), "a");
    });
    assert_eq!(log.of("tools/call").len(), 1);
}

//! Signing in at a server that wants a token: in a browser here, in one elsewhere, and out again.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, Ran, fixture, until};
use crate::scripted::scripted;

/// The protected server; it ends with this.
struct Protected {
    child: Child,
    port: u16,
}

impl Protected {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .arg(fixture("protected_server.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        Self {
            child,
            port: line.trim().parse().unwrap(),
        }
    }

    /// A place where it is configured as `wiki`.
    fn place(&self) -> Place {
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        Place::with_servers(&json!({ "wiki": { "url": url }, "files": { "command": "true" } }))
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What a GET of an address on loopback is answered with.
fn get(address: &str) -> String {
    let (host, path) = address
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Where a page leads.
fn led_to(page: &str) -> String {
    let answer = get(page);
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("Location: "));
    line.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// `outrigger login` while it waits, and the page that it shows.
fn waiting(place: &Place, words: &[&str]) -> (Child, String) {
    let mut child = place
        .command(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut page = String::new();
    while !page.starts_with("  http") {
        page.clear();
        assert_ne!(err.read_line(&mut page).unwrap(), 0, "no page was shown");
    }
    child.stderr = Some(err.into_inner());
    (child, page.trim().to_owned())
}

#[test]
fn without_a_token_nobody_is_sent_anywhere() {
    let server = Protected::start();
    let place = server.place();
    let ran = place.run(&["tools", "wiki"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    let said = ran.out + &ran.err;
    assert!(
        said.contains("sign in with `outrigger login wiki`"),
        "{said}"
    );
    assert!(said.contains("wiki wants you to sign in"), "{said}");
    let shown = place.run(&["doctor"]);
    assert_eq!(shown.code, 4, "{shown:#?}");
    assert!(
        shown.out.contains("AUTH wiki wants you to sign in"),
        "{shown:#?}"
    );
    assert!(shown.out.contains("outrigger login wiki"), "{shown:#?}");
    let listed = place.run(&["tools", "wiki", "--json"]).json();
    assert_eq!(listed[0]["state"], "auth_required");
    assert!(!place.root.join("state/outrigger/oauth").exists());
}

#[test]
fn the_address_is_pasted_and_the_token_is_kept() {
    let server = Protected::start();
    let place = server.place();
    let (mut login, page) = waiting(&place, &["login", "wiki", "--no-browser"]);
    assert!(
        page.contains("code_challenge_method=S256") && page.contains("scope=read"),
        "{page}"
    );
    let back = led_to(&page);
    writeln!(login.stdin.take().unwrap(), "{back}").unwrap();
    let ran = Ran::of(login);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:#?}");
    assert!(
        ran.err.contains("signed in to `wiki` at http://127.0.0.1:"),
        "{ran:#?}"
    );
    let called = place.run(&["call", "wiki", "echo", "--allow", "*"]);
    assert_eq!(
        (called.code, called.out.trim()),
        (0, "heard"),
        "{called:#?}"
    );
    let folder = place.root.join("state/outrigger/oauth");
    assert_eq!(
        fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let grant = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .find(|text| text.contains("access-"))
        .unwrap();
    let told = place.run(&["call", "wiki", "whoami", "--allow", "*"]);
    assert_eq!(told.out.trim(), "Bearer [redacted]", "{told:#?}");
    let journal = fs::read(place.journal()).unwrap();
    let journal = String::from_utf8_lossy(&journal);
    assert!(
        !journal.contains("access-") && !journal.contains("refresh-"),
        "{grant}"
    );
    let out = place.run(&["logout", "wiki"]);
    assert_eq!(
        (out.code, out.err.trim()),
        (0, "`wiki`: signed out; the token was revoked")
    );
    let again = place.run(&["logout", "wiki"]);
    assert_eq!(again.err.trim(), "`wiki`: nobody was signed in");
    assert_eq!(place.run(&["tools", "wiki"]).code, 4);
}

/// Signs in, from the page to the end.
fn sign_in(place: &Place) {
    let (mut login, page) = waiting(place, &["login", "wiki", "--no-browser"]);
    writeln!(login.stdin.take().unwrap(), "{}", led_to(&page)).unwrap();
    let ran = Ran::of(login);
    assert_eq!(ran.code, 0, "{ran:#?}");
}

#[test]
fn a_login_that_ends_in_the_middle_is_told_and_made_up_for() {
    let server = Protected::start();
    let place = Arc::new(Place::new());
    let (lab, _log) = scripted(&place, "lab");
    let address = format!("http://127.0.0.1:{}", server.port);
    place.servers(&json!({ "wiki": { "url": format!("{address}/mcp") }, "lab": lab }));
    sign_in(&place);
    let here = place.clone();
    // No two the same: a model that repeats itself is told so, which is not what this is about.
    let wiki = |number: usize| ("mcp__wiki__echo", json!({ "n": number }));
    let lab = || ("mcp__lab__repeat", json!({ "text": "alive" }));
    let model = Model::answering(move |number, request| {
        let results = request.results().join("\n");
        match number {
            0 => Turn::calls([wiki(number)]),
            1 => {
                assert_eq!(results, "[data from wiki]\nheard");
                get(&format!("{address}/lock"));
                Turn::calls([wiki(number)])
            }
            2 => {
                assert!(results.contains("`outrigger login wiki`"), "{results}");
                Turn::calls([wiki(number), lab()])
            }
            3 => {
                assert!(results.contains("`outrigger login wiki`"), "{results}");
                assert!(results.ends_with("\nalive"), "{results}");
                sign_in(&here);
                until("the server is used again", || {
                    let told = here.last_run();
                    told.matches("server wiki: 2 tools").count() == 2
                });
                Turn::calls([wiki(number)])
            }
            _ => {
                assert_eq!(results, "[data from wiki]\nheard");
                Turn::text("It is there again.")
            }
        }
    });
    model.serves(&place);
    let ran = place.run(&["ask", "Is the wiki there?", "--allow", "*"]);
    assert_eq!(
        (ran.code, ran.out.trim()),
        (0, "It is there again."),
        "{ran:#?}"
    );
    assert!(
        ran.err
            .contains("hint: sign in with `outrigger login wiki`"),
        "{}",
        ran.err
    );
    assert!(!place.last_run().contains("server wiki: ended"));
    place.assert_nothing_runs();
}

#[test]
fn who_signs_in_while_a_run_goes_on_need_not_start_it_again() {
    let server = Protected::start();
    let place = Arc::new(server.place());
    let here = place.clone();
    let model = Model::answering(move |number, request| {
        if number == 0 {
            let tools = request.body["tools"].to_string();
            assert!(!tools.contains("mcp__wiki__"), "{tools}");
            sign_in(&here);
        }
        if request.results().join("").ends_with("heard") {
            return Turn::text("Done.");
        }
        if request.body["tools"]
            .to_string()
            .contains("mcp__wiki__echo")
        {
            return Turn::calls([("mcp__wiki__echo", json!({}))]);
        }
        thread::sleep(Duration::from_millis(400));
        Turn::calls([("mcp__time__current_time", json!({}))])
    });
    model.serves(&place);
    let ran = place.run(&["ask", "Ask the wiki", "--allow", "*"]);
    assert_eq!((ran.code, ran.out.trim()), (0, "Done."), "{ran:#?}");
    let results = model.last_results().join("");
    assert!(!results.contains("started again"), "{results}");
}

#[test]
fn the_browser_here_is_opened_and_leads_back_by_itself() {
    let server = Protected::start();
    let place = server.place();
    let opened = place.root.join("opened");
    let script = format!(
        "#!/bin/sh\nprintf %s \"$1\" > {0}.new\nmv {0}.new {0}\n",
        opened.display()
    );
    let program = place.write("bin/xdg-open", script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", place.root.join("bin").display());
    let login = place
        .command(&["login", "wiki"])
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a browser is opened", || opened.exists());
    let back = led_to(&fs::read_to_string(&opened).unwrap());
    let forged = back.replace("state=", "state=x");
    assert!(get(&forged).starts_with("HTTP/1.1 404"));
    assert!(get(&back).contains("Go back to the terminal"));
    let ran = Ran::of(login);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(place.run(&["tools", "wiki"]).code, 0);
}

#[test]
fn an_answer_of_another_visit_is_refused() {
    let server = Protected::start();
    let place = server.place();
    let (mut login, page) = waiting(&place, &["login", "wiki", "--no-browser"]);
    let back = led_to(&page).replace("state=", "state=x");
    writeln!(login.stdin.take().unwrap(), "{back}").unwrap();
    let ran = Ran::of(login);
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(
        ran.err.contains("another `state` than was sent"),
        "{ran:#?}"
    );
}

#[test]
fn an_interrupt_ends_the_waiting() {
    let server = Protected::start();
    let place = server.place();
    let (login, _) = waiting(&place, &["login", "wiki", "--no-browser"]);
    let pid = login.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(Ran::of(login).code, 130);
}

#[test]
fn what_cannot_be_signed_in_at_is_said() {
    let server = Protected::start();
    let place = server.place();
    let ran = place.run(&["login", "files"]);
    insta::assert_snapshot!(format!("{} {}", ran.code, ran.err), @r"
    2 error: the server `files` is not reached over HTTP, and nobody signs in to it
    hint: what it needs to know goes into its `env`
    ");
    let ran = place.run(&["login", "wikki"]);
    insta::assert_snapshot!(format!("{} {}", ran.code, ran.err), @r"
    2 error: there is no server `wikki`
    hint: configured are `files`, `time`, `wiki`, `workspace`
    ");
    drop(server);
    let ran = place.run(&["login", "wiki", "--no-browser"]);
    insta::assert_snapshot!(place.tidy(&format!("{} {}", ran.code, ran.err)), @"4 error: signing in to `wiki` failed: cannot reach http://127.0.0.1:PORT/mcp: Connection refused (os error 111)");
}

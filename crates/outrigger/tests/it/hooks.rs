//! Hooks as real programs and a real address, through the built program.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::place::{Place, Ran, fixture};
use crate::scripted::{Log, lab};

/// A lab, and hooks `(event, word, more keys)` of `hook.py`.
fn hooked(hooks: &[(&str, &str, &str)]) -> (Place, Log, PathBuf) {
    let (place, server) = lab();
    let log = place.root.join("hooks.log");
    for (event, word, more) in hooks {
        place.user(&format!(
            "[[hooks.{event}]]\ncommand = ['python3', '{}', '{}', '{word}']\n{more}",
            fixture("hook.py"),
            log.display()
        ));
    }
    (place, server, log)
}

fn heard(log: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn repeat(place: &Place, more: &[&str]) -> Ran {
    place.run(&[&["call", "lab", "repeat", "text=hello"], more].concat())
}

#[test]
fn a_hook_says_no() {
    for (word, said) in [
        ("deny", "not before noon"),
        ("block", "blocked by exit code"),
        ("fail", "the hook ended with exit status 1 (no such table)"),
        (
            "garbage",
            "the hook answered with something that is no JSON object: `yes, sure`",
        ),
    ] {
        let (place, server, log) = hooked(&[("before_call", word, "")]);
        let ran = repeat(&place, &["--allow", "*"]);
        assert_eq!(ran.code, 3, "{word}: {ran:#?}");
        let expected =
            format!("denied by the before_call hook at /config/outrigger/outrigger.toml:1: {said}");
        assert!(
            place.tidy(&ran.err).contains(&expected),
            "{word}: {}",
            ran.err
        );
        assert_eq!(server.of("tools/call").len(), 0, "{word}");
        assert_eq!(heard(&log)[0]["arguments"], json!({ "text": "hello" }));
    }
}

#[test]
fn a_hook_that_hangs_is_ended_with_all_it_started() {
    let (place, server, _) = hooked(&[("before_call", "hang", "timeout = '2s'")]);
    let ran = repeat(&place, &["--allow", "*"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert!(
        ran.err.contains("the hook gave no answer within 2.0 s"),
        "{}",
        ran.err
    );
    assert_eq!(server.of("tools/call").len(), 0);
    crate::place::until("all that the hook started is gone", || {
        place.processes().is_empty()
    });
}

#[test]
fn a_hook_changes_arguments_and_answers_for_the_person() {
    let (place, server, _) = hooked(&[
        ("before_call", "shout", "tool = 'mcp__lab__rep*'"),
        ("before_call", "deny", "tool = 'mcp__lab__keep'"),
    ]);
    let ran = repeat(&place, &[]);
    assert_eq!((ran.code, ran.out.trim()), (0, "HELLO"), "{ran:#?}");
    assert_eq!(
        server.of("tools/call")[0]["params"]["arguments"],
        json!({ "text": "HELLO" })
    );
    let run = place.tidy(&place.last_run());
    assert!(
        run.contains("call 1: mcp__lab__repeat {\"text\": \"HELLO\"}"),
        "{run}"
    );
    assert!(
        run.contains("said allow, and changed the arguments in"),
        "{run}"
    );
    assert!(
        run.contains("call 1: allowed by a hook (the before_call hook at"),
        "{run}"
    );
    place.assert_nothing_runs();
}

#[test]
fn a_deny_of_policy_stands_over_a_hook() {
    let (place, server, _) = hooked(&[("before_call", "allow", "")]);
    place.user("[policy.tools]\n'mcp__lab__*' = 'deny'");
    let ran = repeat(&place, &["--allow", "*"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert_eq!(server.of("tools/call").len(), 0);
}

/// What a model would read about the call.
fn read(place: &Place) -> String {
    let ran = repeat(place, &["--allow", "*", "--json"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    ran.json()["words"].as_str().unwrap().to_owned()
}

#[test]
fn after_a_call_a_hook_adds_and_hides() {
    let (place, _, log) = hooked(&[("after_call", "note", "env.PLACE = 'the book'")]);
    assert_eq!(read(&place), "noted in the book\n[data from lab]\nhello");
    assert_eq!(heard(&log)[0]["text"], "hello");
    let (place, _, _) = hooked(&[("after_call", "hide", "")]);
    assert_eq!(read(&place), "[data from lab]\n(hidden)");
    let run = place.last_run();
    assert!(run.contains("and changed what the model reads"), "{run}");
    let (place, _, _) = hooked(&[("after_call", "fail", "")]);
    let words = read(&place);
    assert!(
        words.starts_with("The call was made, and its result is kept back")
            && !words.contains("hello"),
        "{words}"
    );
}

#[test]
fn hooks_hear_of_the_session_and_may_refuse_it() {
    let (place, server, log) = hooked(&[("session_start", "garbage", "")]);
    let ran = repeat(&place, &["--allow", "*"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert!(
        ran.err
            .contains("does not let the run begin: the hook answered"),
        "{}",
        ran.err
    );
    assert_eq!(server.heard().len(), 0, "no server was started");
    assert_eq!(heard(&log)[0]["command"], "call");
    assert!(
        place.last_run().contains("ended: refused"),
        "{}",
        place.last_run()
    );

    let (place, _, log) = hooked(&[("session_start", "quiet", ""), ("session_end", "fail", "")]);
    let ran = repeat(&place, &["--allow", "*"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "hello\n"), "{ran:#?}");
    assert!(
        ran.err.contains("warning: the session_end hook at"),
        "{}",
        ran.err
    );
    let events: Vec<_> = heard(&log)
        .iter()
        .map(|input| input["event"].clone())
        .collect();
    assert_eq!(events, ["session_start", "session_end"]);
    assert_eq!(heard(&log)[1]["status"], "done");
}

#[test]
fn hooks_of_a_project_are_not_run_until_it_is_trusted() {
    let (place, _, _) = hooked(&[]);
    let mark = place.root.join("ran");
    place.write(
        "project/.outrigger/outrigger.toml",
        format!(
            "[[hooks.session_start]]\ncommand = ['touch', '{}']",
            mark.display()
        ),
    );
    let words = ["call", "time", "current_time"];
    let ran = place.run_wary(&words);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.err.contains("hook `session_start`"), "{}", ran.err);
    assert!(!mark.exists());
    let shown = place.run_wary(&["config", "show"]).out;
    assert!(
        shown.contains("# Not run: it comes with this folder"),
        "{shown}"
    );
    let ran = place.run(&words);
    assert_eq!((ran.code, mark.exists()), (0, true), "{ran:#?}");
}

#[test]
fn a_hook_that_cannot_be_read_lets_nothing_run() {
    let (place, server, _) = hooked(&[]);
    place.user("[[hooks.before_call]]\ncommand = ['x']\ntol = 'x'");
    let ran = repeat(&place, &["--allow", "*"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(
        ran.err
            .contains("unknown key `tol` in `hooks.before_call[0]`")
            && ran.err.contains("did you mean `tool`?"),
        "{}",
        ran.err
    );
    assert_eq!(server.heard().len(), 0);
}

/// Answers each request with a status and a body, and passes on what it was sent.
fn address(answers: Vec<(u16, &'static str)>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut part = [0; 4096];
            loop {
                let count = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..count]);
                let text = String::from_utf8_lossy(&request);
                let Some((head, body)) = text.split_once("\r\n\r\n") else {
                    continue;
                };
                let length = head
                    .lines()
                    .find_map(|line| {
                        line.to_lowercase()
                            .strip_prefix("content-length:")
                            .map(|n| n.trim().parse::<usize>().unwrap())
                    })
                    .unwrap();
                if body.len() >= length {
                    break;
                }
            }
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
            send.send(String::from_utf8(request).unwrap()).ok();
        }
    });
    (url, receive)
}

#[test]
fn an_address_is_a_hook_too() {
    let (url, requests) = address(vec![
        (200, r#"{"decision":"allow"}"#),
        (200, r#"{"decision":"deny","reason":"closed today"}"#),
        (500, ""),
    ]);
    let (place, server, _) = hooked(&[]);
    place.user(&format!(
        "[[hooks.before_call]]\nurl = '{url}'\nheaders.Authorization = 'Bearer ${{HOOK_TOKEN}}'"
    ));
    let run = || {
        place.run_with(&["call", "lab", "repeat", "text=hello"], |command| {
            command.env("HOOK_TOKEN", "hook-token-12345");
        })
    };
    let ran = run();
    assert_eq!((ran.code, ran.out.as_str()), (0, "hello\n"), "{ran:#?}");
    let request = requests.recv().unwrap();
    assert!(request.starts_with("POST /hook "), "{request}");
    assert!(
        request.contains("authorization: Bearer hook-token-12345"),
        "{request}"
    );
    assert!(
        request.contains(r#""tool":"mcp__lab__repeat""#),
        "{request}"
    );
    for why in [
        "closed today",
        "the hook answered with the HTTP status 500",
        "the hook cannot be reached",
    ] {
        let ran = run();
        assert_eq!(ran.code, 3, "{ran:#?}");
        assert!(ran.err.contains(why), "{why}: {}", ran.err);
        requests.recv().ok();
    }
    assert_eq!(server.of("tools/call").len(), 1);
}

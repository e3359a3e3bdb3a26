//! `--wire`: what crossed the wire, a JSON document a line.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::place::{Place, Ran, fixture};
use crate::scripted::lab;

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Direction and method of each message, or what stood there.
fn brief(lines: &[Value]) -> String {
    let brief = lines.iter().map(|line| {
        let message = &line["message"];
        let what = match (&message["method"], &line["unparsed"], &line["note"]) {
            (Value::String(method), ..) => method.clone(),
            (_, Value::String(text), _) => format!("unparsed: {text}"),
            (_, _, Value::String(note)) => format!("note: {note}"),
            _ if message.get("result").is_some() => "result".to_owned(),
            _ => "error".to_owned(),
        };
        format!("{} {what}", line["direction"].as_str().unwrap())
    });
    brief.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_call_is_written_whole_in_order_and_without_secrets() {
    let place = Place::new();
    let log = place.root.join("lab.log");
    let server = json!({ "command": "python3", "args": [fixture("asking_server.py"), log], "env": { "TOKEN": "tell-nobody-4711" } });
    place.servers(&json!({ "lab": server }));
    let ran = place.run(&[
        "call",
        "lab",
        "roots",
        "--allow",
        "*",
        "--wire",
        "trace.jsonl",
    ]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let file = place.project().join("trace.jsonl");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("tell-nobody-4711"), "{text}");
    let lines = lines(&text);
    insta::assert_snapshot!(brief(&lines), @r"
    out server/discover
    in unparsed: starting up
    in unparsed: token [redacted]
    in error
    out initialize
    in result
    out notifications/initialized
    out tools/list
    in result
    out tools/call
    in roots/list
    out error
    in result
    in note: the server process ended (exit status 0)
    ");
    for line in &lines {
        assert_eq!(
            (&line["server"], &line["transport"]),
            (&json!("lab"), &json!("stdio"))
        );
        let time = line["time"].as_str().unwrap();
        let parsed: jiff::Timestamp = time.parse().unwrap();
        assert_eq!(format!("{parsed:.3}"), time);
    }
    // What was there before is replaced, not added to.
    let again = place.run(&["tools", "lab", "--wire", "trace.jsonl"]);
    assert_eq!(again.code, 0, "{again:#?}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("tools/list") && !text.contains("tools/call"),
        "{text}"
    );
}

#[test]
fn secrets_in_messages_are_taken_out_and_they_stay_json() {
    let (place, _log) = lab();
    let entry = fs::read_to_string(place.project().join(".mcp.json")).unwrap();
    let mut entry: Value = serde_json::from_str(&entry).unwrap();
    entry["mcpServers"]["lab"]["env"] = json!({ "TOKEN": "tell-nobody-4711" });
    place.servers(&entry["mcpServers"]);
    let ran = place.run(&["call", "lab", "tell_secret", "--allow", "*", "--wire", "-"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(!ran.err.contains("tell-nobody-4711"), "{}", ran.err);
    let told = ran.err.lines().filter(|line| line.starts_with('{'));
    let told: Vec<Value> = told
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let answer = told.last().unwrap();
    let text = told
        .iter()
        .rfind(|line| line["message"]["result"]["content"].is_array())
        .unwrap_or(answer);
    assert_eq!(
        text["message"]["result"]["content"][0]["text"],
        "started with [redacted]"
    );
}

#[test]
fn every_command_that_connects_takes_it() {
    let (place, _log) = lab();
    for words in [&["doctor"][..], &["tools"], &["inspect", "lab"]] {
        let words = [words, &["--wire", "-"]].concat();
        let ran = place.run(&words);
        assert_eq!(ran.code, 0, "{ran:#?}");
        assert!(
            ran.err.contains(r#""server":"lab","link":"#)
                && ran.err.contains(r#""method":"tools/list""#),
            "{words:?}: {}",
            ran.err
        );
    }
}

#[test]
fn http_has_status_and_headers_and_no_keys() {
    let server = crate::servers::Servers::installed().http("http_mcp.py");
    let place = Place::new();
    place.servers(&json!({
        "web": { "type": "http", "url": server.url, "headers": { "Authorization": "Bearer tell-nobody-4711", "X-Key": "k" } },
    }));
    let ran = place.run(&["tools", "web", "--wire", "trace.jsonl"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let text = fs::read_to_string(place.project().join("trace.jsonl")).unwrap();
    let lower = text.to_lowercase();
    assert!(
        !lower.contains("authorization") && !lower.contains("x-key"),
        "{text}"
    );
    assert!(!text.contains("tell-nobody-4711"), "{text}");
    let lines = lines(&text);
    let out = lines
        .iter()
        .find(|line| line["direction"] == "out")
        .unwrap();
    assert_eq!(out["http"]["method"], "POST");
    assert_eq!(out["http"]["headers"]["content-type"], "application/json");
    let number = &out["http"]["exchange"];
    assert!(
        lines.iter().any(|line| line["direction"] == "in"
            && line["http"]["exchange"] == *number
            && line["http"]["status"].is_u64()),
        "{text}"
    );
}

#[track_caller]
fn refused(ran: &Ran, word: &str) {
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(
        ran.err.contains("of `--wire` cannot be written") && ran.err.contains(word),
        "{ran:#?}"
    );
}

#[test]
fn a_place_that_is_no_new_file_ends_the_command_before_anything_starts() {
    let (place, log) = lab();
    let call = |wire: &str| place.run(&["call", "lab", "keep", "--allow", "*", "--wire", wire]);
    let kept = place.write("kept.txt", "mine");
    symlink(&kept, place.project().join("link")).unwrap();
    refused(&call("link"), "no regular file");
    refused(&call("."), "no regular file");
    refused(&call("no/such/folder"), "No such file");
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine");
    assert!(log.heard().is_empty());
}

//! `scripted-model` as a process: prints where it is, answers, records, ends with its input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

/// Every test of the program begins like this.
#[allow(
    clippy::disallowed_methods,
    reason = "the program under test needs no confinement"
)]
fn start(arguments: &[&str]) -> Child {
    std::process::Command::new(env!("CARGO_BIN_EXE_scripted-model"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn post(base_url: &str, path: &str, body: &Value) -> String {
    let host = base_url
        .trim_start_matches("http://")
        .trim_end_matches("/v1");
    let mut stream = TcpStream::connect(host).unwrap();
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "POST /v1/{path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_script_is_served_until_standard_input_closes() {
    let folder = tempfile::tempdir().unwrap();
    let (script, record) = (
        folder.path().join("script.json"),
        folder.path().join("record.jsonl"),
    );
    std::fs::write(&script, r#"{ "turns": [{ "text": "${question}: 42" }, { "trouble": { "status": { "status": 500, "message": "Oops" } } }] }"#).unwrap();
    let mut child = start(&[script.to_str().unwrap(), record.to_str().unwrap()]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let base_url = line.trim();
    let ask = json!({ "messages": [{ "role": "user", "content": "6 x 7" }] });
    let answer = post(base_url, "chat/completions", &ask);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains(r#""content":"6 x 7""#) && answer.contains("[DONE]"),
        "{answer}"
    );
    let answer = post(
        base_url,
        "messages",
        &json!({ "max_tokens": 1, "messages": [] }),
    );
    assert!(
        answer.starts_with("HTTP/1.1 500") && answer.contains("api_error"),
        "{answer}"
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let recorded = std::fs::read_to_string(record).unwrap();
    let requests: Vec<Value> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((requests.len(), &requests[0]["body"]), (2, &ask));
    assert_eq!(requests[1]["protocol"], "anthropic");
}

#[test]
fn a_script_that_cannot_be_read_names_the_file() {
    let child = start(&["no-such-script.json"]);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("no-such-script.json"),
        "{said}"
    );
}

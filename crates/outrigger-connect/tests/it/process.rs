//! Servers that are children.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outrigger_connect::{ConnectErrorKind, Framing, ServerSpec, StdioSpec, TransportSpec};

use crate::peer::{call, connect, spec};

/// The beginning of a server in Python: `read()` gives a message, `answer(m)` a good answer to it.
const KIT: &str = r#"
import json, os, signal, sys, time
def read():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)
def answer(m):
    method = m.get("method")
    if method == "initialize":
        r = {"result": {"protocolVersion": "2025-06-18", "capabilities": {}}}
    elif method == "tools/call":
        r = {"result": {"pid": os.getpid()}}
    else:
        r = {"error": {"code": -32601, "message": "no"}}
    return json.dumps({"jsonrpc": "2.0", "id": m.get("id"), **r})
def serve():
    while True:
        m = read()
        if "id" in m:
            print(answer(m), flush=True)
"#;

pub(crate) fn python(script: &str) -> ServerSpec {
    let script = format!("{KIT}{script}");
    stdio("python3", &["-c", &script], Framing::Auto)
}

fn stdio(command: &str, args: &[&str], framing: Framing) -> ServerSpec {
    // As `cargo test` was started: the tests need the Python that is there.
    let path = option_env!("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    spec(TransportSpec::Stdio(StdioSpec {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: BTreeMap::from([("PATH".to_owned(), path.to_owned())]),
        cwd: "/".into(),
        framing,
    }))
}

#[tokio::test]
async fn a_child_serves_and_ends_with_its_input() {
    let connection = connect(&python("serve()")).await.unwrap();
    call(&connection).await.unwrap();
    let report = connection.close().await;
    assert_eq!(
        (report.exit.as_deref(), report.forced),
        (Some("exit status 0"), None)
    );
}

#[tokio::test]
async fn a_child_that_exits_on_an_unknown_method_is_started_again() {
    let script = "m = read()\nif m['method'] != 'initialize': sys.exit('unknown method')\nprint(answer(m), flush=True)\nserve()";
    let connection = connect(&python(script)).await.unwrap();
    assert_eq!(connection.peer().protocol_version, "2025-06-18");
}

#[tokio::test]
async fn a_child_that_exits_at_once_has_its_last_words_told() {
    let failed = connect(&python(
        "sys.stderr.write('fatal: no DATABASE_URL\\n'); sys.exit(3)",
    ))
    .await
    .unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::StartupFailed);
    assert!(
        failed.message.ends_with(
            "ended before it answered `initialize`: exit status 3, both times it was started"
        ),
        "{failed}"
    );
    assert_eq!(failed.stderr_tail, ["fatal: no DATABASE_URL"]);
}

#[tokio::test]
async fn a_child_that_stops_reading_before_it_dies_has_its_last_words_told_too() {
    // What is written to it breaks the pipe before anybody knows that the process is about to end.
    let script = "m = read()\nos.close(0)\nprint(answer(m), flush=True)\ntime.sleep(0.2)\n\
                  sys.stderr.write('fatal: the licence has expired\\n')\nsys.stderr.flush()\nos._exit(3)";
    let failed = connect(&python(script)).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::StartupFailed);
    assert!(
        failed
            .message
            .ends_with("ended before it answered `initialize`: exit status 3"),
        "{failed}"
    );
    assert_eq!(failed.stderr_tail, ["fatal: the licence has expired"]);
}

#[tokio::test]
async fn a_call_that_breaks_the_pipe_says_how_the_child_ended() {
    let script = "m = read(); print(answer(m), flush=True)\nm = read(); os.close(0); print(answer(m), flush=True)\n\
                  time.sleep(0.3)\nos._exit(7)";
    let connection = connect(&python(script)).await.unwrap();
    let failed = call(&connection).await.unwrap_err();
    assert!(
        failed
            .to_string()
            .ends_with("the server process ended (exit status 7)"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named_with_where_it_was_looked_for() {
    let failed = connect(&stdio("no-such-server", &[], Framing::Auto))
        .await
        .unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::StartupFailed);
    assert!(
        failed
            .message
            .starts_with("`no-such-server` was not found in PATH ("),
        "{failed}"
    );
}

#[tokio::test]
async fn headers_frame_both_ways() {
    let script = r#"
def headers():
    n = 0
    while True:
        line = sys.stdin.buffer.readline().strip()
        if not line: return n
        if line.lower().startswith(b"content-length:"): n = int(line.split(b":")[1])
while True:
    m = json.loads(sys.stdin.buffer.read(headers()))
    if "id" in m:
        body = answer(m).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        sys.stdout.buffer.flush()
"#;
    let script = format!("{KIT}{script}");
    let connection = connect(&stdio("python3", &["-c", &script], Framing::ContentLength))
        .await
        .unwrap();
    call(&connection).await.unwrap();
}

#[tokio::test]
async fn a_silent_child_is_told_of_and_gone() {
    let mut spec = python(
        "print('hello', flush=True)\nprint(os.getpid(), file=sys.stderr, flush=True)\nwhile True: read()",
    );
    spec.deadlines.start = Duration::from_secs(2);
    let failed = connect(&spec).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::Timeout);
    assert!(
        failed
            .hints
            .iter()
            .any(|hint| hint.contains("1 lines on its standard output")),
        "{:?}",
        failed.hints
    );
    let pid = failed
        .stderr_tail
        .iter()
        .find_map(|line| line.parse::<u32>().ok())
        .unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{pid}/stat")).exists());
}

#[tokio::test]
async fn closing_is_bounded_whatever_the_child_ignores() {
    let mut spec = python(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntry: serve()\nfinally: time.sleep(600)",
    );
    spec.deadlines.close = Duration::from_secs(2);
    let connection = connect(&spec).await.unwrap();
    let begun = Instant::now();
    let report = connection.close().await;
    assert_eq!(report.forced, Some("killed"));
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_child_whose_pipes_live_on_is_gone_all_the_same() {
    let script = "import subprocess\nsubprocess.Popen(['sleep', '30'])\nm = read(); print(answer(m), flush=True)\n\
                  m = read(); print(answer(m), flush=True)\nread()\nread()\nos._exit(7)";
    let connection = connect(&python(script)).await.unwrap();
    let failed = call(&connection).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the connection ended before the answer: the server process ended (exit status 7)"
    );
    connection.close().await;
}

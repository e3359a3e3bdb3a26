//! Connections of ours, and calls over them.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use outrigger_connect::{
    CallOptions, Connection, Connector, Deadlines, Framing, HttpSpec, Limits, Protocol, ServerName,
    ServerSpec, StdioSpec, TransportSpec,
};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::OUTRIGGER;

async fn connect(transport: TransportSpec, supervised: bool) -> Connection {
    let spec = ServerSpec {
        name: ServerName::new("peer").unwrap(),
        transport,
        protocol: Protocol::Auto,
        versions: None,
        deadlines: Deadlines::default(),
        limits: Limits::default(),
    };
    let supervisor = supervised.then(|| vec![OUTRIGGER.into(), "__supervise".into()]);
    let connector = Connector::new("0", supervisor);
    Box::pin(connector.connect(&spec, &CancellationToken::new()))
        .await
        .unwrap()
}

/// Outrigger as a server over stdio.
pub(crate) async fn stdio(words: &[&str], supervised: bool) -> Connection {
    program(OUTRIGGER, words, supervised).await
}

/// A program as a server over stdio.
pub(crate) async fn program(command: &str, words: &[&str], supervised: bool) -> Connection {
    let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let transport = TransportSpec::Stdio(StdioSpec {
        command: command.to_owned(),
        args: words.iter().map(|word| (*word).to_owned()).collect(),
        env,
        cwd: std::env::temp_dir(),
        framing: Framing::Auto,
    });
    connect(transport, supervised).await
}

/// A server at an address.
pub(crate) async fn http(url: &str) -> Connection {
    connect(
        TransportSpec::Http(HttpSpec::new(url.parse().unwrap())),
        false,
    )
    .await
}

/// One call of `echo`.
pub(crate) async fn call(connection: &Connection) -> Duration {
    let arguments = RawValue::from_string(r#"{"text":"hello"}"#.to_owned()).unwrap();
    let clock = Instant::now();
    connection
        .call_tool("echo", &arguments, CallOptions::default())
        .await
        .unwrap();
    clock.elapsed()
}

/// The processes that a process has started and that still run.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
    {
        let list = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        found.extend(
            list.split_whitespace()
                .map(|word| word.parse::<u32>().unwrap()),
        );
    }
    found
}

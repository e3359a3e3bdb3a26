//! A client that writes lines and reads lines, and knows nothing else.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use outrigger_servers::{BuiltIn, FixedClock, ServeError, ServeOptions, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinSet,
    time::timeout,
};

/// Far more than any answer takes: it ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// 2026-11-30T12:00:00Z.
const NOW: u64 = 1_796_040_000;

pub(crate) struct Client {
    writer: Option<WriteHalf<DuplexStream>>,
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinSet<Result<(), ServeError>>,
    pub(crate) workspace: TempDir,
}

impl Client {
    pub(crate) fn of(server: BuiltIn) -> Self {
        let workspace = TempDir::new().unwrap();
        let mut options = ServeOptions::new(workspace.path());
        options.clock = Arc::new(FixedClock(
            SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
        ));
        options.time_zone = Some("UTC".to_owned());
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let mut task = JoinSet::new();
        task.spawn(serve(server, options, reader, writer));
        let (reader, writer) = tokio::io::split(ours);
        Self {
            writer: Some(writer),
            reader: BufReader::new(reader).lines(),
            server: task,
            workspace,
        }
    }

    /// A client that has done the handshake of 2025-11-25.
    pub(crate) async fn legacy(server: BuiltIn) -> Self {
        let mut client = Self::of(server);
        let answer = client.ask(initialize("2025-11-25")).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        client
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        client
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.writer
            .as_mut()
            .unwrap()
            .write_all(bytes)
            .await
            .unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let line = timeout(PATIENCE, self.reader.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().expect("the server ended")).unwrap()
    }

    pub(crate) async fn ask(&mut self, message: Value) -> Value {
        self.send(&message).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], message["id"], "{answer}");
        answer
    }

    /// Result of a call in the era of the session.
    pub(crate) async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask(call(7, name, arguments)).await;
        answer["result"].clone()
    }

    /// Ends the input; how the server ended, and what it still had to say.
    pub(crate) async fn end(mut self) -> (Result<(), ServeError>, Vec<Value>) {
        let mut writer = self.writer.take().unwrap();
        writer.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = timeout(PATIENCE, self.reader.next_line())
            .await
            .unwrap()
            .unwrap()
        {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        let ended = timeout(PATIENCE, self.server.join_next()).await.unwrap();
        (ended.unwrap().unwrap(), rest)
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

pub(crate) fn request(id: u32, method: &str, params: Value) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
    request["params"] = params;
    request
}

pub(crate) fn call(id: u32, name: &str, arguments: Value) -> Value {
    let mut params = json!({"name": name});
    params["arguments"] = arguments;
    request(id, "tools/call", params)
}

/// The same request, self-contained as 2026-07-28 has it.
pub(crate) fn modern(mut request: Value) -> Value {
    request["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request
}

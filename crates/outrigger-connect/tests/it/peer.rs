//! A server in this process whose every answer is scripted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_connect::{
    CallError, CallOptions, ConnectError, Connection, Connector, Deadlines, InProcessSpec, Limits,
    Protocol, ServePipe, ServerName, ServerSpec, TransportSpec,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio_util::sync::CancellationToken;

/// What a script does about one message.
pub(crate) enum Act {
    /// Writes this, as it is.
    Say(String),
    Nothing,
    /// Ends the server.
    Leave,
    /// Reads no more, for ever.
    StopReading,
}

type Script = dyn Fn(&Value) -> Act + Send + Sync;

/// The script, and what it was told.
#[derive(Clone)]
pub(crate) struct Peer {
    script: Arc<Script>,
    pub(crate) heard: Arc<Mutex<Vec<Value>>>,
    pub(crate) starts: Arc<AtomicUsize>,
    pub(crate) running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Peer {
    /// A server that does what `script` says.
    pub(crate) fn new(script: impl Fn(&Value) -> Act + Send + Sync + 'static) -> Self {
        let (heard, starts, running) = (Arc::default(), Arc::default(), Arc::default());
        Self {
            script: Arc::new(script),
            heard,
            starts,
            running,
        }
    }

    /// A good legacy server; `script` is asked about everything after the handshake first.
    pub(crate) fn legacy(script: impl Fn(&Value) -> Option<Act> + Send + Sync + 'static) -> Self {
        Self::new(move |message| script(message).unwrap_or_else(|| good(message)))
    }

    /// The methods heard, in order.
    pub(crate) fn methods(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .map(|message| message["method"].as_str().unwrap_or("reply").to_owned())
            .collect()
    }

    pub(crate) fn spec(&self) -> ServerSpec {
        spec(TransportSpec::InProcess(InProcessSpec(Arc::new(
            self.clone(),
        ))))
    }

    pub(crate) async fn connect(&self) -> Connection {
        connect(&self.spec()).await.unwrap()
    }
}

impl ServePipe for Peer {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        let peer = self.clone();
        peer.starts.fetch_add(1, Ordering::SeqCst);
        peer.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(peer.running.clone());
        Box::pin(async move {
            let _running = running;
            let (read, mut write) = tokio::io::split(pipe);
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                peer.heard.lock().unwrap().push(message.clone());
                match (peer.script)(&message) {
                    Act::Say(text) => {
                        if write.write_all(text.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                    Act::Nothing => {}
                    Act::Leave => return,
                    Act::StopReading => std::future::pending().await,
                }
            }
        })
    }
}

pub(crate) fn spec(transport: TransportSpec) -> ServerSpec {
    ServerSpec {
        name: ServerName::new("scripted").unwrap(),
        transport,
        protocol: Protocol::Auto,
        versions: None,
        deadlines: Deadlines {
            start: Duration::from_secs(10),
            ..Deadlines::default()
        },
        limits: Limits::default(),
    }
}

pub(crate) async fn connect(spec: &ServerSpec) -> Result<Connection, ConnectError> {
    Box::pin(Connector::new("0.0.0", None).connect(spec, &CancellationToken::new())).await
}

/// A line with the answer to `message`.
pub(crate) fn result(message: &Value, result: &Value) -> Act {
    Act::Say(format!(
        "{}\n",
        json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
    ))
}

pub(crate) fn error(message: &Value, code: i64, text: &str) -> Act {
    let error = json!({ "code": code, "message": text });
    Act::Say(format!(
        "{}\n",
        json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })
    ))
}

/// What a good legacy server with one tool answers.
pub(crate) fn good(message: &Value) -> Act {
    match message["method"].as_str() {
        Some("initialize") => result(
            message,
            &json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "good", "version": "1.2" },
            }),
        ),
        Some("tools/list") => result(
            message,
            &json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
        ),
        Some("tools/call") => result(
            message,
            &json!({ "content": [], "saw": message["params"]["arguments"] }),
        ),
        Some(_) if message.get("id").is_some() => error(message, -32601, "Method not found"),
        _ => Act::Nothing,
    }
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// Calls `echo` with `{}`.
pub(crate) async fn call(connection: &Connection) -> Result<Box<RawValue>, CallError> {
    connection
        .call_tool("echo", &raw("{}"), CallOptions::default())
        .await
}

pub(crate) async fn call_within(
    connection: &Connection,
    deadline: Duration,
) -> Result<Box<RawValue>, CallError> {
    let options = CallOptions {
        deadline: Some(deadline),
        ..CallOptions::default()
    };
    connection.call_tool("echo", &raw("{}"), options).await
}

/// Waits until `done`, which something else brings about.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .expect("it never happened");
}

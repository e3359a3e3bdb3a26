//! A server that lists what a real one has listed, and does nothing: over stdio, or in the process.

use std::fs;
use std::io::{self, BufRead, Write as _};
use std::path::Path;

use futures::future::BoxFuture;
use outrigger_connect::ServePipe;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

/// What a server has listed.
#[derive(Debug, Clone)]
pub struct Replay {
    tools: Value,
}

impl Replay {
    /// Lists these tools.
    pub fn new(tools: Vec<Value>) -> Self {
        Self {
            tools: tools.into(),
        }
    }

    /// Lists what a file holds: the result of a `tools/list`.
    pub fn read(file: &Path) -> io::Result<Self> {
        let mut listed: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
        Ok(Self {
            tools: listed["tools"].take(),
        })
    }

    /// Serves over standard input and output until the input ends.
    pub fn serve_stdio(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for line in io::stdin().lock().lines() {
            if let Some(answer) = self.answer(&line?) {
                writeln!(out, "{answer}")?;
                out.flush()?;
            }
        }
        Ok(())
    }

    fn answer(&self, line: &str) -> Option<Value> {
        let message: Value = serde_json::from_str(line).ok()?;
        let id = message.get("id").filter(|id| !id.is_null())?;
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "replay", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": self.tools}),
            Some("ping") => json!({}),
            _ => {
                let error = json!({"code": -32601, "message": "this server only lists"});
                return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

impl ServePipe for Replay {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        let replay = self.clone();
        Box::pin(async move {
            let (read, mut write) = tokio::io::split(pipe);
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Some(answer) = replay.answer(&line) else {
                    continue;
                };
                let line = format!("{answer}\n");
                if write.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
    }
}

//! A small Streamable HTTP server of the older era, fast enough not to be what is measured. It keeps
//! connections open and counts those it accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// It runs as long as the process.
pub(crate) struct Server {
    pub(crate) url: String,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Sockets so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

pub(crate) async fn start() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(socket));
        }
    });
    Server { url, accepted }
}

async fn serve(socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut socket = BufReader::new(socket);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if socket.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, value)| value.trim().parse().unwrap());
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await?;
        let reply = if head.starts_with("POST") {
            answer(&serde_json::from_slice(&body)?)
        } else {
            Reply::Status("405 Method Not Allowed")
        };
        let text = match reply {
            Reply::Status(status) => format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"),
            Reply::Message(message) => {
                let body = message.to_string();
                let length = body.len();
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
                )
            }
        };
        socket.write_all(text.as_bytes()).await?;
    }
}

enum Reply {
    Status(&'static str),
    Message(Value),
}

fn answer(request: &Value) -> Reply {
    let Some(id) = request.get("id") else {
        return Reply::Status("202 Accepted");
    };
    let result = match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "bench", "version": "0" },
        }),
        Some("tools/list") => json!({ "tools": [{
            "name": "echo",
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
        }]}),
        Some("tools/call") => {
            json!({ "content": [{ "type": "text", "text": request["params"]["arguments"]["text"] }] })
        }
        _ => {
            let error = json!({ "code": -32601, "message": "method not found" });
            return Reply::Message(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Reply::Message(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

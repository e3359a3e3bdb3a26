//! A web server on a loopback socket whose every answer is scripted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use outrigger_connect::{HttpSpec, ServerSpec, TransportSpec};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::peer::spec;

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    /// The body as it came.
    pub(crate) text: String,
    /// The body, where it is JSON.
    pub(crate) body: Value,
}

impl Asked {
    /// The method of the message, or the verb of a request without one.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or(&self.verb)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What is answered.
pub(crate) enum Reply {
    /// Status, headers, body.
    Full(u16, Vec<(&'static str, String)>, String),
    /// An event stream that ends.
    Events(String),
    /// An event stream that stays open.
    Open(String),
    /// An event stream of what is sent here, until the sender is gone.
    Feed(mpsc::UnboundedReceiver<String>),
    /// Nothing, for as long as the client waits.
    Hang,
    /// Nothing, and the connection is closed.
    Cut,
}

pub(crate) fn plain(status: u16, kind: &str, body: &str) -> Reply {
    Reply::Full(
        status,
        vec![("Content-Type", kind.to_owned())],
        body.to_owned(),
    )
}

pub(crate) fn json_reply(message: &Value) -> Reply {
    plain(200, "application/json", &message.to_string())
}

pub(crate) fn result(asked: &Asked, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result })
}

pub(crate) fn error(asked: &Asked, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": { "code": code, "message": message } })
}

pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// The server; it is gone when this is dropped.
pub(crate) struct Web {
    pub(crate) url: String,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    /// Connections that the client has closed while it was waited on.
    pub(crate) gone: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Web {
    pub(crate) async fn new(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (asked, gone): (Arc<Mutex<Vec<Asked>>>, Arc<AtomicUsize>) = Default::default();
        let shared = Shared {
            script: Arc::new(script),
            asked: asked.clone(),
            gone: gone.clone(),
        };
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                connections.spawn(async move { shared.serve(stream).await.unwrap_or_default() });
            }
        });
        Self {
            url,
            asked,
            gone,
            _serving: serving,
        }
    }

    /// A good legacy server with a session; `script` is asked first.
    pub(crate) async fn legacy(
        script: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |asked| script(asked).unwrap_or_else(|| good(asked))).await
    }

    pub(crate) fn spec(&self) -> ServerSpec {
        let mut http = HttpSpec::new(self.url.parse().unwrap());
        http.headers = vec![("X-Key".to_owned(), "k-123".to_owned())];
        spec(TransportSpec::Http(http))
    }

    pub(crate) fn methods(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|asked| asked.method().to_owned())
            .collect()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.methods().iter().filter(|one| *one == method).count()
    }

    /// The last request for `method`.
    pub(crate) fn last(&self, method: &str) -> Asked {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .rfind(|asked| asked.method() == method)
            .unwrap()
            .clone()
    }
}

pub(crate) fn good(asked: &Asked) -> Reply {
    match asked.method() {
        "initialize" => {
            let capabilities = json!({ "tools": { "listChanged": true } });
            let body = result(
                asked,
                &json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities }),
            );
            let session = ("Mcp-Session-Id", "s-1".to_owned());
            Reply::Full(
                200,
                vec![("Content-Type", "application/json".to_owned()), session],
                body.to_string(),
            )
        }
        "tools/list" => json_reply(&result(asked, &json!({ "tools": [{ "name": "echo" }] }))),
        "tools/call" => json_reply(&result(asked, &json!({ "content": [] }))),
        "GET" => Reply::Full(405, vec![], String::new()),
        "DELETE" => Reply::Full(200, vec![], String::new()),
        _ if asked.body.get("id").is_some() => json_reply(&error(asked, -32601, "no")),
        _ => Reply::Full(202, vec![], String::new()),
    }
}

#[derive(Clone)]
struct Shared {
    script: Arc<Script>,
    asked: Arc<Mutex<Vec<Asked>>>,
    gone: Arc<AtomicUsize>,
}

impl Shared {
    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some(asked) = read(&mut stream).await? {
            self.asked.lock().unwrap().push(asked.clone());
            let stays = match (self.script)(&asked) {
                Reply::Full(status, headers, body) => {
                    let lines: Vec<String> = headers
                        .iter()
                        .map(|(name, value)| format!("{name}: {value}\r\n"))
                        .collect();
                    let headers = lines.concat();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await?;
                    continue;
                }
                Reply::Cut => return Ok(()),
                Reply::Feed(mut feed) => {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
                    stream.write_all(head.as_bytes()).await?;
                    while let Some(events) = feed.recv().await {
                        stream.write_all(events.as_bytes()).await?;
                    }
                    return Ok(());
                }
                Reply::Hang => String::new(),
                Reply::Events(events) => {
                    let text = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{events}",
                        events.len()
                    );
                    stream.write_all(text.as_bytes()).await?;
                    continue;
                }
                Reply::Open(events) => {
                    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{events}")
                }
            };
            stream.write_all(stays.as_bytes()).await?;
            let _ = stream.read(&mut [0]).await;
            self.gone.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        Ok(())
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let headers: HashMap<String, String> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let mut words = lines[0].split(' ').map(str::to_owned);
    let (verb, path) = (words.next().unwrap(), words.next().unwrap());
    Ok(Some(Asked {
        verb,
        path,
        headers,
        text: String::from_utf8_lossy(&body).into_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }))
}

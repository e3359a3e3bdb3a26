//! A running gateway, and clients that speak to it in their own words: lines over a pipe or a socket,
//! and HTTP as bytes.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::place::{Place, until};

/// A client that waits longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parameters of a modern request.
pub(crate) fn modern(params: Value) -> Value {
    modern_with(params, json!({}))
}

/// The same of a client that can be asked.
pub(crate) fn modern_with(mut params: Value, capabilities: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientInfo"] =
        json!({ "name": "test", "version": "1" });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

/// A client over lines.
pub(crate) struct Line {
    child: Option<Child>,
    writer: Box<dyn Write>,
    lines: mpsc::Receiver<String>,
    last: u64,
    /// What came besides answers.
    pub(crate) heard: Vec<Value>,
}

impl Line {
    /// The program with these words, and a client at its standard input and output.
    pub(crate) fn start(place: &Place, words: &[&str]) -> Self {
        Self::of(place.command(words), Stdio::null())
    }

    /// The same of a command that is made already, which says to people what it has to say there.
    pub(crate) fn of(mut command: Command, talk: Stdio) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(talk);
        let mut child = command.spawn().unwrap();
        let writer: ChildStdin = child.stdin.take().unwrap();
        let reader: ChildStdout = child.stdout.take().unwrap();
        Self::over(Some(child), Box::new(writer), reader)
    }

    fn over(
        child: Option<Child>,
        writer: Box<dyn Write>,
        reader: impl Read + Send + 'static,
    ) -> Self {
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            writer,
            lines,
            last: 0,
            heard: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, message: &Value) {
        writeln!(self.writer, "{message}").unwrap();
        self.writer.flush().unwrap();
    }

    /// Sends a request; its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        message["params"] = params;
        self.write(&message);
        id
    }

    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        message["params"] = params;
        self.write(&message);
    }

    /// The next line.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .expect("nothing comes any more")
    }

    /// Waits for the answer to a request, or for a request of the other side.
    #[track_caller]
    pub(crate) fn wait(&mut self, id: u64) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.line()).unwrap();
            if message["id"] == id || (message["id"].is_string() && message["method"].is_string()) {
                return message;
            }
            self.heard.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.wait(id)
    }

    /// The id, and the answer as it is on the wire.
    #[track_caller]
    pub(crate) fn ask_raw(&mut self, method: &str, params: Value) -> (u64, String) {
        let id = self.send(method, params);
        let mark = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
        loop {
            let line = self.line();
            if line.starts_with(&mark) {
                return (id, line);
            }
        }
    }

    /// Waits for a notification.
    #[track_caller]
    pub(crate) fn hears(&mut self, method: &str) -> Value {
        if let Some(at) = self
            .heard
            .iter()
            .position(|message| message["method"] == method)
        {
            return self.heard.remove(at);
        }
        loop {
            let message: Value = serde_json::from_str(&self.line()).unwrap();
            if message["method"] == method {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// The handshake of the legacy era.
    #[track_caller]
    pub(crate) fn begin(&mut self, version: &str, capabilities: Value) -> Value {
        let begun = self.ask("initialize", beginning(version, capabilities));
        self.tell("notifications/initialized", json!({}));
        begun
    }

    /// Closes this side; the exit code.
    #[track_caller]
    pub(crate) fn end(self) -> i32 {
        let Self { child, writer, .. } = self;
        drop(writer);
        ended(child.unwrap())
    }

    /// Sends a signal that ends nothing.
    pub(crate) fn poke(&self, signal: &str) {
        kill(self.child.as_ref().unwrap(), signal);
    }

    /// Sends a signal; the exit code.
    #[track_caller]
    pub(crate) fn signal(mut self, signal: &str) -> i32 {
        let child = self.child.take().unwrap();
        kill(&child, signal);
        ended(child)
    }
}

fn kill(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    Command::new("kill").args([signal, &pid]).status().unwrap();
}

#[track_caller]
fn ended(mut child: Child) -> i32 {
    let mut status = None;
    until("the gateway ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code().unwrap_or(-1)
}

/// All tools over a line.
#[track_caller]
pub(crate) fn names_over(line: &mut Line) -> Vec<String> {
    line.begin("2025-11-25", json!({}));
    names(&line.ask("tools/list", json!({})))
}

#[track_caller]
fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("no tools: {listed}"));
    let names = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.collect()
}

/// A gateway that listens. Dropped, it is asked to end, and has to.
pub(crate) struct Served {
    child: Child,
    killed: bool,
    /// What it has said to people.
    talk: Arc<Mutex<String>>,
    /// Where.
    pub(crate) place: String,
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Heard {
    /// A header, by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let line = self
            .head
            .lines()
            .find(|line| line.to_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        // What takes its time comes as a stream, the answer last.
        let last = self.body.rsplit_once("\ndata: ").map(|(_, last)| last);
        let body = last.unwrap_or(&self.body);
        serde_json::from_str(body.trim()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Served {
    /// Over HTTP, on a free port.
    pub(crate) fn start(place: &Place, words: &[&str]) -> Self {
        Self::with(place, &[&["--http", "127.0.0.1:0"], words].concat())
    }

    pub(crate) fn socket(place: &Place, path: &str) -> Self {
        Self::with(place, &["--socket", path])
    }

    fn with(place: &Place, words: &[&str]) -> Self {
        let mut command = place.command(&[&["serve"], words].concat());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut talk = BufReader::new(child.stderr.take().unwrap()).lines();
        let at = loop {
            let line = talk.next().expect("it ended").unwrap();
            if let Some(at) = line.strip_prefix("serving on ") {
                break at.to_owned();
            }
        };
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            for line in talk.map_while(Result::ok) {
                *heard.lock().unwrap() += &(line + "\n");
            }
        });
        Self {
            child,
            killed: false,
            talk: said,
            place: at,
        }
    }

    pub(crate) fn connect_socket(path: &Path) -> Line {
        let stream = UnixStream::connect(path).unwrap();
        Line::over(None, Box::new(stream.try_clone().unwrap()), stream)
    }

    /// As a system does that stops a service.
    pub(crate) fn ask_to_end(&self) {
        kill(&self.child, "-TERM");
    }

    /// Sends a signal that ends nothing.
    pub(crate) fn poke(&self, signal: &str) {
        kill(&self.child, signal);
    }

    /// Has the configuration read again.
    pub(crate) fn reload(&self) {
        kill(&self.child, "-HUP");
    }

    /// What it has said to people so far.
    pub(crate) fn talk(&self) -> String {
        self.talk.lock().unwrap().clone()
    }

    fn address(&self) -> &str {
        let rest = self.place.strip_prefix("http://").unwrap();
        rest.strip_suffix("/mcp").unwrap()
    }

    /// Opens a connection and sends these bytes.
    pub(crate) fn open(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// One request with these headers, to its end.
    #[track_caller]
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Heard {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            let _ = write!(head, "Host: {}\r\n", self.address());
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let mut stream = self.open(&[head.as_bytes(), b"\r\n", body].concat());
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked {
            unchunked(body)
        } else {
            body.to_owned()
        };
        Heard {
            status,
            head: head.to_owned(),
            body,
        }
    }

    /// A message, as clients send it.
    #[track_caller]
    pub(crate) fn post(&self, message: &Value, headers: &[(&str, &str)]) -> Heard {
        let usual = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let body = message.to_string();
        self.request("POST", "/mcp", &[&usual, headers].concat(), body.as_bytes())
    }

    /// A modern request with the head that belongs to it.
    #[track_caller]
    pub(crate) fn modern_heard(&self, method: &str, params: Value) -> Heard {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let params = if params["_meta"].is_null() {
            modern(params)
        } else {
            params
        };
        let mut headers = vec![
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        if !name.is_empty() {
            headers.push(("Mcp-Name", &name));
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&message, &headers)
    }

    /// Calls a tool, and does not wait for the answer.
    pub(crate) fn call_alone(&self, tool: &str) -> TcpStream {
        let params = modern(json!({ "name": tool, "arguments": {} }));
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let body = message.to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n",
            self.address(),
            body.len()
        );
        self.open(format!("{head}{body}").as_bytes())
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.killed = true;
        self.child.kill().unwrap();
    }

    #[track_caller]
    pub(crate) fn modern(&self, method: &str, params: Value) -> Value {
        self.modern_heard(method, params).json()
    }

    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.modern("tools/list", json!({})))
    }

    /// A session of the legacy era; its id.
    #[track_caller]
    pub(crate) fn session(&self, capabilities: Value) -> String {
        let mut message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize" });
        message["params"] = beginning("2025-11-25", capabilities);
        let begun = self.post(&message, &[]);
        begun.header("mcp-session-id").expect("a session")
    }
}

/// What `initialize` says.
fn beginning(version: &str, capabilities: Value) -> Value {
    let mut params = json!({
        "protocolVersion": version,
        "clientInfo": { "name": "test", "version": "1" },
    });
    params["capabilities"] = capabilities;
    params
}

fn unchunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&rest[..size]);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    out
}

impl Drop for Served {
    fn drop(&mut self) {
        kill(&self.child, "-TERM");
        let mut ended = None;
        until("the gateway ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        if !thread::panicking() && !self.killed {
            let (ended, talk) = (ended.unwrap(), self.talk());
            assert!(ended.success(), "{ended}: {talk}");
            // A task that panics leaves the rest as it was.
            assert!(!talk.contains(" panicked at "), "{talk}");
        }
    }
}

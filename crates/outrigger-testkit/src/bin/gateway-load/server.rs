//! The servers of the load: each writes down every call before it answers.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;

/// What is behind the gateway.
pub(crate) const ALL: [(&str, Kind); 6] = [
    ("one", Kind::Counts),
    ("two", Kind::Counts),
    ("three", Kind::Counts),
    ("four", Kind::Counts),
    ("hangs", Kind::Hangs),
    ("floods", Kind::Floods),
];

/// What a server does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Answers it.
    Counts,
    /// Never answers.
    Hangs,
    /// Answers it after a flood of messages about everything.
    Floods,
}

/// Messages of a flood.
const FLOOD: usize = 2000;

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Hangs => "hangs",
            Self::Floods => "floods",
        }
    }
}

/// Serves until its input ends. FILE`.pid` holds its process, FILE`.calls` the text of each call.
pub(crate) fn run(kind: &str, file: &Path) -> Result<(), Failure> {
    let known = ALL.into_iter().find(|(_, known)| known.word() == kind);
    let (_, kind) = known.ok_or("no such kind of server")?;
    std::fs::write(file.with_extension("pid"), std::process::id().to_string())?;
    let calls = file.with_extension("calls");
    let calls = Arc::new(OpenOptions::new().create(true).append(true).open(calls)?);
    let out = Arc::new(Mutex::new(io::stdout()));
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let (id, params) = (message["id"].clone(), &message["params"]);
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "load", "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": [tool()] }),
            Some("tools/call") => {
                let text = params["arguments"]["text"].as_str().unwrap_or_default();
                let (calls, out, text) = (Arc::clone(&calls), Arc::clone(&out), text.to_owned());
                // A thread each, so that calls overlap and answers overtake one another.
                std::thread::spawn(move || call(kind, &calls, &out, (&id, &text)));
                continue;
            }
            _ if id.is_null() => continue,
            _ => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                say(&out, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                continue;
            }
        };
        say(
            &out,
            &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        );
    }
    Ok(())
}

fn tool() -> Value {
    json!({
        "name": "echo",
        "inputSchema": {
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
        },
    })
}

fn call(kind: Kind, mut calls: &File, out: &Mutex<io::Stdout>, (id, text): (&Value, &str)) {
    // In one piece, so that lines of several threads and of killed processes stay whole.
    if calls.write_all(format!("{text}\n").as_bytes()).is_err() {
        return;
    }
    let length = text.bytes().map(u64::from).sum::<u64>() % 10;
    std::thread::sleep(Duration::from_millis(length));
    if kind == Kind::Hangs {
        return;
    }
    if kind == Kind::Floods {
        for number in 0..FLOOD {
            let params = json!({ "level": "info", "data": number });
            let log =
                json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
            say(out, &log);
        }
    }
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    say(
        out,
        &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
    );
}

fn say(out: &Mutex<io::Stdout>, message: &Value) {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody listens any more: the input ends too.
    let _ = out.write_all(format!("{message}\n").as_bytes());
    let _ = out.flush();
}

//! A small server of our own that does what the tool's name says, and logs what it hears.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::place::{Place, fixture};

/// The log of one scripted server.
pub(crate) struct Log(pub(crate) PathBuf);

/// The entry of a scripted server for `.mcp.json`, and its log.
pub(crate) fn scripted(place: &Place, name: &str) -> (Value, Log) {
    let log = place.root.join(format!("{name}.log"));
    let entry = json!({ "command": "python3", "args": [fixture("scripted_server.py"), log] });
    (entry, Log(log))
}

/// A place with one scripted server, named `lab`.
pub(crate) fn lab() -> (Place, Log) {
    let place = Place::new();
    let (entry, log) = scripted(&place, "lab");
    place.servers(&json!({ "lab": entry }));
    (place, log)
}

impl Log {
    /// A log that a fixture writes.
    pub(crate) fn at(file: PathBuf) -> Self {
        Self(file)
    }

    /// What the server heard, in order.
    pub(crate) fn heard(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The messages with this method.
    pub(crate) fn of(&self, method: &str) -> Vec<Value> {
        self.heard()
            .into_iter()
            .filter(|message| message["method"] == method)
            .collect()
    }

    /// The file as it is.
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }
}

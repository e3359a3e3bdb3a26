//! What is known of servers besides what is recorded of them: how each is reached.

use std::collections::HashMap;

use opentelemetry::KeyValue;
use outrigger_connect::TransportSpec;
use outrigger_host::config::{Config, EntryState};

use super::key;

/// Servers by their configured names.
#[derive(Default)]
pub(super) struct Servers {
    reached: HashMap<String, Vec<KeyValue>>,
    versions: HashMap<String, String>,
}

impl Servers {
    pub(super) fn of(config: &Config) -> Self {
        let ready = config.servers.values().filter_map(|entry| {
            let EntryState::Ready(settings) = &entry.state else {
                return None;
            };
            let name = entry.name.to_string();
            Some((name, reached(&settings.spec.transport)))
        });
        Self {
            reached: ready.collect(),
            versions: HashMap::new(),
        }
    }

    /// The protocol version that was agreed on.
    pub(super) fn speaks(&mut self, server: &str, version: &str) {
        self.versions.insert(server.to_owned(), version.to_owned());
    }

    pub(super) fn attributes(&self, server: &str) -> Vec<KeyValue> {
        let mut attributes = vec![KeyValue::new(key::SERVER, server.to_owned())];
        match self.reached.get(server) {
            Some(reached) => attributes.extend(reached.iter().cloned()),
            // One of ours, over a pipe in this process.
            None => attributes.push(KeyValue::new("network.transport", "pipe")),
        }
        let version = self.versions.get(server);
        attributes
            .extend(version.map(|version| KeyValue::new("mcp.protocol.version", version.clone())));
        attributes
    }
}

/// Host and port only: path and parameters may be secret.
fn reached(transport: &TransportSpec) -> Vec<KeyValue> {
    let (spec, protocol) = match transport {
        TransportSpec::Stdio(_) | TransportSpec::InProcess(_) => {
            return vec![KeyValue::new("network.transport", "pipe")];
        }
        TransportSpec::Http(spec) | TransportSpec::Sse(spec) => (spec, "http"),
        TransportSpec::WebSocket(spec) => (spec, "websocket"),
    };
    let mut attributes = vec![
        KeyValue::new("network.transport", "tcp"),
        KeyValue::new("network.protocol.name", protocol),
    ];
    let host = spec.url.host_str();
    attributes.extend(host.map(|host| KeyValue::new("server.address", host.to_owned())));
    let port = spec.url.port_or_known_default();
    attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
    attributes
}

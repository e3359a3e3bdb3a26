//! The connections of a recording: which lines belong to each, and what it agreed on.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::member;
use super::tape::{Tape, is_handshake};
use crate::recording::Kind;

/// One connection that came about.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) server: String,
    /// Its lines after the handshake, in order.
    pub(super) lines: Vec<usize>,
    /// The answer to `server/discover`, and to `initialize`.
    pub(super) discovered: Option<usize>,
    pub(super) initialized: Option<usize>,
    /// Cancelled requests are ended by hanging up.
    pub(super) http: bool,
}

/// The connections by their numbers, and the lines that need not happen: those of handshakes, and of
/// connections that did not come about.
pub(super) fn links(tape: &Tape) -> (Vec<Link>, HashSet<usize>) {
    let mut all: BTreeMap<u64, Link> = BTreeMap::new();
    let mut asked: BTreeMap<(u64, String), &'static str> = BTreeMap::new();
    let mut aside = HashSet::new();
    for (at, line) in tape.lines.iter().enumerate() {
        let (Some(number), Some(server)) = (line.link, &line.server) else {
            continue;
        };
        let link = all.entry(number).or_default();
        link.server.clone_from(server);
        link.http |= tape.is_http(at);
        let body = || serde_json::from_str::<Value>(tape.raw(at)).unwrap_or_default();
        match line.kind {
            Kind::Sent if is_handshake(line) => {
                aside.insert(at);
                let body = body();
                let method = match member(&body, "method") {
                    "server/discover" => "server/discover",
                    _ => "initialize",
                };
                asked.insert((number, body["id"].to_string()), method);
            }
            Kind::Came => {
                let body = body();
                let answers = body
                    .get("id")
                    .filter(|_| body.get("method").is_none())
                    .and_then(|id| asked.remove(&(number, id.to_string())));
                let agreed = body.get("result").is_some();
                match answers {
                    Some("server/discover") if agreed => link.discovered = Some(at),
                    Some("initialize") if agreed => link.initialized = Some(at),
                    Some(_) => {}
                    None => {
                        link.lines.push(at);
                        continue;
                    }
                }
                aside.insert(at);
            }
            _ => link.lines.push(at),
        }
    }
    let (made, failed): (Vec<_>, Vec<_>) = all
        .into_values()
        .partition(|link| link.discovered.is_some() || link.initialized.is_some());
    aside.extend(failed.iter().flat_map(|link| &link.lines));
    (made, aside)
}

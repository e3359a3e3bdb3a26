//! How long a server may take and how much it may send: `timeouts` and `limits`, of one server or of
//! all of them.

use outrigger_connect::{Deadlines, Limits};

use crate::config::node::{Entry, Node, Pos, Value};
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::value;

const TIMEOUTS: [&str; 8] = [
    "start",
    "probe",
    "list",
    "call",
    "call_hard",
    "late",
    "close",
    "idle",
];

/// The keys of `limits` that bound a server.
pub(crate) const LIMITS: [&str; 6] = [
    "frame_bytes",
    "depth",
    "tools",
    "pages",
    "notifications_per_second",
    "concurrent_calls",
];

/// Reads a table of times; returns the keys that it has.
pub(crate) fn timeouts<'n>(
    report: &mut Report<'_>,
    path: &str,
    node: &'n Node,
    deadlines: &mut Deadlines,
) -> Vec<&'n Entry> {
    let mut read = Vec::new();
    let mut hard_at: Option<Pos> = None;
    for entry in value::table(report, path, node).unwrap_or_default() {
        let slot = match entry.key.as_str() {
            "start" => &mut deadlines.start,
            "probe" => &mut deadlines.probe,
            "list" => &mut deadlines.list,
            "call" => &mut deadlines.call,
            "call_hard" => {
                hard_at = Some(entry.node.at);
                &mut deadlines.call_hard
            }
            "late" => &mut deadlines.late,
            "close" => &mut deadlines.close,
            "idle" if matches!(&entry.node.value, Value::Text(word) if word == "none") => {
                deadlines.idle = None;
                read.push(entry);
                continue;
            }
            "idle" => deadlines.idle.get_or_insert_default(),
            _ => {
                report.unknown(Severity::Error, entry, path, &TIMEOUTS);
                continue;
            }
        };
        if let Some(duration) = value::duration(report, &join(path, &entry.key), &entry.node) {
            *slot = duration;
            read.push(entry);
        }
    }
    if deadlines.call_hard < deadlines.call {
        match hard_at {
            Some(at) => {
                report.error(
                    at,
                    path,
                    format!("`{path}.call_hard` is shorter than `{path}.call`"),
                );
            }
            None => deadlines.call_hard = deadlines.call,
        }
    }
    read
}

/// Reads the table of one server.
pub(crate) fn limits(report: &mut Report<'_>, path: &str, node: &Node, limits: &mut Limits) {
    for entry in value::table(report, path, node).unwrap_or_default() {
        if limit(report, path, entry, limits).is_none() {
            report.unknown(Severity::Error, entry, path, &LIMITS);
        }
    }
}

/// Reads one limit of servers; `None` when the key is none. `Some(false)`: it cannot be read.
pub(crate) fn limit(
    report: &mut Report<'_>,
    path: &str,
    entry: &Entry,
    limits: &mut Limits,
) -> Option<bool> {
    fn set<T>(slot: &mut T, read: Option<T>) -> bool {
        read.map(|value| *slot = value).is_some()
    }
    let key = join(path, &entry.key);
    let node = &entry.node;
    Some(match entry.key.as_str() {
        "frame_bytes" => set(&mut limits.frame_bytes, value::size(report, &key, node)),
        "depth" => set(&mut limits.depth, value::count(report, &key, node)),
        "tools" => set(&mut limits.tools, value::count(report, &key, node)),
        "pages" => set(&mut limits.pages, value::count(report, &key, node)),
        "notifications_per_second" => set(
            &mut limits.notifications_per_second,
            value::count(report, &key, node),
        ),
        "concurrent_calls" => set(
            &mut limits.concurrent_calls,
            value::count(report, &key, node),
        ),
        _ => return None,
    })
}

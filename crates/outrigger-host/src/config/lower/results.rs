//! `[results]`. Its keys merge one by one: the nearest file that has one wins. Of the globs in
//! `results.tools`, the last that matches counts, those of nearer files after those of farther ones.

use crate::config::node::Node;
use crate::config::origin::Setting;
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::results::{ResultSettings, ToolRoom};
use crate::config::value;

const KEYS: [&str; 4] = ["max_tokens", "preview_tokens", "turn_max_tokens", "tools"];

/// Takes over what one file says.
pub(crate) fn lower(report: &mut Report<'_>, node: &Node, results: &mut ResultSettings) {
    for entry in value::table(report, "results", node).unwrap_or_default() {
        let slot = match entry.key.as_str() {
            "max_tokens" => &mut results.max_tokens,
            "preview_tokens" => &mut results.preview_tokens,
            "turn_max_tokens" => &mut results.turn_max_tokens,
            "tools" => {
                tools(report, &entry.node, &mut results.tools);
                continue;
            }
            _ => {
                report.unknown(Severity::Error, entry, "results", &KEYS);
                continue;
            }
        };
        if let Some(value) = value::count(report, &join("results", &entry.key), &entry.node) {
            slot.replace(Setting {
                value,
                origin: report.origin(entry.at),
            });
        }
    }
}

fn tools(report: &mut Report<'_>, node: &Node, rooms: &mut Vec<ToolRoom>) {
    for entry in value::table(report, "results.tools", node).unwrap_or_default() {
        let path = join("results.tools", &entry.key);
        let origin = report.origin(entry.at);
        let glob = match crate::policy::glob(&entry.key) {
            Ok(glob) => glob,
            Err(error) => {
                report.error(entry.at, &path, error.to_string());
                continue;
            }
        };
        if let Some(tokens) = value::count(report, &path, &entry.node) {
            rooms.push(ToolRoom {
                written: entry.key.clone(),
                glob,
                tokens,
                origin,
            });
        }
    }
}

//! `[gateway]`, merged key by key. A project that is not trusted has no say in who approves.

use super::run::set;
use crate::config::gateway::{ApprovalWay, GatewaySettings};
use crate::config::node::{Node, Value};
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::value;

const KEYS: [&str; 3] = ["approvals", "approval_timeout", "drain_timeout"];

/// Takes over what one file says. Files come from the farthest to the nearest.
pub(crate) fn lower(report: &mut Report<'_>, node: &Node, settings: &mut GatewaySettings) {
    for entry in value::table(report, "gateway", node).unwrap_or_default() {
        let key = join("gateway", &entry.key);
        if !report.source.layer.may_loosen() {
            let message =
                format!("`{key}` does not count in a file of a project that is not trusted");
            report.warn(entry.at, &key, message);
            continue;
        }
        match entry.key.as_str() {
            "approvals" => set(report, entry, &mut settings.approvals, |report| {
                ways(report, &key, &entry.node)
            }),
            "approval_timeout" => set(report, entry, &mut settings.approval_timeout, |report| {
                value::duration(report, &key, &entry.node)
            }),
            "drain_timeout" => set(report, entry, &mut settings.drain_timeout, |report| {
                value::duration(report, &key, &entry.node)
            }),
            _ => report.unknown(Severity::Error, entry, "gateway", &KEYS),
        }
    }
}

/// A list of ways, each once.
fn ways(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Vec<ApprovalWay>> {
    let Value::List(items) = &node.value else {
        report.mismatch(key, node, "a list of `client` and `queue`");
        return None;
    };
    let mut ways = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let key = format!("{key}[{index}]");
        let way = value::word(report, &key, item, &ApprovalWay::WORDS)?;
        if ways.contains(&way) {
            let message = format!("`{}` is there twice", way.as_str());
            report.error(item.at, &key, message);
            return None;
        }
        ways.push(way);
    }
    Some(ways)
}

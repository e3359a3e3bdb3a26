//! `retries` and `tools` of a server: which of its calls may be made once more.

use crate::config::node::{Node, Value};
use crate::config::problem::Severity;
use crate::config::repeating::{MOST_RETRIES, ToolRepeating};
use crate::config::report::{Report, join};
use crate::config::value;

/// How often; none is a number too.
pub(super) fn retries(report: &mut Report<'_>, path: &str, node: &Node) -> Option<u32> {
    let number = match &node.value {
        Value::Number(digits) => digits.parse().ok().filter(|&number| number <= MOST_RETRIES),
        _ => None,
    };
    if number.is_none() {
        let wanted = format!("a whole number from 0 to {MOST_RETRIES}");
        report.mismatch(path, node, &wanted);
    }
    number
}

/// A table of tables, by globs over the server's own names for its tools.
pub(super) fn tools(report: &mut Report<'_>, path: &str, node: &Node) -> Vec<ToolRepeating> {
    let entries = value::table(report, path, node).unwrap_or_default();
    let mut tools = Vec::with_capacity(entries.len());
    for entry in entries {
        let inner = join(path, &entry.key);
        if let Err(error) = crate::policy::glob(&entry.key) {
            let message = format!("`{inner}` is a broken glob: {}", error.reason);
            report.error(entry.at, &inner, message);
        }
        let mut tool = ToolRepeating {
            glob: entry.key.clone(),
            idempotent: None,
            idempotency_key: None,
        };
        for entry in value::table(report, &inner, &entry.node).unwrap_or_default() {
            let key = join(&inner, &entry.key);
            match entry.key.as_str() {
                "idempotent" => tool.idempotent = value::truth(report, &key, &entry.node),
                "idempotency_key" => tool.idempotency_key = value::text(report, &key, &entry.node),
                _ => report.unknown(
                    Severity::Error,
                    entry,
                    &inner,
                    &["idempotent", "idempotency_key"],
                ),
            }
        }
        tools.push(tool);
    }
    tools
}

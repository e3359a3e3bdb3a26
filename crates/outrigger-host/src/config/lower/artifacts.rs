//! `[artifacts]`, merged key by key. A project that is not trusted has no say in what is removed.

use super::run::set;
use crate::config::artifacts::ArtifactSettings;
use crate::config::node::{Node, Value};
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::value;

/// Takes over what one file says. Files come from the farthest to the nearest.
pub(crate) fn lower(report: &mut Report<'_>, node: &Node, settings: &mut ArtifactSettings) {
    let Some(entries) = value::table(report, "artifacts", node) else {
        return;
    };
    for entry in entries {
        let key = join("artifacts", &entry.key);
        if !report.source.layer.may_loosen() {
            let message =
                format!("`{key}` does not count in a file of a project that is not trusted");
            report.warn(entry.at, &key, message);
            continue;
        }
        let without = matches!(&entry.node.value, Value::Text(word) if word == "none");
        match entry.key.as_str() {
            "older_than" if without => set(report, entry, &mut settings.older_than, |_| Some(None)),
            "older_than" => set(report, entry, &mut settings.older_than, |report| {
                value::duration(report, &key, &entry.node).map(Some)
            }),
            "keep" if without => set(report, entry, &mut settings.keep, |_| Some(None)),
            "keep" => set(report, entry, &mut settings.keep, |report| {
                value::size(report, &key, &entry.node).map(Some)
            }),
            _ => report.unknown(Severity::Error, entry, "artifacts", &["older_than", "keep"]),
        }
    }
}

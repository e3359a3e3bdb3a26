//! `[storage]`. Anything wrong in it is an error of the file: where the journal is would be guessed.

use super::address::{mask_url, refuse_mask};
use super::model::Aside;
use super::server::Lowering;
use crate::config::gap::Slot;
use crate::config::node::Entry;
use crate::config::node::Node;
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::storage::StorageSettings;
use crate::config::surroundings::Surroundings;
use crate::config::value;
use outrigger_connect::Secret;

const KEYS: &[&str] = &["url", "grace", "replica"];

/// Takes over what one file says, in the place of what farther ones said.
pub(crate) fn lower(
    report: &mut Report<'_>,
    around: &Surroundings,
    node: &Node,
    settings: &mut StorageSettings,
    found: &mut Aside,
) {
    if !report.source.layer.may_loosen() {
        let message = "`storage` in a file of the project is not used: it decides where everything is recorded";
        report
            .warn(node.at, "storage", message)
            .hint("say it in your own `outrigger.toml`, or with `--config`");
        return;
    }
    let mut low = Lowering::new(report.source, around, "storage");
    *settings = read(&mut low, node);
    found.secrets.extend(low.secrets);
    found.literals.extend(low.literals);
    report.problems.extend(low.report.problems);
}

fn read(low: &mut Lowering<'_>, node: &Node) -> StorageSettings {
    let mut settings = StorageSettings::default();
    for entry in value::table(&mut low.report, "storage", node).unwrap_or_default() {
        let path = join("storage", &entry.key);
        match entry.key.as_str() {
            "url" | "replica" => {
                if let Some(shown) = text(low, entry, &path, &mut settings) {
                    low.note(&entry.key, entry.at, shown.into());
                }
            }
            "grace" => {
                settings.grace = value::duration(&mut low.report, &path, &entry.node);
                let shown = value::text(&mut low.report, &path, &entry.node);
                low.note("grace", entry.at, shown.unwrap_or_default().into());
            }
            _ => low.report.unknown(Severity::Error, entry, "storage", KEYS),
        }
    }
    settings.written = low.take_written();
    settings.gaps = std::mem::take(&mut low.gaps);
    settings
}

/// A text that may be a secret, or hold one; as it may be shown.
fn text(
    low: &mut Lowering<'_>,
    entry: &Entry,
    path: &str,
    settings: &mut StorageSettings,
) -> Option<String> {
    let node = &entry.node;
    let written = value::text(&mut low.report, path, node)?;
    refuse_mask(low, path, node, &written)?;
    let value = low.expand_value(path, node, &written, Slot::Storage)?;
    let key = path.strip_prefix("storage.").unwrap_or(path).to_owned();
    let plain = value.missing.is_empty() && value.used.is_empty();
    if value.missing.is_empty() && value.text.trim().is_empty() {
        let message = format!("`{path}` is empty");
        low.report.error(node.at, path, message);
        return None;
    }
    let shown = mask_url(&mut low.secrets, &value.text);
    if plain && shown != value.text {
        low.literal(path, node, &written, &written);
    }
    settings.texts.insert(key, Secret::new(value.text));
    Some(if plain { shown } else { written })
}

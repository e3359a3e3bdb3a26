//! `[storage]`. Anything wrong in it is an error of the file: where the journal is would be guessed.

use super::address::{mask_url, refuse_mask};
use super::model::Aside;
use super::server::Lowering;
use crate::config::gap::Slot;
use crate::config::node::Entry;
use crate::config::node::Node;
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::secret::MASK;
use crate::config::storage::StorageSettings;
use crate::config::surroundings::Surroundings;
use crate::config::value;
use outrigger_connect::Secret;

const KEYS: &[&str] = &["url", "grace", "replica", "artifacts"];
const BUCKET: &[&str] = &[
    "url",
    "endpoint",
    "region",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "allow_http",
    "virtual_hosted_style_request",
    "timeout",
];

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
            "artifacts" => bucket(low, entry, &mut settings),
            _ => low.report.unknown(Severity::Error, entry, "storage", KEYS),
        }
    }
    let entry_of = |key: &str| {
        let entries = node.table().unwrap_or_default();
        entries.iter().find(|entry| entry.key == key)
    };
    if entry_of("url").is_none()
        && let Some(artifacts) = entry_of("artifacts")
    {
        let message = "`storage.artifacts` needs `storage.url`: contents in a bucket are for replicas, which share an index of them";
        let problem = low.report.error(artifacts.at, "storage.artifacts", message);
        problem.hint("say which database in `[storage] url`, or leave artifacts in their folder");
    }
    settings.written = low.take_written();
    settings.gaps = std::mem::take(&mut low.gaps);
    settings
}

/// `[storage.artifacts]`.
fn bucket(low: &mut Lowering<'_>, table: &Entry, settings: &mut StorageSettings) {
    const SCOPE: &str = "storage.artifacts";
    let entries = value::table(&mut low.report, SCOPE, &table.node).unwrap_or_default();
    for entry in entries {
        let path = join(SCOPE, &entry.key);
        let shown = match entry.key.as_str() {
            "url" | "endpoint" | "region" | "access_key_id" => {
                text(low, entry, &path, settings).map(Into::into)
            }
            "secret_access_key" | "session_token" => {
                let shown = text(low, entry, &path, settings);
                shown.map(|shown| hidden(low, entry, &path, shown).into())
            }
            "allow_http" | "virtual_hosted_style_request" => {
                let said = value::truth(&mut low.report, &path, &entry.node);
                if entry.key == "allow_http" {
                    settings.bucket.allow_http = said.unwrap_or_default();
                } else {
                    settings.bucket.virtual_hosted_style_request = said.unwrap_or_default();
                }
                said.map(Into::into)
            }
            "timeout" => {
                settings.bucket.timeout = value::duration(&mut low.report, &path, &entry.node);
                value::text(&mut low.report, &path, &entry.node).map(Into::into)
            }
            _ => {
                low.report.unknown(Severity::Error, entry, SCOPE, BUCKET);
                continue;
            }
        };
        if let Some(shown) = shown {
            low.note_inner("artifacts", entry, shown);
        }
    }
    if !entries.iter().any(|entry| entry.key == "url") {
        let message = "`storage.artifacts` names no bucket";
        let problem = low.report.error(table.at, SCOPE, message);
        problem.hint("write `url = \"s3://BUCKET/PREFIX\"`");
    }
}

/// What stands for a key that is written out. One that is referred to is known to be a secret anyway.
fn hidden(low: &mut Lowering<'_>, entry: &Entry, path: &str, shown: String) -> String {
    let Some(written) = value::text(&mut low.report, path, &entry.node) else {
        return shown;
    };
    let is_referred_to = low.gaps.iter().any(|gap| gap.key == path) || written.contains("${");
    if is_referred_to {
        return shown;
    }
    low.secrets.add(&written);
    // Else it was told already, by its looks.
    if shown == written {
        low.literal(path, &entry.node, &written, &written);
    }
    MASK.to_owned()
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

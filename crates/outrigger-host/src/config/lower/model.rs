//! `[model]`: the default model and the providers. A provider merges as a whole, like a server.

use indexmap::IndexMap;

use super::address::refuse_mask;
use super::server::Lowering;
use super::transport::{Draft, http_url};
use crate::config::gap::Slot;
use crate::config::literal::Literal;
use crate::config::model::{ApiKey, ModelSettings, ProviderEntry, ProviderSettings, ProviderState};
use crate::config::node::{Entry, Node};
use crate::config::origin::Setting;
use crate::config::problem::{ConfigProblem, Severity};
use crate::config::report::{Report, join};
use crate::config::secret::Secrets;
use crate::config::source::Source;
use crate::config::surroundings::Surroundings;
use crate::config::value;

const KEYS: &[&str] = &[
    "kind",
    "base_url",
    "key",
    "key_env",
    "context_tokens",
    "strict",
    "tool_search",
    "headers",
];

/// What lowering comes upon besides settings.
#[derive(Default)]
pub(crate) struct Aside {
    pub(crate) secrets: Secrets,
    pub(crate) literals: Vec<Literal>,
}

struct Provider {
    entry: ProviderEntry,
    /// Of a provider that can be used all the same.
    warnings: Vec<ConfigProblem>,
    found: Aside,
}

/// Takes over what one file says about models. Files come from the farthest to the nearest.
pub(crate) fn lower(
    report: &mut Report<'_>,
    around: &Surroundings,
    node: &Node,
    settings: &mut ModelSettings,
    found: &mut Aside,
) {
    if !report.source.layer.may_loosen() {
        let message = "`model` in a file of the project is not used: it decides who reads what you ask, and gets your key";
        report
            .warn(node.at, "model", message)
            .hint("say it in your own `outrigger.toml`, or with `--config`");
        return;
    }
    let Some(entries) = value::table(report, "model", node) else {
        return;
    };
    for entry in entries {
        match entry.key.as_str() {
            "default" => {
                if let Some(value) = value::text(report, "model.default", &entry.node) {
                    settings.default = Some(Setting {
                        value,
                        origin: report.origin(entry.at),
                    });
                }
            }
            "providers" => {
                let Some(providers) = value::table(report, "model.providers", &entry.node) else {
                    continue;
                };
                for provider in providers {
                    let lowered = provider_entry(report.source, around, provider);
                    put(&mut settings.providers, &provider.key, lowered.entry);
                    report.problems.extend(lowered.warnings);
                    found.secrets.extend(lowered.found.secrets);
                    found.literals.extend(lowered.found.literals);
                }
            }
            _ => report.unknown(Severity::Error, entry, "model", &["default", "providers"]),
        }
    }
}

fn put(providers: &mut IndexMap<String, ProviderEntry>, name: &str, nearer: ProviderEntry) {
    providers.insert(name.to_owned(), nearer);
}

fn provider_entry(source: &Source, around: &Surroundings, entry: &Entry) -> Provider {
    let path = join("model.providers", &entry.key);
    let mut low = Lowering::new(source, around, &path);
    let settings = provider(&mut low, entry);
    let origin = source.origin(entry.at);
    let Lowering {
        report,
        secrets,
        literals,
        ..
    } = low;
    let (state, warnings) = match settings {
        Some(settings) if !report.has_errors() => {
            (ProviderState::Ready(Box::new(settings)), report.problems)
        }
        _ => (ProviderState::Broken(report.problems), Vec::new()),
    };
    Provider {
        entry: ProviderEntry { origin, state },
        warnings,
        found: Aside { secrets, literals },
    }
}

fn provider(low: &mut Lowering<'_>, provider: &Entry) -> Option<ProviderSettings> {
    let scope = low.path;
    let mut settings = ProviderSettings::default();
    let mut draft = Draft::default();
    for entry in value::table(&mut low.report, scope, &provider.node)? {
        let path = join(scope, &entry.key);
        let origin = low.report.origin(entry.at);
        let setting = |value: String| Setting {
            value,
            origin: origin.clone(),
        };
        let node = &entry.node;
        match entry.key.as_str() {
            "kind" => settings.kind = plain(low, &path, entry).map(setting),
            "key" => settings.key = key(low, &path, entry),
            "key_env" => settings.key_env = plain(low, &path, entry).map(setting),
            "context_tokens" => {
                let value = value::count::<u64>(&mut low.report, &path, node);
                if let Some(value) = value {
                    low.note("context_tokens", entry.at, value.into());
                    settings.context_tokens = Some(Setting { value, origin });
                }
            }
            "strict" => {
                if let Some(value) = value::truth(&mut low.report, &path, node) {
                    low.note("strict", entry.at, value.into());
                    settings.strict = Some(Setting { value, origin });
                }
            }
            "tool_search" => {
                if let Some(value) = value::truth(&mut low.report, &path, node) {
                    low.note("tool_search", entry.at, value.into());
                    settings.tool_search = Some(Setting { value, origin });
                }
            }
            "base_url" => {
                draft.key(low, "url", &path, entry);
                if let Some((at, written)) = draft.take_url()
                    && let Some(value) = http_url(low, &path, at, &written)
                {
                    settings.base_url = Some(Setting { value, origin });
                }
            }
            "headers" => draft.key(low, "headers", &path, entry),
            _ => low.report.unknown(Severity::Error, entry, scope, KEYS),
        }
    }
    settings.headers = draft.take_headers();
    for written in &mut low.written {
        if let Some(first) = written.path.first_mut().filter(|first| *first == "url") {
            "base_url".clone_into(first);
        }
    }
    settings.gaps = std::mem::take(&mut low.gaps);
    settings.written = low.take_written();
    Some(settings)
}

/// The key comes from elsewhere, never from the file itself.
fn key(low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<ApiKey> {
    let node = &entry.node;
    let written = value::text(&mut low.report, path, node)?;
    refuse_mask(low, path, node, &written)?;
    let value = low.expand_value(path, node, &written, Slot::Key)?;
    if value.missing.is_empty() && !written.contains("${") {
        low.secrets.add(&written);
        low.note_literal(path, node, &written, &written);
        let message = format!("`{path}` is a secret that stands in the file itself");
        low.report.error(node.at, path, message).hint(
            "`outrigger secrets import` moves it out; or write a reference such as `env:API_KEY`",
        );
        return None;
    }
    if value.missing.is_empty() && value.text.trim().is_empty() {
        let message = format!("`{path}` is empty");
        low.report.error(node.at, path, message);
        return None;
    }
    low.secrets.add(&value.text);
    low.note("key", entry.at, written.into());
    Some(ApiKey {
        value: value.text,
        origin: low.report.origin(entry.at),
    })
}

fn plain(low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<String> {
    let value = value::text(&mut low.report, path, &entry.node)?;
    low.note(&entry.key, entry.at, value.clone().into());
    Some(value)
}

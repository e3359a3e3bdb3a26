//! `[limits]`, `[timeouts]`, `[builtin]`, `[discovery]` and `[secrets]`. They merge key by key: the nearest file that has a key
//! wins.

use std::time::Duration;

use super::bounds;
use crate::config::defaults::ServerDefaults;
use crate::config::discovery::{DiscoveryMode, DiscoverySettings, Searcher};
use crate::config::node::{Entry, Node, Value};
use crate::config::origin::Setting;
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::run::{BuiltinSettings, RunLimits};
use crate::config::value;

const RUN_LIMITS: [&str; 5] = [
    "max_turns",
    "max_calls",
    "max_tokens",
    "max_time",
    "max_servers",
];

/// Takes over what one file says about times. Files come from the farthest to the nearest.
pub(crate) fn timeouts(report: &mut Report<'_>, node: &Node, defaults: &mut ServerDefaults) {
    for entry in bounds::timeouts(report, "timeouts", node, &mut defaults.deadlines) {
        defaults.note(join("timeouts", &entry.key), report.origin(entry.at));
    }
}

/// Takes over what one file says about limits: those of a run, and those of each server.
pub(crate) fn limits(
    report: &mut Report<'_>,
    node: &Node,
    limits: &mut RunLimits,
    defaults: &mut ServerDefaults,
) {
    let Some(entries) = value::table(report, "limits", node) else {
        return;
    };
    for entry in entries {
        let key = join("limits", &entry.key);
        let node = &entry.node;
        match entry.key.as_str() {
            "max_turns" => set(report, entry, &mut limits.max_turns, |report| {
                value::count(report, &key, node)
            }),
            "max_calls" => set(report, entry, &mut limits.max_calls, |report| {
                value::count(report, &key, node)
            }),
            "max_tokens" => set(
                report,
                entry,
                &mut limits.max_tokens,
                |report| match &node.value {
                    Value::Text(word) if word == "none" => Some(None),
                    _ => value::count(report, &key, node).map(Some),
                },
            ),
            "max_servers" => set(report, entry, &mut limits.max_servers, |report| {
                value::count(report, &key, node)
            }),
            // Two names for one thing: a number reads better with its unit in the key.
            "max_time" | "max_seconds" => {
                set(report, entry, &mut limits.max_time, |report| {
                    value::duration(report, &key, node)
                });
            }
            _ => match bounds::limit(report, "limits", entry, &mut defaults.limits) {
                Some(true) => defaults.note(key, report.origin(entry.at)),
                Some(false) => {}
                None => {
                    let known = [&RUN_LIMITS[..], &bounds::LIMITS].concat();
                    report.unknown(Severity::Error, entry, "limits", &known);
                }
            },
        }
    }
}

/// Takes over what one file says about built-in servers.
pub(crate) fn builtin(report: &mut Report<'_>, node: &Node, builtin: &mut BuiltinSettings) {
    let Some(entries) = value::table(report, "builtin", node) else {
        return;
    };
    for entry in entries {
        let key = join("builtin", &entry.key);
        let slot = match entry.key.as_str() {
            "time" => &mut builtin.time,
            "workspace" => &mut builtin.workspace,
            "echo" => &mut builtin.echo,
            "resources" => &mut builtin.resources,
            "artifacts" => &mut builtin.artifacts,
            _ => {
                report.unknown(
                    Severity::Error,
                    entry,
                    "builtin",
                    &["time", "workspace", "echo", "resources", "artifacts"],
                );
                continue;
            }
        };
        set(report, entry, slot, |report| {
            value::truth(report, &key, &entry.node)
        });
    }
}

const DISCOVERY: [&str; 6] = [
    "mode",
    "context_percent",
    "floor_tokens",
    "index_tokens",
    "embeddings",
    "search",
];

/// Takes over what one file says about how much of the tools a model is shown.
pub(crate) fn discovery(report: &mut Report<'_>, node: &Node, settings: &mut DiscoverySettings) {
    for entry in value::table(report, "discovery", node).unwrap_or_default() {
        let key = join("discovery", &entry.key);
        let node = &entry.node;
        match entry.key.as_str() {
            "mode" => set(report, entry, &mut settings.mode, |report| {
                value::word(report, &key, node, &DiscoveryMode::WORDS)
            }),
            "context_percent" => set(report, entry, &mut settings.context_percent, |report| {
                let percent = value::count(report, &key, node)?;
                if percent > 100 {
                    let message = format!("`{key}` is a share of the context, at most 100");
                    report.error(node.at, &key, message);
                    return None;
                }
                Some(percent)
            }),
            "floor_tokens" => set(report, entry, &mut settings.floor_tokens, |report| {
                value::count(report, &key, node)
            }),
            "index_tokens" => set(report, entry, &mut settings.index_tokens, |report| {
                value::count(report, &key, node)
            }),
            // It may name a file of this machine.
            "embeddings" if !report.source.layer.may_loosen() => {
                let message =
                    format!("`{key}` does not count in a file of a project that is not trusted");
                report.warn(entry.at, &key, message);
            }
            "embeddings" => set(report, entry, &mut settings.embeddings, |report| {
                let name = value::text(report, &key, node)?;
                Some(Some(name).filter(|name| name != "none"))
            }),
            "search" => set(report, entry, &mut settings.search, |report| {
                value::word(report, &key, node, &Searcher::WORDS)
            }),
            _ => report.unknown(Severity::Error, entry, "discovery", &DISCOVERY),
        }
    }
}

/// Takes over what one file says about following references.
pub(crate) fn secrets(report: &mut Report<'_>, node: &Node, timeout: &mut Setting<Duration>) {
    let Some(entries) = value::table(report, "secrets", node) else {
        return;
    };
    for entry in entries {
        if entry.key == "timeout" {
            set(report, entry, timeout, |report| {
                value::duration(report, "secrets.timeout", &entry.node)
            });
        } else {
            report.unknown(Severity::Error, entry, "secrets", &["timeout"]);
        }
    }
}

pub(super) fn set<T>(
    report: &mut Report<'_>,
    entry: &Entry,
    slot: &mut Setting<T>,
    read: impl FnOnce(&mut Report<'_>) -> Option<T>,
) {
    if let Some(value) = read(report) {
        slot.replace(Setting {
            value,
            origin: report.origin(entry.at),
        });
    }
}

//! The effective configuration as JSON, for `config show --json`.

use serde_json::{Map, Value, json};

use super::duration_text;
use crate::config::model::ProviderState;
use crate::config::origin::{Origin, Setting};
use crate::config::policy::PolicyRule;
use crate::config::problem::{ConfigProblem, Severity};
use crate::config::server::{EntryState, WrittenKey};
use crate::config::{Config, FileState, Format, LoadedFile};
use crate::policy::Condition;

/// The configuration with every origin and problem; secrets masked.
pub fn to_json(config: &Config) -> Value {
    let servers: Map<String, Value> = config
        .servers
        .values()
        .map(|entry| {
            let mut object = match &entry.state {
                EntryState::Ready(settings) => {
                    json!({ "state": "ready", "read_only": settings.read_only, "settings": written(&settings.written) })
                }
                EntryState::NeedsTrust(settings) => {
                    json!({ "state": "needs_approval", "read_only": false, "settings": written(&settings.written) })
                }
                EntryState::Disabled => json!({ "state": "disabled" }),
                EntryState::Broken(problems) => json!({ "state": "broken", "problems": list(problems, problem) }),
            };
            object["origin"] = origin(&entry.origin);
            (entry.name.to_string(), object)
        })
        .collect();
    json!({
        "servers": servers,
        "shadowed": list(&config.shadowed, |shadowed| json!({
            "name": shadowed.name.as_str(),
            "origin": origin(&shadowed.origin),
            "by": origin(&shadowed.by),
        })),
        "policy": {
            "default": setting(&config.policy.default, |decision| decision.as_str().into()),
            "mode": setting(&config.policy.mode, |mode| mode.as_str().into()),
            "rules": list(&config.policy.rules, rule),
        },
        "model": model(config),
        "limits": limits(config),
        "timeouts": timeouts(config),
        "tls": tls(config),
        "builtin": builtin(config),
        "discovery": discovery(config),
        "results": results(config),
        "gateway": super::gateway(&config.gateway)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), setting(&value, Clone::clone)))
            .collect::<Map<_, _>>(),
        "hooks": list(&config.hooks, |hook| json!({
            "event": hook.event.as_str(),
            "trusted": hook.is_trusted(),
            "settings": written(&hook.written),
            "origin": origin(&hook.origin),
        })),
        "secrets": { "timeout": setting(&config.secret_timeout, |&time| duration_text(time).into()) },
        "artifacts": super::artifacts(&config.artifacts)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), setting(&value, Clone::clone)))
            .collect::<Map<_, _>>(),
        "files": list(&config.files, file),
        "problems": list(&config.problems, problem),
    })
}

fn list<T>(items: &[T], each: impl Fn(&T) -> Value) -> Value {
    items.iter().map(each).collect()
}

fn setting<T>(setting: &Setting<T>, value: impl FnOnce(&T) -> Value) -> Value {
    json!({ "value": value(&setting.value), "origin": origin(&setting.origin) })
}

fn origin(origin: &Origin) -> Value {
    if origin.line == 0 {
        return json!({ "layer": origin.layer.as_str() });
    }
    json!({
        "layer": origin.layer.as_str(),
        "file": origin.file.to_string_lossy(),
        "line": origin.line,
        "column": origin.column,
    })
}

fn written(keys: &[WrittenKey]) -> Value {
    let value = |key: &WrittenKey| json!({ "value": key.shown, "origin": origin(&key.origin) });
    Value::Object(
        keys.iter()
            .map(|key| (key.path.join("."), value(key)))
            .collect(),
    )
}

fn problem(problem: &ConfigProblem) -> Value {
    json!({
        "severity": match problem.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        },
        "file": problem.file.to_string_lossy(),
        "line": problem.line,
        "column": problem.column,
        "key": problem.key,
        "message": problem.message,
        "hints": problem.hints,
    })
}

fn rule(rule: &PolicyRule) -> Value {
    json!({
        "tool": rule.tools.tool,
        "server": rule.tools.server,
        "raw": rule.tools.raw,
        "prompt": rule.tools.prompt,
        "resource": rule.tools.resource,
        "decision": rule.decision.as_str(),
        "when": rule.when.as_ref().map(Condition::source),
        "counts": rule.counts(),
        "reason": rule.reason,
        "read_only": rule.read_only,
        "broken": rule.broken,
        "origin": origin(&rule.origin),
    })
}

fn model(config: &Config) -> Value {
    let providers: Map<String, Value> = config
        .model
        .providers
        .iter()
        .map(|(name, entry)| {
            let mut object = match &entry.state {
                ProviderState::Ready(settings) => {
                    json!({ "state": "ready", "settings": written(&settings.written) })
                }
                ProviderState::Broken(problems) => {
                    json!({ "state": "broken", "problems": list(problems, problem) })
                }
            };
            object["origin"] = origin(&entry.origin);
            (name.clone(), object)
        })
        .collect();
    let default = config
        .model
        .default
        .as_ref()
        .map(|default| setting(default, |model| model.as_str().into()));
    json!({ "default": default, "providers": providers })
}

fn limits(config: &Config) -> Value {
    let limits = &config.limits;
    let mut all = json!({
        "max_turns": setting(&limits.max_turns, |&turns| turns.into()),
        "max_calls": setting(&limits.max_calls, |&calls| calls.into()),
        "max_tokens": setting(&limits.max_tokens, |&tokens| tokens.into()),
        "max_time": setting(&limits.max_time, |&time| duration_text(time).into()),
    });
    for (key, bound) in super::server_limits(&config.defaults) {
        all[key] = setting(&bound, Value::clone);
    }
    all
}

fn timeouts(config: &Config) -> Value {
    let times = super::timeouts(&config.defaults).into_iter();
    Value::Object(
        times
            .map(|(key, time)| (key.to_owned(), setting(&time, Value::clone)))
            .collect(),
    )
}

fn tls(config: &Config) -> Value {
    let files = super::authorities(&config.defaults);
    json!({ "ca_files": files.map(|files| setting(&files, Value::clone)) })
}

fn builtin(config: &Config) -> Value {
    let running = config.builtin_servers();
    let value = |on: &Setting<bool>, name: &str| {
        let mut object = setting(on, |&on| on.into());
        object["running"] = running.contains(&name).into();
        object
    };
    let mut all: Map<String, Value> = config
        .builtin
        .each()
        .into_iter()
        .map(|(name, on)| (name.to_owned(), value(on, name)))
        .collect();
    let artifacts = setting(&config.builtin.artifacts, |&on| on.into());
    all.insert("artifacts".to_owned(), artifacts);
    Value::Object(all)
}

fn results(config: &Config) -> Value {
    let each = config.results.each().into_iter();
    let mut all: Map<String, Value> = each
        .map(|(key, tokens)| (key.to_owned(), setting(tokens, |&tokens| tokens.into())))
        .collect();
    let tools = list(
        &config.results.tools,
        |room| json!({ "tool": room.written, "tokens": room.tokens, "origin": origin(&room.origin) }),
    );
    all.insert("tools".to_owned(), tools);
    Value::Object(all)
}

fn discovery(config: &Config) -> Value {
    let settings = super::discovery(&config.discovery).into_iter();
    Value::Object(
        settings
            .map(|(key, value)| (key.to_owned(), setting(&value, Value::clone)))
            .collect(),
    )
}

fn file(file: &LoadedFile) -> Value {
    let (state, servers) = match file.state {
        FileState::Missing => ("missing", None),
        FileState::Read { servers } => ("read", Some(servers)),
        FileState::Broken => ("broken", None),
    };
    json!({
        "path": file.path.to_string_lossy(),
        "layer": file.layer.as_str(),
        "format": match file.format {
            Format::Json => "json",
            Format::Toml => "toml",
            Format::Yaml => "yaml",
        },
        "state": state,
        "servers": servers,
    })
}

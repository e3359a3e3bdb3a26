//! The effective configuration, to be read by people ([`render`]) and programs ([`to_json`]).
//! Secrets are masked; a value with variables stands as it was written.

mod json;
mod toml;

pub use json::to_json;
pub use toml::render;

use std::time::Duration;

use serde_json::Value;

use super::artifacts::ArtifactSettings;
use super::defaults::ServerDefaults;
use super::discovery::DiscoverySettings;
use super::gateway::GatewaySettings;
use super::origin::Setting;

/// `[timeouts]`.
fn timeouts(defaults: &ServerDefaults) -> [(&'static str, Setting<Value>); 7] {
    let deadlines = &defaults.deadlines;
    [
        ("start", deadlines.start),
        ("probe", deadlines.probe),
        ("list", deadlines.list),
        ("call", deadlines.call),
        ("call_hard", deadlines.call_hard),
        ("late", deadlines.late),
        ("close", deadlines.close),
    ]
    .map(|(key, value)| {
        let origin = defaults.origin(&format!("timeouts.{key}"));
        let value = duration_text(value).into();
        (key, Setting { value, origin })
    })
}

/// `[discovery]`.
fn discovery(settings: &DiscoverySettings) -> [(&'static str, Setting<Value>); 4] {
    fn shown<T>(setting: &Setting<T>, value: impl Into<Value>) -> Setting<Value> {
        Setting {
            value: value.into(),
            origin: setting.origin.clone(),
        }
    }
    let DiscoverySettings {
        mode,
        context_percent,
        floor_tokens,
        index_tokens,
    } = settings;
    [
        ("mode", shown(mode, mode.value.as_str())),
        (
            "context_percent",
            shown(context_percent, context_percent.value),
        ),
        ("floor_tokens", shown(floor_tokens, floor_tokens.value)),
        ("index_tokens", shown(index_tokens, index_tokens.value)),
    ]
}

/// The keys of `[limits]` that bound a server.
fn server_limits(defaults: &ServerDefaults) -> [(&'static str, Setting<Value>); 6] {
    let limits = &defaults.limits;
    [
        ("frame_bytes", size_value(limits.frame_bytes)),
        ("depth", limits.depth.into()),
        ("tools", limits.tools.into()),
        ("pages", limits.pages.into()),
        (
            "notifications_per_second",
            limits.notifications_per_second.into(),
        ),
        ("concurrent_calls", limits.concurrent_calls.into()),
    ]
    .map(|(key, value)| {
        let origin = defaults.origin(&format!("limits.{key}"));
        (key, Setting { value, origin })
    })
}

/// `tls.ca_files`; `None` where there are none.
fn authorities(defaults: &ServerDefaults) -> Option<Setting<Value>> {
    let files = defaults.ca_files.iter();
    let value: Vec<_> = files.map(|file| file.to_string_lossy()).collect();
    (!value.is_empty()).then(|| Setting {
        value: value.into(),
        origin: defaults.origin("tls.ca_files"),
    })
}

/// `[artifacts]`.
fn artifacts(settings: &ArtifactSettings) -> [(&'static str, Setting<Value>); 2] {
    let ArtifactSettings { older_than, keep } = settings;
    let none = || Value::from("none");
    [
        (
            "older_than",
            Setting {
                value: older_than
                    .value
                    .map_or_else(none, |time| duration_text(time).into()),
                origin: older_than.origin.clone(),
            },
        ),
        (
            "keep",
            Setting {
                value: keep.value.map_or_else(none, size_value),
                origin: keep.origin.clone(),
            },
        ),
    ]
}

/// `[gateway]`.
fn gateway(settings: &GatewaySettings) -> [(&'static str, Setting<Value>); 3] {
    let GatewaySettings {
        approvals,
        approval_timeout,
        drain_timeout,
    } = settings;
    let time = |setting: &Setting<Duration>| Setting {
        value: duration_text(setting.value).into(),
        origin: setting.origin.clone(),
    };
    let ways: Vec<_> = approvals.value.iter().map(|way| way.as_str()).collect();
    [
        (
            "approvals",
            Setting {
                value: ways.into(),
                origin: approvals.origin.clone(),
            },
        ),
        ("approval_timeout", time(approval_timeout)),
        ("drain_timeout", time(drain_timeout)),
    ]
}

/// A size in the words of the configuration.
fn size_value(bytes: usize) -> Value {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20).into()
    } else {
        bytes.into()
    }
}

/// A duration in the words of the configuration.
fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        _ if !millis.is_multiple_of(1000) => format!("{millis}ms"),
        _ if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ => format!("{}s", millis / 1000),
    }
}

//! The effective configuration, to be read by people ([`render`]) and programs ([`to_json`]).
//! Secrets are masked; a value with variables stands as it was written.

mod json;
mod toml;

pub use json::to_json;
pub use toml::render;

use std::time::Duration;

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

//! The one entry that leads a host here, in the words of each host.

use std::path::Path;

use outrigger_host::config::foreign::Host;
use serde_json::{Map, Value, json};
use url::Url;

use super::Wanted;

/// How a host reaches this program.
pub(crate) enum Start<'a> {
    /// It starts it, with these arguments.
    Program(&'a Path, Vec<String>),
    /// It connects to where it listens.
    Url(&'a Url),
}

/// Keys that say how a server is reached; those that an entry does not want are taken out.
const WAYS: &[&str] = &["command", "args", "url", "httpUrl", "type", "source"];

/// The entry of a host; `None` where it cannot reach us that way.
pub(crate) fn entry(host: Host, start: &Start<'_>) -> Option<Wanted> {
    let (mut keys, mut first) = (Map::new(), Map::new());
    let mut set = |key: &str, value: Value| drop(keys.insert(key.to_owned(), value));
    match start {
        Start::Program(program, args) => {
            let command = program.to_string_lossy().into_owned();
            if host == Host::Opencode {
                let line: Vec<_> = std::iter::once(&command).chain(args).collect();
                set("type", json!("local"));
                set("command", json!(line));
            } else {
                match host {
                    Host::Claude | Host::VsCode => set("type", json!("stdio")),
                    Host::Zed => set("source", json!("custom")),
                    _ => {}
                }
                set("command", json!(command));
                set("args", json!(args));
            }
        }
        Start::Url(url) => {
            let url = json!(url.as_str());
            match host {
                Host::ClaudeDesktop => return None,
                Host::Claude | Host::VsCode => {
                    set("type", json!("http"));
                    set("url", url);
                }
                Host::Opencode => {
                    set("type", json!("remote"));
                    set("url", url);
                }
                Host::Gemini => set("httpUrl", url),
                Host::Codex | Host::Cursor | Host::Zed => set("url", url),
            }
        }
    }
    if host == Host::Opencode {
        // Version 2 has `disabled` instead, and does not mind.
        first.insert("enabled".to_owned(), json!(true));
    }
    if host == Host::Codex {
        // Without it Codex asks its model before tools are there, and does not list again.
        first.insert("required".to_owned(), json!(true));
    }
    Some(Wanted::Keys {
        keys,
        instead: Some(WAYS),
        first,
        comment: None,
    })
}

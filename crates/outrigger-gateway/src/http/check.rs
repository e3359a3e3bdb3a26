//! The head of a request: where it comes from, what it takes, and whether it agrees with its body.
//!
//! Source: MCP 2025-11-25, "Streamable HTTP", "Security Warning"; 2026-07-28, "Standard Headers"
//! (SEP-2243).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use outrigger_connect::wire::LEGACY;
use outrigger_host::config::GatewaySettings;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::Meta;
use crate::message::{Fault, HEADER_MISMATCH};

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What proxies add (RFC 7239, RFC 9110 section 7.6.3, and what they did before).
const PASSED_ON: [&str; 5] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
];

/// What the client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) document: bool,
    pub(super) stream: bool,
}

/// Refuses what a page of another site may have sent: its name for this machine is not ours (DNS
/// rebinding), and browsers say which site it is. `here` is the address that was connected to: a name
/// of another site may lead to it, the address itself is nobody else's.
pub(super) fn origin(
    headers: &HeaderMap,
    access: &GatewaySettings,
    here: IpAddr,
) -> Result<(), &'static str> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).and_then(host_of);
    if !host.is_some_and(|host| is_here(host) || is_known(host, access, here)) {
        return Err("`Host` is not this machine; `[gateway] allowed_hosts` names others");
    }
    let Some(origin) = text(ORIGIN) else {
        return Ok(());
    };
    let place = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    let allowed = access.allowed_origins.iter().any(|known| known == origin);
    if allowed || place.and_then(host_of).is_some_and(is_here) {
        Ok(())
    } else {
        Err("`Origin` is not this machine; `[gateway] allowed_origins` names others")
    }
}

/// Whether a request names this machine, and no proxy says that it has passed it on.
pub(super) fn is_direct(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.and_then(host_of).is_some_and(is_here)
        && !PASSED_ON.iter().any(|name| headers.contains_key(*name))
}

/// The host of an authority, without its port.
fn host_of(authority: &str) -> Option<&str> {
    match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if port.is_empty() || port.starts_with(':') => Some(host),
            _ => None,
        },
        None => Some(
            authority
                .split_once(':')
                .map_or(authority, |(host, _)| host),
        ),
    }
}

fn is_here(host: &str) -> bool {
    ["localhost", "127.0.0.1", "::1"]
        .iter()
        .any(|name| host.eq_ignore_ascii_case(name))
}

fn is_known(host: &str, access: &GatewaySettings, here: IpAddr) -> bool {
    let url = access.url.as_ref().and_then(|url| url.value.host_str());
    let mut names = access.allowed_hosts.iter().map(String::as_str).chain(url);
    names.any(|name| name.trim_matches(['[', ']']).eq_ignore_ascii_case(host))
        || host.parse() == Ok(here)
}

/// What `Accept` names; without one, all.
pub(super) fn accepts(headers: &HeaderMap) -> Accepts {
    let mut named = headers.get_all(ACCEPT).iter().peekable();
    if named.peek().is_none() {
        return Accepts {
            document: true,
            stream: true,
        };
    }
    let mut accepts = Accepts {
        document: false,
        stream: false,
    };
    for value in named {
        for kind in value.to_str().unwrap_or_default().split(',') {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            let all = kind == "*/*";
            accepts.document |= all || matches!(kind, "application/json" | "application/*");
            accepts.stream |= all || matches!(kind, "text/event-stream" | "text/*");
        }
    }
    accepts
}

/// Whether a body is said to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// The version that the head names, if it is none of the legacy era.
pub(super) fn modern_version(headers: &HeaderMap) -> Option<&str> {
    let version = headers.get(VERSION)?.to_str().unwrap_or("?");
    (!LEGACY.contains(&version)).then_some(version)
}

/// Whether the head of a modern request says what its body says.
pub(super) fn agrees(
    headers: &HeaderMap,
    method: &str,
    params: Option<&RawValue>,
) -> Result<(), Fault> {
    let mismatch = |words: String| Fault::new(HEADER_MISMATCH, words);
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap_or("?"));
        match values.next() {
            None => Ok(value),
            Some(_) => Err(mismatch(format!(
                "the header `{name}` is there more than once"
            ))),
        }
    };
    let (version, said, name) = (single(&VERSION)?, single(&METHOD)?, single(&NAME)?);
    let meta = Meta::of(params).unwrap_or_default();
    // A request that says nothing of itself is told what is missing.
    let Some(of_body) = meta.version else {
        return Ok(());
    };
    if let Ok(of_body) = serde_json::from_str::<String>(of_body.get())
        && version != Some(&of_body)
    {
        return Err(mismatch(format!(
            "the header `{VERSION}` does not name the version of the body"
        )));
    }
    if said != Some(method) {
        return Err(mismatch(format!(
            "the header `{METHOD}` does not name the method of the body"
        )));
    }
    match subject(method, params) {
        Some(subject) if name.and_then(decoded).as_deref() != Some(&subject) => Err(mismatch(
            format!("the header `{NAME}` does not name what the body is about"),
        )),
        _ => Ok(()),
    }
}

/// What `Mcp-Name` repeats.
fn subject(method: &str, params: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        uri: Option<String>,
        #[serde(rename = "taskId", default)]
        task: Option<String>,
    }
    let shape: Shape = serde_json::from_str(params?.get()).ok()?;
    match method {
        "tools/call" | "prompts/get" => shape.name,
        "resources/read" => shape.uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => shape.task,
        _ => None,
    }
}

/// A value that a header could not hold comes in base64.
fn decoded(value: &str) -> Option<String> {
    let inner = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn only_this_machine_is_here() {
        for host in [
            "localhost:1",
            "LOCALHOST",
            "127.0.0.1:4180",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(host_of(host).is_some_and(is_here), "{host}");
        }
        for host in [
            "",
            "evil.example:4180",
            "127.0.0.1.evil.example",
            "[::1]x",
            "[::1",
            "::1",
            "localhost.",
            "127.0.0.2",
        ] {
            assert!(!host_of(host).is_some_and(is_here), "{host}");
        }
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let access = GatewaySettings::default();
        let asked = |pairs: &[_]| origin(&headers(pairs), &access, loopback).is_ok();
        assert!(asked(&[("host", "localhost")]));
        assert!(asked(&[
            ("host", "localhost"),
            ("origin", "http://localhost:6274")
        ]));
        assert!(!asked(&[]));
        for origin in [
            "null",
            "http://evil.example",
            "file://",
            "http://localhost.evil.example",
        ] {
            assert!(
                !asked(&[("host", "localhost"), ("origin", origin)]),
                "{origin}"
            );
        }
    }

    #[test]
    fn other_names_are_known_where_configuration_says_so() {
        let mut access = GatewaySettings::default();
        access.allowed_hosts.push("mcp.example.com".to_owned());
        access
            .allowed_origins
            .push("https://app.example.com".to_owned());
        let here = IpAddr::from([192, 0, 2, 7]);
        let asked = |pairs: &[_]| origin(&headers(pairs), &access, here).is_ok();
        for (host, good) in [
            ("mcp.example.com", true),
            ("MCP.example.com:443", true),
            ("192.0.2.7:4180", true),
            ("192.0.2.8:4180", false),
            ("mcp.example.com.evil.example", false),
            ("evil.example", false),
        ] {
            assert_eq!(asked(&[("host", host)]), good, "{host}");
        }
        for (origin, good) in [
            ("https://app.example.com", true),
            ("http://app.example.com", false),
            ("https://mcp.example.com", false),
            ("https://app.example.com.evil.example", false),
        ] {
            let pairs = [("host", "mcp.example.com"), ("origin", origin)];
            assert_eq!(asked(&pairs), good, "{origin}");
        }
    }

    #[test]
    fn a_head_that_says_something_else_is_refused() {
        let params = RawValue::from_string(
            r#"{"name":"é","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#
                .to_owned(),
        )
        .unwrap();
        let good = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?w6k=?="),
        ];
        let check = |pairs: &[_]| agrees(&headers(pairs), "tools/call", Some(&params));
        assert_eq!(check(&good), Ok(()));
        for wrong in 0..good.len() {
            let mut pairs = good;
            pairs[wrong].1 = "x";
            assert_eq!(check(&pairs).unwrap_err().code, HEADER_MISMATCH);
            let left: Vec<_> = good
                .into_iter()
                .filter(|pair| *pair != good[wrong])
                .collect();
            assert!(check(&left).is_err());
            assert!(check(&[&good[..], &good[wrong..=wrong]].concat()).is_err());
        }
    }
}

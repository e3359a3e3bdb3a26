//! The HTTP clients that all connections share, and what a specification gives them.
//!
//! Promises: pooled connections without delay; no redirect is followed here; a loopback address is
//! never asked for through a proxy.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::{Host, Url};

use crate::HttpSpec;

/// A pooled connection that was idle this long is not used again: shorter than the idle limits of
/// common servers and load balancers (60 s), so that a call rarely meets a closing connection.
const IDLE: Duration = Duration::from_secs(50);

const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A specification that no request can be made from.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum BadHttpSpec {
    #[error("the header `{0}` is not a valid HTTP header name")]
    Name(String),
    #[error("the value of the header `{0}` has characters that HTTP does not allow")]
    Value(String),
    #[error("the address `{0}` is not one of {1}")]
    Scheme(String, &'static str),
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

/// One client that may use the system's proxies, one that does not; each made when first needed.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    agent: Arc<str>,
    direct: Arc<OnceLock<Result<reqwest::Client, String>>>,
    proxied: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl Clients {
    pub(crate) fn new(agent: &str) -> Self {
        Self {
            agent: agent.into(),
            direct: Arc::default(),
            proxied: Arc::default(),
        }
    }

    pub(crate) fn client_for(&self, url: &Url) -> Result<reqwest::Client, BadHttpSpec> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadHttpSpec::Scheme(url.to_string(), "`http:` or `https:`"));
        }
        let local = is_loopback(url);
        let slot = if local { &self.direct } else { &self.proxied };
        slot.get_or_init(|| self.build(local))
            .clone()
            .map_err(BadHttpSpec::Client)
    }

    fn build(&self, local: bool) -> Result<reqwest::Client, String> {
        install_crypto();
        let builder = reqwest::Client::builder()
            .user_agent(self.agent.as_ref())
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEP_ALIVE)
            .pool_idle_timeout(IDLE);
        let builder = if local { builder.no_proxy() } else { builder };
        builder.build().map_err(|error| deepest(&error))
    }
}

/// Only the first call in a process installs a provider, and every crate here wants the same.
pub(crate) fn install_crypto() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}

/// Whether an address stays on this machine, by its name alone.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}

/// The configured headers, checked, and marked so that nothing prints them.
pub(crate) fn headers(spec: &HttpSpec) -> Result<HeaderMap, BadHttpSpec> {
    let mut headers = HeaderMap::new();
    for (name, value) in &spec.headers {
        let parsed =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| BadHttpSpec::Name(name.clone()))?;
        let mut value =
            HeaderValue::from_str(value).map_err(|_| BadHttpSpec::Value(name.clone()))?;
        value.set_sensitive(true);
        headers.append(parsed, value);
    }
    Ok(headers)
}

/// The innermost cause: what the operating system or the TLS library said.
pub(crate) fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_name() {
        for (address, local) in [
            ("http://127.0.0.1:8000/mcp", true),
            ("http://127.8.9.1/", true),
            ("http://[::1]:3/", true),
            ("https://localhost/x", true),
            ("https://api.localhost/x", true),
            ("https://localhost.example.com/x", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(
                is_loopback(&Url::parse(address).unwrap()),
                local,
                "{address}"
            );
        }
    }
}

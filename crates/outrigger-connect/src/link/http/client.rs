//! The HTTP clients that all connections share, and what a specification gives them.
//!
//! Promises: pooled connections without delay, one pool for all who trust the same; no redirect is
//! followed here; a loopback address is never asked for through a proxy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::{Host, Url};

use crate::HttpSpec;
use crate::link::tls::{self, BadAuthorities};

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
    #[error(transparent)]
    Authorities(#[from] BadAuthorities),
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

/// Clients that may use the system's proxies, and such that do not; each made when first needed.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    agent: Arc<str>,
    made: Arc<Mutex<HashMap<Needs, reqwest::Client>>>,
}

/// What one client is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Needs {
    local: bool,
    /// Files of authorities that are trusted besides the system's.
    authorities: Vec<PathBuf>,
}

impl Clients {
    pub(crate) fn new(agent: &str) -> Self {
        Self {
            agent: agent.into(),
            made: Arc::default(),
        }
    }

    pub(crate) fn client_for(&self, spec: &HttpSpec) -> Result<reqwest::Client, BadHttpSpec> {
        let url = &spec.url;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadHttpSpec::Scheme(url.to_string(), "`http:` or `https:`"));
        }
        let needs = Needs {
            local: is_loopback(url),
            authorities: spec.ca_files.clone(),
        };
        // Held while one is made: others who need the same wait for it.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&needs) {
            return Ok(client.clone());
        }
        let client = self.build(&needs)?;
        made.insert(needs, client.clone());
        Ok(client)
    }

    fn build(&self, needs: &Needs) -> Result<reqwest::Client, BadHttpSpec> {
        install_crypto();
        let builder = reqwest::Client::builder()
            .user_agent(self.agent.as_ref())
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEP_ALIVE)
            .pool_idle_timeout(IDLE);
        let builder = if needs.local {
            builder.no_proxy()
        } else {
            builder
        };
        let bad = |error: reqwest::Error| BadHttpSpec::Client(deepest(&error));
        trusting(builder, &needs.authorities)?.build().map_err(bad)
    }
}

/// With these authorities besides those of the system.
pub(crate) fn trusting(
    builder: reqwest::ClientBuilder,
    files: &[PathBuf],
) -> Result<reqwest::ClientBuilder, BadHttpSpec> {
    if files.is_empty() {
        return Ok(builder);
    }
    let found = tls::certificates(files)?;
    let read: Result<Vec<_>, _> = found
        .iter()
        .map(|found| reqwest::Certificate::from_der(found))
        .collect();
    let read = read.map_err(|error| BadHttpSpec::Client(deepest(&error)))?;
    Ok(builder.tls_certs_merge(read))
}

/// Only the first call in a process installs a provider, and every crate here wants the same.
pub(crate) fn install_crypto() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}

/// Whether an address stays on this machine, by its name alone.
pub(crate) fn is_loopback(url: &Url) -> bool {
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

//! Which addresses may be called on behalf of one configured server.
//!
//! Promises: what a server or its metadata names is called over `https` only, and only at public
//! addresses; every address that a name stands for is checked, when it is looked at and again when
//! it is connected to. The configured host is the exception: the person named it, so it may be
//! private, and on loopback also without TLS.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::OAuthError;

/// What may be called.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    /// The host that configuration names.
    named: Option<Host<String>>,
}

impl Reach {
    pub(super) fn of(endpoint: &Url) -> Self {
        Self {
            named: endpoint.host().map(|host| host.to_owned()),
        }
    }

    /// Checks what can be seen of an address without asking for its name.
    pub(super) fn check(&self, url: &Url) -> Result<(), OAuthError> {
        let forbidden = |reason| {
            Err(OAuthError::Forbidden {
                place: place(url),
                reason,
            })
        };
        let Some(host) = url.host() else {
            return forbidden("it names no host");
        };
        if !url.username().is_empty() || url.password().is_some() {
            return forbidden("it carries a user name");
        }
        let named = self.is_named(&host);
        match url.scheme() {
            "https" => {}
            "http" if named && is_loopback(&host) => {}
            "http" => return forbidden("it is not `https`"),
            _ => return forbidden("it is neither `https` nor `http`"),
        }
        let literal = match host {
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
            Host::Domain(_) => None,
        };
        match literal {
            Some(ip) if !named && !is_public(ip) => forbidden(PRIVATE),
            _ => Ok(()),
        }
    }

    /// Checks an address and all that its name stands for. A name that cannot be looked up here may
    /// still be known to a proxy.
    pub(super) async fn check_resolved(&self, url: &Url) -> Result<(), OAuthError> {
        self.check(url)?;
        let Some(name) = self.to_resolve(url) else {
            return Ok(());
        };
        let port = url.port_or_known_default().unwrap_or(443);
        let found = match tokio::net::lookup_host((name.as_str(), port)).await {
            Ok(found) => found.collect::<Vec<_>>(),
            Err(_) => Vec::new(),
        };
        if found.iter().all(|address| is_public(address.ip())) {
            Ok(())
        } else {
            Err(OAuthError::Forbidden {
                place: place(url),
                reason: PRIVATE,
            })
        }
    }

    /// Looks names up for a request to `url`: that host's addresses are all to be public, any other
    /// name is a proxy's.
    pub(super) fn resolver(&self, url: &Url) -> Resolver {
        Resolver {
            to_check: self.to_resolve(url),
        }
    }

    /// The name of a host that is not the configured one.
    fn to_resolve(&self, url: &Url) -> Option<String> {
        match url.host() {
            Some(host @ Host::Domain(name)) if !self.is_named(&host) => Some(name.to_owned()),
            _ => None,
        }
    }

    /// Whether this is the configured host.
    pub(super) fn names(&self, url: &Url) -> bool {
        url.host().is_some_and(|host| self.is_named(&host))
    }

    fn is_named(&self, host: &Host<&str>) -> bool {
        self.named
            .as_ref()
            .is_some_and(|named| named.to_string() == host.to_string())
    }
}

const PRIVATE: &str =
    "it is a private, loopback or link-local address that the configuration does not name";

/// The origin of an address, for a person: no path, no query.
pub(super) fn place(url: &Url) -> String {
    match url.host_str() {
        Some(host) => {
            let port = url
                .port()
                .map(|port| format!(":{port}"))
                .unwrap_or_default();
            format!("{}://{host}{port}", url.scheme())
        }
        None => format!("{}:", url.scheme()),
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}

/// Looks names up as the system does, and refuses private addresses of one of them.
pub(super) struct Resolver {
    to_check: Option<String>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let checked = self
            .to_check
            .as_deref()
            .is_some_and(|host| host.eq_ignore_ascii_case(name.as_str()));
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if checked && !found.iter().all(|address| is_public(address.ip())) {
                return Err(PRIVATE.into());
            }
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

/// Globally reachable, by the special-purpose registries of IANA (RFC 6890).
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b));
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    let last = embedded(segments[6], segments[7]);
    match segments {
        // IPv4-compatible, unspecified and loopback among them; documentation; Teredo, which
        // carries an IPv4 address that cannot be told.
        [0, 0, 0, 0, 0, 0, ..] | [0x2001, 0xdb8 | 0, ..] => false,
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(last),
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Only what is assigned as global unicast is global.
        [first, ..] => (first & 0xe000) == 0x2000,
    }
}

/// The IPv4 address in two segments of an IPv6 address.
fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(configured: &str, url: &str) -> bool {
        Reach::of(&Url::parse(configured).unwrap())
            .check(&Url::parse(url).unwrap())
            .is_ok()
    }

    #[test]
    fn only_public_hosts_by_tls_or_the_configured_one() {
        let public = "https://mcp.example.com/mcp";
        for (configured, url, called) in [
            (public, "https://login.example.net/x", true),
            (public, "http://login.example.net/x", false),
            (public, "https://10.0.0.1/x", false),
            (public, "https://[fd00::1]/x", false),
            (public, "https://[::ffff:127.0.0.1]/x", false),
            (public, "https://8.8.8.8/x", true),
            (public, "https://user@login.example.net/x", false),
            (public, "file:///etc/passwd", false),
            (public, "javascript:alert(1)", false),
            ("https://10.0.0.1/mcp", "https://10.0.0.1:9/x", true),
            ("http://10.0.0.1/mcp", "http://10.0.0.1/x", false),
            ("http://127.0.0.1:5/mcp", "http://127.0.0.1:6/x", true),
            ("http://127.0.0.1:5/mcp", "http://127.0.0.2:5/x", false),
            ("http://127.0.0.1:5/mcp", "https://127.0.0.2:5/x", false),
            ("http://127.0.0.1:5/mcp", "http://localhost:5/x", false),
            ("http://localhost:5/mcp", "http://localhost:6/x", true),
            ("http://127.0.0.1:5/mcp", "http://169.254.169.254/x", false),
        ] {
            assert_eq!(verdict(configured, url), called, "{configured} {url}");
        }
    }

    #[test]
    fn special_addresses_are_not_public() {
        for (ip, public) in [
            ("0.0.0.0", false),
            ("100.64.0.1", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("1.1.1.1", true),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::a00:1", false),
            ("64:ff9b::808:808", true),
            ("2002:a00:1::1", false),
            ("fe80::1", false),
            ("fc00::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("2606:4700::1111", true),
        ] {
            assert_eq!(is_public(ip.parse().unwrap()), public, "{ip}");
        }
    }

    #[tokio::test]
    async fn a_name_is_as_private_as_its_addresses() {
        let reach = Reach::of(&Url::parse("https://mcp.example.com/").unwrap());
        let local = Url::parse("https://localhost:1/x").unwrap();
        assert!(reach.check_resolved(&local).await.is_err());
        let refused = reach.resolver(&local).resolve("localhost".parse().unwrap());
        assert!(refused.await.is_err());
        let proxy = reach.resolver(&Url::parse("https://login.example.net/").unwrap());
        assert!(proxy.resolve("localhost".parse().unwrap()).await.is_ok());
    }
}

//! What a person should know about a server that works: what was set aside, what it sends that is of
//! no use, what cannot be seen in what it says.

use outrigger_connect::{Connection, HttpSpec, TransportSpec};
use outrigger_host::catalog::ServerCatalog;
use outrigger_host::hidden;
use url::Host;

/// About how it is reached.
pub(super) fn of_transport(transport: &TransportSpec) -> Option<String> {
    let (TransportSpec::Http(http) | TransportSpec::Sse(http) | TransportSpec::WebSocket(http)) =
        transport
    else {
        return None;
    };
    let plain = matches!(http.url.scheme(), "http" | "ws");
    (plain && !is_here(http)).then(|| {
        let host = http.url.host_str().unwrap_or_default();
        let sent = if http.headers.is_empty() {
            "everything"
        } else {
            "everything, the configured headers too,"
        };
        format!("not encrypted: {sent} can be read on the way to {host}")
    })
}

fn is_here(http: &HttpSpec) -> bool {
    match http.url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// About what it sends.
pub(super) fn of_server(connection: &Connection, catalog: &ServerCatalog) -> Vec<String> {
    let mut out = Vec::new();
    let set_aside = catalog.set_aside.iter();
    out.extend(set_aside.map(|tool| format!("tool `{}` set aside: {}", tool.tool, tool.reason)));
    out.extend(catalog.problems.iter().cloned());
    out.extend(connection.remarks());
    let instructions = connection.peer().instructions.as_deref();
    if instructions.and_then(hidden::first).is_some() {
        out.push("its instructions hold characters that no reader sees".to_owned());
    }
    for tool in &catalog.tools {
        if tool.description.trim().is_empty() {
            out.push(format!("`{}` has no description", tool.raw_name));
        }
    }
    out
}

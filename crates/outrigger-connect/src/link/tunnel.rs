//! A connection to a host, through a proxy where the environment names one.
//!
//! Promises: the same rules as for HTTP, which reqwest takes from the same place: `HTTPS_PROXY`,
//! `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` and the system's settings; a loopback address is never asked
//! for through a proxy; nothing that the proxy says is taken for the server's. Leaves out: SOCKS, and
//! proxies that are spoken to over TLS. Source: RFC 9110, section 9.3.6.

use std::io;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::http::Uri;
use url::Url;

use super::http::client::is_loopback;
use crate::text::excerpt;

/// Bytes that a proxy may say before the way is open.
const LONGEST: usize = 16 << 10;

/// Connects to the host of a `ws` or `wss` address. The error says why, without the address.
pub(super) async fn dial(url: &Url) -> Result<TcpStream, String> {
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err("the address has no host".to_owned());
    };
    let target = format!("{host}:{port}");
    let stream = match proxy_for(url, &target) {
        Some(proxy) => through(&proxy, &target).await?,
        None => connect(&target).await?,
    };
    // Messages are small and waited for.
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    Ok(stream)
}

fn proxy_for(url: &Url, target: &str) -> Option<Intercept> {
    if is_loopback(url) {
        return None;
    }
    let scheme = if url.scheme() == "wss" {
        "https"
    } else {
        "http"
    };
    let uri: Uri = format!("{scheme}://{target}/").parse().ok()?;
    Matcher::from_system().intercept(&uri)
}

async fn connect(target: &str) -> Result<TcpStream, String> {
    TcpStream::connect(target)
        .await
        .map_err(|error| error.to_string())
}

/// Has the proxy open a way to `target`.
async fn through(proxy: &Intercept, target: &str) -> Result<TcpStream, String> {
    let uri = proxy.uri();
    let (Some(host), Some("http")) = (uri.host(), uri.scheme_str()) else {
        let scheme = uri.scheme_str().unwrap_or("no scheme");
        return Err(format!(
            "the proxy has an address with `{scheme}`; only `http` is spoken to a proxy here"
        ));
    };
    let place = format!("{host}:{}", uri.port_u16().unwrap_or(80));
    let ask = async {
        let mut stream = TcpStream::connect(&place).await?;
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(credentials) = proxy.basic_auth() {
            head.extend_from_slice(b"Proxy-Authorization: ");
            head.extend_from_slice(credentials.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        stream.write_all(&head).await?;
        let answer = answer(&mut stream).await?;
        Ok::<_, io::Error>((stream, answer))
    };
    let (stream, answer) = ask
        .await
        .map_err(|error| format!("the proxy {place}: {error}"))?;
    let line = answer
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let status = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if status.len() == 3 && status.starts_with(b"2") {
        return Ok(stream);
    }
    let said = excerpt(line, 100);
    Err(format!("the proxy {place} opens no way there: {said}"))
}

/// The head of the answer. Byte by byte: what follows it is not for us to take.
async fn answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST {
            return Err(io::Error::other("it says too much"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

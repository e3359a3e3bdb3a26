//! The one place in this program that listens: for the redirect of a page to sign in on.
//!
//! Promises: on 127.0.0.1 and a free port only, for one visit only; what does not carry the visit's
//! own `state` is answered with 404 and does not end it; requests are bounded in size and time.
//! Source: RFC 8252, sections 7.3 and 8.3.

use std::net::Ipv4Addr;
use std::time::Duration;

use outrigger_connect::VisitError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

const PATH: &str = "/callback";

/// Bytes of a request that are read.
const LARGEST: usize = 16 << 10;

/// How long one request may take. Browsers open connections that they may not use.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections at one time.
const CONNECTIONS: usize = 16;

const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Outrigger</title>\
    <p>Outrigger has the answer. Go back to the terminal; this page can be closed.";

/// Waits for one redirect.
pub(crate) struct Loopback {
    listener: TcpListener,
    redirect: Url,
}

impl Loopback {
    pub(crate) async fn listen() -> Result<Self, VisitError> {
        let failed = |error: &dyn std::fmt::Display| VisitError::Listen(error.to_string());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let redirect = Url::parse(&format!("http://{address}{PATH}"));
        Ok(Self {
            listener,
            redirect: redirect.map_err(|error| failed(&error))?,
        })
    }

    /// Where the page is to lead back to.
    pub(crate) fn redirect(&self) -> &Url {
        &self.redirect
    }

    /// The query of the first request that carries `state`.
    pub(crate) async fn query(self, state: &str) -> Result<String, VisitError> {
        let mut connections = JoinSet::new();
        loop {
            let free = connections.len() < CONNECTIONS;
            tokio::select! {
                accepted = self.listener.accept(), if free => {
                    let (stream, _) = accepted.map_err(|error| VisitError::Listen(error.to_string()))?;
                    let state = state.to_owned();
                    connections.spawn(async move {
                        tokio::time::timeout(PATIENCE, serve(stream, &state)).await.ok().flatten()
                    });
                }
                Some(served) = connections.join_next() => {
                    if let Ok(Some(query)) = served {
                        return Ok(query);
                    }
                }
            }
        }
    }
}

/// Answers one request; its query, if it is the one that is waited for.
async fn serve(mut stream: TcpStream, state: &str) -> Option<String> {
    let query = wanted(&head(&mut stream).await?, state);
    let (status, body) = match query {
        Some(_) => ("200 OK", PAGE),
        None => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // The query counts even if the browser does not wait for the page.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    query
}

/// The request up to its empty line.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream
            .read(&mut piece)
            .await
            .ok()
            .filter(|&count| count > 0)?;
        head.extend_from_slice(piece.get(..count)?);
        if head.len() > LARGEST {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

fn wanted(head: &str, state: &str) -> Option<String> {
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    let (path, query) = target.split_once('?')?;
    let carries = url::form_urlencoded::parse(query.as_bytes())
        .any(|(name, value)| name == "state" && value == state);
    (path == PATH && carries).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_redirect_of_this_visit_counts() {
        for (head, query) in [
            (
                "GET /callback?code=c&state=s HTTP/1.1\r\n\r\n",
                Some("code=c&state=s"),
            ),
            (
                "GET /callback?error=no&state=s HTTP/1.1\r\n\r\n",
                Some("error=no&state=s"),
            ),
            ("GET /callback?code=c&state=t HTTP/1.1\r\n\r\n", None),
            ("GET /callback?code=c HTTP/1.1\r\n\r\n", None),
            ("GET /callback HTTP/1.1\r\n\r\n", None),
            ("GET /favicon.ico?state=s HTTP/1.1\r\n\r\n", None),
            ("POST /callback?code=c&state=s HTTP/1.1\r\n\r\n", None),
            ("nonsense", None),
        ] {
            assert_eq!(wanted(head, "s").as_deref(), query, "{head}");
        }
    }

    #[tokio::test]
    async fn a_browser_that_asks_for_more_than_the_redirect_is_served() {
        let loopback = Loopback::listen().await.unwrap();
        let redirect = loopback.redirect().clone();
        let address = (Ipv4Addr::LOCALHOST, redirect.port().unwrap());
        let _unused = TcpStream::connect(address).await.unwrap();
        let ask = async |target: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let asked = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(asked.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let visit = async {
            assert!(ask("/favicon.ico").await.starts_with("HTTP/1.1 404"));
            assert!(
                ask("/callback?code=evil&state=x")
                    .await
                    .starts_with("HTTP/1.1 404")
            );
            assert!(
                ask("/callback?code=c&state=s")
                    .await
                    .contains("Go back to the terminal")
            );
        };
        let (query, ()) = tokio::join!(loopback.query("s"), visit);
        assert_eq!(query.unwrap(), "code=c&state=s");
    }
}

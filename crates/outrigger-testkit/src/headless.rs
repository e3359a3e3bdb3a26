//! Signing in without a browser: the page is asked for once, and where it redirects to is taken as
//! the answer.
//!
//! Promises: one GET over loopback, nothing else; a page that does not redirect at once is a visit
//! that led nowhere.

use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_connect::{AuthorizationHandler, Visit, VisitError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of the answer that are read.
const LARGEST: u64 = 64 << 10;

/// Signs in wherever nobody is asked anything.
#[derive(Debug, Clone)]
pub struct Headless {
    redirect: Url,
}

impl Headless {
    /// Is led back to `redirect`, where nobody has to listen.
    pub fn new(redirect: Url) -> Self {
        Self { redirect }
    }
}

impl AuthorizationHandler for Headless {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Visit>, VisitError>> {
        let visit: Box<dyn Visit> = Box::new(self.clone());
        Box::pin(std::future::ready(Ok(visit)))
    }
}

impl Visit for Headless {
    fn redirect_uri(&self) -> &Url {
        &self.redirect
    }

    fn run(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, VisitError>> {
        Box::pin(async move {
            let asked = tokio::time::timeout(PATIENCE, location(&page)).await;
            let to = asked.unwrap_or(Err(VisitError::TimedOut(PATIENCE)))?;
            let to = page.join(&to).ok();
            let to = to.filter(|to| to.as_str().starts_with(self.redirect.as_str()));
            to.and_then(|to| Some(to.query()?.to_owned()))
                .ok_or_else(|| VisitError::NoRedirect("it leads elsewhere".to_owned()))
        })
    }
}

/// Where a GET of `page` is redirected to.
async fn location(page: &Url) -> Result<String, VisitError> {
    let show = |error: std::io::Error| VisitError::Show(error.to_string());
    let host = page.host_str().unwrap_or_default();
    let port = page.port_or_known_default().unwrap_or(80);
    let mut stream = TcpStream::connect((host, port)).await.map_err(show)?;
    let query = page
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let asked = format!(
        "GET {}{query} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n",
        page.path()
    );
    stream.write_all(asked.as_bytes()).await.map_err(show)?;
    let mut head = Vec::new();
    stream
        .take(LARGEST)
        .read_to_end(&mut head)
        .await
        .map_err(show)?;
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines().take_while(|line| !line.is_empty());
    let status = lines.next().unwrap_or_default().to_owned();
    lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("location"))
        .map(|(_, to)| to.trim().to_owned())
        .ok_or_else(|| VisitError::NoRedirect(format!("the page answered `{status}`")))
}

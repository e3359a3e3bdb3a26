//! Sends to the collector with the HTTP client that everything here uses.
//!
//! The exporter works on a thread of its own, without a runtime; the request is made on the program's.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use url::{Host, Url};

use super::Trouble;
use crate::hooks;

/// The most that a collector may answer.
const MOST: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Post {
    /// `None` outside of a runtime: then nothing can be sent.
    runtime: Option<Handle>,
    tasks: TaskTracker,
    timeout: Duration,
    trouble: Arc<Trouble>,
}

impl Post {
    /// Must be made on the runtime. `timeout` is for one request with its answer.
    pub(super) fn new(timeout: Duration, trouble: Arc<Trouble>) -> Self {
        Self {
            runtime: Handle::try_current().ok(),
            tasks: TaskTracker::new(),
            timeout,
            trouble,
        }
    }
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let runtime = self.runtime.as_ref().ok_or("there is no runtime")?;
        let url: Url = request.uri().to_string().parse()?;
        // Host and port only: the rest may be secret.
        let place = url.authority().rsplit('@').next().map(ToOwned::to_owned);
        let place = place.unwrap_or_default();
        let timeout = self.timeout;
        let send = async move { send(request, url, timeout).await };
        let answer = self.tasks.spawn_on(send, runtime).await?;
        match &answer {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => self.trouble.note(&format!(
                "the collector at {place} answered with the HTTP status {}",
                answer.status().as_u16()
            )),
            Err(error) => self.trouble.note(&format!(
                "the collector at {place} cannot be reached: {}",
                why(error)
            )),
        }
        answer
    }
}

fn why(error: &HttpError) -> String {
    error
        .downcast_ref::<reqwest::Error>()
        .map_or_else(|| error.to_string(), hooks::deepest)
}

async fn send(
    request: Request<Bytes>,
    url: Url,
    timeout: Duration,
) -> Result<Response<Bytes>, HttpError> {
    // Only the first call in a process installs a provider, and every crate here wants the same.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("outrigger/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .timeout(timeout);
    let builder = if is_local(&url) {
        builder.no_proxy()
    } else {
        builder
    };
    let (parts, body) = request.into_parts();
    let sent = builder
        .build()?
        .request(parts.method, url)
        .headers(parts.headers)
        .body(body);
    let mut answer = sent.send().await?;
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        response = response.header(name, value);
    }
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await? {
        body.extend_from_slice(&part);
        if body.len() > MOST {
            return Err("the collector answered with too much".into());
        }
    }
    Ok(response.body(body.into())?)
}

fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}

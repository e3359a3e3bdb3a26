//! Runs hooks: starts their programs and sends to their addresses. Nothing else does.
//!
//! Promises: a hook gets its environment from configuration and the short list that servers get; what
//! it starts is gone when it has ended or its time is over; redirects are not followed.

use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use outrigger_connect::{HttpSpec, StdioSpec, TransportSpec};
use outrigger_host::config::{Config, HookSettings};
use outrigger_host::hooks::{Heard, HookRunner, Hooks};
use outrigger_sandbox::Launch;
use url::Host;

use crate::error::CommandError;
use crate::program;

/// The exit code that means no, as people know it from elsewhere.
const BLOCKED: i32 = 2;
/// The most that an address may answer.
const MOST: usize = 4 << 20;

/// The hooks of this configuration.
pub(crate) fn of(config: &Config, runner: Arc<dyn HookRunner>) -> Result<Hooks, CommandError> {
    Ok(Hooks::new(&config.hooks, runner)?)
}

/// Runs them.
pub(crate) fn runner(supervisor: Option<Vec<OsString>>) -> Arc<dyn HookRunner> {
    Arc::new(Runner { supervisor })
}

struct Runner {
    /// Stands between this program and those of hooks.
    supervisor: Option<Vec<OsString>>,
}

#[async_trait]
impl HookRunner for Runner {
    async fn run(&self, hook: &HookSettings, input: &str) -> Result<Heard, String> {
        match &hook.reach {
            TransportSpec::Stdio(spec) => self.start(spec, input).await,
            TransportSpec::Http(spec) => send(spec, input).await,
            _ => Err("is neither a program nor an address".to_owned()),
        }
    }
}

impl Runner {
    async fn start(&self, spec: &StdioSpec, input: &str) -> Result<Heard, String> {
        let mut launch = Launch::new(&spec.command, &spec.args);
        launch.env = spec.env.clone();
        launch.cwd.clone_from(&spec.cwd);
        launch.supervisor.clone_from(&self.supervisor);
        let ended = program::run(launch, input.as_bytes())
            .await
            .map_err(|why| format!("cannot be run: {why}"))?;
        if ended.report.code == Some(BLOCKED) {
            return Ok(Heard::Blocked(ended.err.join("\n")));
        }
        if !ended.report.success() {
            return Err(format!("ended with {}", ended.told()));
        }
        String::from_utf8(ended.out)
            .map(Heard::Said)
            .map_err(|_| "answered with something that is not UTF-8".to_owned())
    }
}

async fn send(spec: &HttpSpec, input: &str) -> Result<Heard, String> {
    let failed = |error: reqwest::Error| format!("cannot be reached: {}", deepest(&error));
    let client = client(spec).map_err(failed)?;
    let mut request = client
        .post(spec.url.clone())
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(input.to_owned());
    for (name, value) in &spec.headers {
        request = request.header(name, value);
    }
    let mut answer = request.send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(format!("answered with the HTTP status {}", answer.status()));
    }
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(failed)? {
        body.extend_from_slice(&part);
        if body.len() > MOST {
            return Err(format!("answered with more than {} MiB", MOST >> 20));
        }
    }
    String::from_utf8(body)
        .map(Heard::Said)
        .map_err(|_| "answered with something that is not UTF-8".to_owned())
}

fn client(spec: &HttpSpec) -> Result<reqwest::Client, reqwest::Error> {
    // Only the first call in a process installs a provider, and every crate here wants the same.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("outrigger/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false);
    let local = match spec.url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    };
    let builder = if local { builder.no_proxy() } else { builder };
    builder.build()
}

/// The cause at the bottom. It names no address: that may hold a secret.
pub(crate) fn deepest(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    if deepest.source().is_none() && std::ptr::addr_eq(deepest, error) {
        return "the request failed".to_owned();
    }
    deepest.to_string()
}

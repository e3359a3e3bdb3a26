//! The same with the official SDK alone, as its documentation shows it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{RoleClient, ServiceExt as _};
use tokio::process::{Child, Command};

use crate::OUTRIGGER;

/// A client that answers nothing.
pub(crate) type Service = RunningService<RoleClient, ()>;

/// Outrigger's echo server over stdio.
pub(crate) async fn stdio() -> (Service, Child) {
    let mut child = Command::new(OUTRIGGER)
        .args(["server", "echo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    (().serve(pipes).await.unwrap(), child)
}

/// A server at an address.
pub(crate) async fn http(url: &str) -> Service {
    let transport = StreamableHttpClientTransport::from_uri(url);
    ().serve(transport).await.unwrap()
}

/// One call of `echo`.
pub(crate) async fn call(service: &Service) -> Duration {
    let arguments = serde_json::json!({ "text": "hello" });
    let request =
        CallToolRequestParams::new("echo").with_arguments(arguments.as_object().unwrap().clone());
    let clock = Instant::now();
    service.call_tool(request).await.unwrap();
    clock.elapsed()
}

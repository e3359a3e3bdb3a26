//! The server of a case, connected to directly.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{
    ConnectError, Connection, Connector, Deadlines, Framing, HttpSpec, Limits, MemoryTokens, OAuth,
    Protocol, ServerName, ServerSpec, StdioSpec, TransportSpec,
};
use outrigger_testkit::headless::Headless;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Failure, SUPERVISE, duration};

const LIST_DEADLINE: Duration = Duration::from_secs(12);

/// Where the pages that this driver signs in on lead back to; nobody listens there.
const REDIRECT: &str = "http://127.0.0.1:8765/callback";

pub(crate) async fn connect(case: &Value) -> Result<Result<Connection, ConnectError>, Failure> {
    let supervisor: Vec<OsString> = vec![std::env::current_exe()?.into(), SUPERVISE.into()];
    let mut connector = Connector::new(env!("CARGO_PKG_VERSION"), Some(supervisor));
    let mut oauth = OAuth::new(Arc::new(MemoryTokens::default()));
    if case["auth"] == "oauth" {
        oauth = oauth.with_handler(Arc::new(Headless::new(REDIRECT.parse()?)));
    }
    connector = connector.with_oauth(oauth);
    let transport = match case["url"].as_str() {
        Some(url) => {
            let spec = HttpSpec {
                headers: headers(case),
                ..HttpSpec::new(url.parse()?)
            };
            if case["transport"] == "ws" {
                TransportSpec::WebSocket(spec)
            } else {
                TransportSpec::Http(spec)
            }
        }
        None => TransportSpec::Stdio(StdioSpec {
            command: case["command"]
                .as_str()
                .ok_or("the case has neither `command` nor `url`")?
                .to_owned(),
            args: case["args"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            env: std::env::vars().collect::<BTreeMap<_, _>>(),
            cwd: std::env::current_dir()?,
            framing: Framing::Auto,
        }),
    };
    let deadlines = deadlines(case);
    let spec = ServerSpec {
        name: ServerName::new(case["id"].as_str().unwrap_or("case"))?,
        transport,
        protocol: Protocol::Auto,
        versions: None,
        deadlines,
        limits: Limits::default(),
    };
    Ok(Box::pin(connector.connect(&spec, &CancellationToken::new())).await)
}

/// How long this side waits for what.
pub(crate) fn deadlines(case: &Value) -> Deadlines {
    let hard = case["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| duration(&step["max_total"]))
        .max();
    Deadlines {
        start: duration(&case["connect_timeout"]).unwrap_or(Duration::from_secs(10)),
        list: LIST_DEADLINE,
        call_hard: hard.unwrap_or(Deadlines::default().call_hard),
        ..Deadlines::default()
    }
}

/// What the case sends with each request.
pub(crate) fn headers(case: &Value) -> Vec<(String, String)> {
    let headers = case.pointer("/client/headers").and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    headers
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

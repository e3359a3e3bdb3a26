//! The server of a case behind `outrigger serve`, which has a folder and a configuration of its own.
//!
//! What differs from a direct connection, through any gateway, and how it is told: a gateway can always be
//! connected to, since what is wrong with one server is not wrong with it. So `connect` is done when the
//! server's tools are listed; where none are, a call says why, and that is how it has failed. A person signs in
//! before the gateway is started, as `outrigger login` has it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use outrigger_connect::{
    ConnectError, Connection, Connector, Deadlines, Framing, HttpSpec, Limits, Protocol,
    ServerName, ServerSpec, StdioSpec, TransportSpec, Visit as _,
};
use outrigger_testkit::gateway::{Listening, Place, find, talk};
use outrigger_testkit::headless::Headless;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{Failure, SUPERVISE, direct, shown};

/// The server's name in the configuration.
const NAME: &str = "case";
/// A tool that no server has.
const NO_TOOL: &str = "no-such-tool-of-any-server";
/// How long a gateway may take to end. Ending a server takes up to 5 s of it.
const END: Duration = Duration::from_secs(10);

/// How to get a gateway in between.
pub(crate) struct Way {
    /// The program.
    pub(crate) program: PathBuf,
    /// What this side speaks with it.
    pub(crate) era: Protocol,
}

/// What came of connecting, and the gateway where it listens. Over a pipe it is the connection's own child.
type Connected = (Result<Connection, ConnectError>, Option<Listening>);

impl Way {
    /// Starts a gateway with the case's server behind it, and connects to it: over a pipe where the server is a
    /// program, over HTTP where it has an address.
    pub(crate) async fn connect(&self, case: &Value, out: &Path) -> Result<Connected, Failure> {
        let place = Place::new(&out.with_file_name("gateway"), &configuration(case))?;
        if case["auth"] == "oauth" {
            self.sign_in(&place).await?;
        }
        let mut gateway = None;
        let transport = if case["url"].is_string() {
            let started = Listening::start(&place, &self.program, &["--server", NAME]).await?;
            let url = started.url.parse()?;
            gateway = Some(started);
            TransportSpec::Http(HttpSpec::new(url))
        } else {
            TransportSpec::Stdio(StdioSpec {
                command: self.program.display().to_string(),
                args: ["serve", "--server", NAME].map(ToOwned::to_owned).to_vec(),
                env: place.env.clone(),
                cwd: place.folder.clone(),
                framing: Framing::Auto,
            })
        };
        let spec = ServerSpec {
            name: ServerName::new("gateway")?,
            transport,
            protocol: self.era,
            versions: None,
            deadlines: Deadlines {
                close: END,
                ..direct::deadlines(case)
            },
            limits: Limits::default(),
        };
        let supervisor: Vec<OsString> = vec![std::env::current_exe()?.into(), SUPERVISE.into()];
        let connector = Connector::new(env!("CARGO_PKG_VERSION"), Some(supervisor));
        let connected = Box::pin(connector.connect(&spec, &CancellationToken::new())).await;
        Ok((connected, gateway))
    }

    /// Does what a person does before.
    async fn sign_in(&self, place: &Place) -> Result<(), Failure> {
        let mut command = place.command(&self.program, &["login", NAME, "--no-browser"]);
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let page: Url = format!("http{}", find(&mut talk(&mut child)?, "  http").await?).parse()?;
        let redirect = page.query_pairs().find(|(name, _)| name == "redirect_uri");
        let redirect: Url = redirect
            .ok_or("the page has no `redirect_uri`")?
            .1
            .parse()?;
        let answer = Box::new(Headless::new(redirect.clone())).run(page).await?;
        let mut stdin = child.stdin.take().ok_or("no standard input")?;
        stdin
            .write_all(format!("{redirect}?{answer}\n").as_bytes())
            .await?;
        drop(stdin);
        let status = child.wait().await?;
        if status.success() {
            return Ok(());
        }
        Err(format!("`outrigger login` ended with {status}").into())
    }
}

/// Ends a gateway that listens.
pub(crate) async fn end(gateway: Listening) -> Result<(), Failure> {
    match gateway.end(END).await? {
        status if status.success() => Ok(()),
        status => Err(format!("the gateway ended with {status}").into()),
    }
}

/// Why no tool is listed, where the server is not there. A call waits for a server that is starting.
pub(crate) async fn why_nothing_is_there(connection: &Connection) -> Option<Value> {
    let listed = shown::list(connection).await;
    if listed["ok"] == false {
        return Some(listed);
    }
    if listed["tool_count"] != 0 {
        return None;
    }
    let said = shown::call(connection.clone(), json!({ "tool": NO_TOOL, "args": {} })).await;
    // Without a reason of the gateway's it is an error of the protocol: the server is there, and has no tools.
    said["reason"].is_string().then_some(said)
}

fn configuration(case: &Value) -> Value {
    let mut server = match case["url"].as_str() {
        Some(url) => {
            let headers: BTreeMap<_, _> = direct::headers(case).into_iter().collect();
            json!({ "url": url, "headers": headers })
        }
        None => json!({ "command": case["command"], "args": case["args"] }),
    };
    let start = direct::deadlines(case).start;
    server["timeouts"] = json!({ "start": start.as_secs_f64() });
    json!({ "servers": { NAME: server }, "policy": { "default": "allow" } })
}

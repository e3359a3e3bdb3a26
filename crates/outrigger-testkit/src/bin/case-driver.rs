//! Plays one case of the fault suite against the real [`Connection`].
//!
//! `case-driver CASE.json OUT.json`: OUT is rewritten after every step, so that a hang still shows
//! how far it got. As `case-driver __supervise …` it is the supervisor of the servers it starts.
//! Leaves out: policy, names and what a model reads; cases that need them are only recorded.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program hands its own environment and folder on"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_connect::{
    CallError, CallOptions, ConnectError, ConnectErrorKind, Connection, Connector, Deadlines,
    Framing, HttpSpec, Limits, ListError, MemoryTokens, OAuth, Protocol, ServerName, ServerSpec,
    StdioSpec, TransportSpec,
};
use outrigger_testkit::headless::Headless;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn Error>;

/// The hidden first argument that makes this program a supervisor.
const SUPERVISE: &str = "__supervise";

const LIST_DEADLINE: Duration = Duration::from_secs(12);

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (first, second) = (args.next(), args.next());
    if first.as_deref() == Some(SUPERVISE.as_ref()) {
        return outrigger_sandbox::supervisor::run(second.into_iter().chain(args));
    }
    let (Some(case), Some(out)) = (first, second) else {
        return complain("usage: case-driver CASE.json OUT.json");
    };
    match play(Path::new(&case), PathBuf::from(out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

#[allow(clippy::print_stderr, reason = "this is how a test program speaks")]
fn complain(words: &str) -> ExitCode {
    eprintln!("case-driver: {words}");
    ExitCode::FAILURE
}

#[tokio::main]
async fn play(case: &Path, out: PathBuf) -> Result<(), Failure> {
    let case: Value = serde_json::from_str(&std::fs::read_to_string(case)?)?;
    let mut run = Run {
        transcript: json!({ "driver": "outrigger", "steps": [] }),
        out,
        connection: None,
        aside: JoinSet::new(),
    };
    let steps: Vec<Value> = case["steps"].as_array().cloned().unwrap_or_default();
    for step in &steps {
        run.push(json!({ "op": step["op"], "started": true }))?;
        let begun = Instant::now();
        let mut shown = run.step(&case, step).await?;
        shown["op"] = step["op"].clone();
        if shown.get("t").is_none() {
            shown["t"] = seconds(begun.elapsed());
        }
        let failed = step["op"] == "connect" && shown["ok"] == false;
        run.replace(shown)?;
        if failed {
            break;
        }
    }
    run.finish().await
}

/// Where the pages that this driver signs in on lead back to; nobody listens there.
const REDIRECT: &str = "http://127.0.0.1:8765/callback";

struct Run {
    transcript: Value,
    out: PathBuf,
    connection: Option<Connection>,
    aside: JoinSet<Value>,
}

impl Run {
    fn save(&self) -> Result<(), Failure> {
        let aside = self.out.with_extension("tmp");
        std::fs::write(&aside, self.transcript.to_string())?;
        Ok(std::fs::rename(&aside, &self.out)?)
    }

    fn push(&mut self, step: Value) -> Result<(), Failure> {
        self.transcript["steps"]
            .as_array_mut()
            .ok_or("no steps")?
            .push(step);
        self.save()
    }

    fn replace(&mut self, step: Value) -> Result<(), Failure> {
        *self.transcript["steps"]
            .as_array_mut()
            .and_then(|steps| steps.last_mut())
            .ok_or("no steps")? = step;
        self.save()
    }

    async fn step(&mut self, case: &Value, step: &Value) -> Result<Value, Failure> {
        let no_session =
            || json!({ "ok": false, "error_kind": "closed", "error": "not connected" });
        Ok(match step["op"].as_str().unwrap_or_default() {
            "connect" => match connect(case).await? {
                Ok(connection) => {
                    let version = connection.peer().protocol_version.clone();
                    self.connection = Some(connection);
                    json!({ "ok": true, "version": version })
                }
                Err(error) => connect_failed(&error),
            },
            "list" => match &self.connection {
                Some(connection) => list(connection).await,
                None => no_session(),
            },
            "call" => match &self.connection {
                Some(connection) => call(connection.clone(), step.clone()).await,
                None => no_session(),
            },
            "parallel" => self.parallel(step).await,
            "call_bg" => {
                if let Some(connection) = &self.connection {
                    self.aside.spawn(call(connection.clone(), step.clone()));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
                json!({ "ok": true })
            }
            "sleep" => {
                tokio::time::sleep(duration(&step["s"]).unwrap_or_default()).await;
                json!({ "ok": true })
            }
            "check_pgid" => json!({ "ok": true, "own_group": own_group(case)? }),
            "close" => self.close().await,
            other => return Err(format!("unknown step `{other}`").into()),
        })
    }

    async fn parallel(&self, step: &Value) -> Value {
        let Some(connection) = &self.connection else {
            return json!({ "ok": false });
        };
        let mut calls = JoinSet::new();
        for (at, one) in step["calls"].as_array().into_iter().flatten().enumerate() {
            let (connection, one) = (connection.clone(), one.clone());
            calls.spawn(async move { (at, call(connection, one).await) });
        }
        let mut results = calls.join_all().await;
        results.sort_by_key(|(at, _)| *at);
        json!({ "ok": true, "results": results.into_iter().map(|(_, result)| result).collect::<Vec<_>>() })
    }

    async fn close(&mut self) -> Value {
        match &self.connection {
            Some(connection) => {
                let report = connection.close().await;
                json!({ "ok": true, "t": seconds(report.took), "exit": report.exit, "forced": report.forced })
            }
            None => json!({ "ok": true }),
        }
    }

    async fn finish(mut self) -> Result<(), Failure> {
        if self.connection.is_some() {
            let mut closed = self.close().await;
            closed["op"] = "close".into();
            closed["implicit"] = true.into();
            self.push(closed)?;
        }
        while self.aside.join_next().await.is_some() {}
        self.transcript["finished"] = true.into();
        self.save()
    }
}

async fn connect(case: &Value) -> Result<Result<Connection, ConnectError>, Failure> {
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
    let hard = case["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| duration(&step["max_total"]))
        .max();
    let deadlines = Deadlines {
        start: duration(&case["connect_timeout"]).unwrap_or(Duration::from_secs(10)),
        list: LIST_DEADLINE,
        call_hard: hard.unwrap_or(Deadlines::default().call_hard),
        ..Deadlines::default()
    };
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

fn headers(case: &Value) -> Vec<(String, String)> {
    let headers = case.pointer("/client/headers").and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    headers
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

fn connect_failed(error: &ConnectError) -> Value {
    let kind = match error.kind {
        ConnectErrorKind::StartupFailed => "startup_failed",
        ConnectErrorKind::Timeout => "timeout",
        ConnectErrorKind::Closed | ConnectErrorKind::Unreachable => "closed",
        ConnectErrorKind::HttpError => "http_error",
        ConnectErrorKind::AuthRequired => "auth_required",
        ConnectErrorKind::VersionMismatch => "version_mismatch",
        ConnectErrorKind::RpcError => "rpc_error",
        ConnectErrorKind::BadResult => "bad_result",
        ConnectErrorKind::Cancelled => "refused",
    };
    json!({ "ok": false, "error_kind": kind, "error": error.message, "stderr": error.stderr_tail, "hints": error.hints })
}

async fn list(connection: &Connection) -> Value {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    match connection.list_tools().await {
        Ok(listing) => {
            let names = listing
                .tools
                .iter()
                .filter_map(|tool| serde_json::from_str::<Named>(tool.get()).ok());
            let names: Vec<String> = names.map(|tool| tool.name).collect();
            let (count, shown) = (
                names.len(),
                names.into_iter().take(1000).collect::<Vec<_>>(),
            );
            json!({ "ok": true, "tool_count": count, "tools": shown, "problems": listing.problems })
        }
        Err(error) => {
            let kind = match &error {
                ListError::Closed(_) => "closed",
                ListError::Timeout { .. } => "timeout",
                ListError::Rpc { .. } => "rpc_error",
                ListError::Http {
                    status: 401 | 403, ..
                } => "auth_required",
                ListError::Http { .. } => "http_error",
                ListError::Malformed { .. } => "bad_result",
            };
            json!({ "ok": false, "error_kind": kind, "error": error.to_string() })
        }
    }
}

async fn call(connection: Connection, step: Value) -> Value {
    let begun = Instant::now();
    let arguments = match (step["args_json"].as_str(), step["args_big"].as_u64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(count)) => {
            json!({ "text": "A".repeat(usize::try_from(count).unwrap_or_default()) }).to_string()
        }
        (None, None) => step["args"].to_string(),
    };
    let options = CallOptions {
        deadline: duration(&step["timeout"]),
        ..CallOptions::default()
    };
    let outcome = match RawValue::from_string(arguments) {
        Ok(arguments) => {
            let tool = step["tool"].as_str().unwrap_or_default();
            connection.call_tool(tool, &arguments, options).await
        }
        Err(error) => Err(CallError::NotSent(format!(
            "`args_json` is not JSON: {error}"
        ))),
    };
    let mut shown = match outcome {
        Ok(result) => shown_result(&result),
        Err(error) => {
            json!({ "ok": false, "error_kind": call_kind(&error), "error": error.to_string() })
        }
    };
    shown["t"] = seconds(begun.elapsed());
    shown
}

fn call_kind(error: &CallError) -> &'static str {
    match error {
        CallError::NotSent(_) | CallError::Closed(_) => "closed",
        CallError::Rpc { .. } => "rpc_error",
        CallError::Http {
            status: 401 | 403, ..
        } => "auth_required",
        CallError::Http { .. } => "http_error",
        CallError::Deadline { .. } => "timeout",
        CallError::Cancelled => "refused",
        CallError::Malformed(_) | CallError::Unfinished(_) => "bad_result",
    }
}

/// The members of a result that the suite looks at.
#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    content: Option<Vec<Value>>,
    #[serde(rename = "structuredContent", default)]
    structured: Option<Box<RawValue>>,
    #[serde(rename = "isError", default)]
    is_error: Option<bool>,
}

fn shown_result(result: &RawValue) -> Value {
    let shown: Shown = match serde_json::from_str(result.get()) {
        Ok(shown) => shown,
        Err(error) => {
            return json!({ "ok": false, "error_kind": "bad_result", "error": error.to_string() });
        }
    };
    let content = shown.content.unwrap_or_default();
    let texts = content.iter().filter(|block| block["type"] == "text");
    let text = texts
        .map(|block| block["text"].as_str().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let length = text.chars().count();
    let kinds: Vec<&Value> = content.iter().map(|block| &block["type"]).collect();
    json!({
        "ok": true,
        "is_error": shown.is_error.unwrap_or(false),
        "block_count": content.len(),
        "blocks": if kinds.len() < 50 { json!(kinds) } else { Value::Null },
        "text_len": length,
        "text": if length < 20_000 { text } else { text.chars().take(200).collect() },
        "structured_json": shown.structured.map(|raw| raw.get().to_owned()),
    })
}

/// Whether the server runs in a process group of its own.
fn own_group(case: &Value) -> Result<bool, Failure> {
    let log = std::fs::read_to_string(case["log"].as_str().ok_or("the case has no `log`")?)?;
    let mut events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let started = events
        .rfind(|event| event["event"] == "start")
        .ok_or("the server has not started")?;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let ours: i64 = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(2))
        .ok_or("no group")?
        .parse()?;
    Ok(started["pgid"].as_i64() != Some(ours))
}

fn duration(value: &Value) -> Option<Duration> {
    value
        .as_f64()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn seconds(duration: Duration) -> Value {
    json!((duration.as_secs_f64() * 100.0).round() / 100.0)
}

//! Plays one case of the fault suite against the real [`Connection`], or through a gateway.
//!
//! `case-driver [--through OUTRIGGER --era ERA] CASE.json OUT.json`: OUT is rewritten after every step, so
//! that a hang still shows how far it got. As `case-driver __supervise …` it is the supervisor of the
//! servers it starts.
//! Leaves out: policy, names and what a model reads; cases that need them are only recorded.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program hands its own environment and folder on"
)]

mod direct;
mod shown;
mod through;

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outrigger_connect::{Connection, Protocol};
use outrigger_testkit::gateway::Listening;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use through::Way;

type Failure = Box<dyn Error>;

/// The hidden first argument that makes this program a supervisor.
const SUPERVISE: &str = "__supervise";

const USAGE: &str =
    "usage: case-driver [--through OUTRIGGER --era auto|legacy|modern] CASE.json OUT.json";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|word| word == SUPERVISE) {
        return outrigger_sandbox::supervisor::run(args.into_iter().skip(1));
    }
    let (way, case, out) = match &args[..] {
        [case, out] => (None, case, out),
        [through, program, era, name, case, out] if through == "--through" && era == "--era" => {
            let era = match name.to_str() {
                Some("auto") => Protocol::Auto,
                Some("legacy") => Protocol::Legacy,
                Some("modern") => Protocol::Modern,
                _ => return complain(USAGE),
            };
            (
                Some(Way {
                    program: program.into(),
                    era,
                }),
                case,
                out,
            )
        }
        _ => return complain(USAGE),
    };
    match play(Path::new(case), PathBuf::from(out), way) {
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
async fn play(case: &Path, out: PathBuf, way: Option<Way>) -> Result<(), Failure> {
    let case: Value = serde_json::from_str(&std::fs::read_to_string(case)?)?;
    let mut run = Run {
        transcript: json!({ "driver": "outrigger", "steps": [] }),
        out,
        way,
        gateway: None,
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

struct Run {
    transcript: Value,
    out: PathBuf,
    /// How to get a gateway in between.
    way: Option<Way>,
    /// The one that is.
    gateway: Option<Listening>,
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
            "connect" => self.connect(case).await?,
            "list" => match &self.connection {
                Some(connection) => shown::list(connection).await,
                None => no_session(),
            },
            "call" => match &self.connection {
                Some(connection) => shown::call(connection.clone(), step.clone()).await,
                None => no_session(),
            },
            "parallel" => self.parallel(step).await,
            "call_bg" => {
                if let Some(connection) = &self.connection {
                    self.aside
                        .spawn(shown::call(connection.clone(), step.clone()));
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

    async fn connect(&mut self, case: &Value) -> Result<Value, Failure> {
        let connected = match &self.way {
            None => direct::connect(case).await?,
            Some(way) => {
                let (connected, gateway) = way.connect(case, &self.out).await?;
                self.gateway = gateway;
                connected
            }
        };
        let connection = match connected {
            Ok(connection) => connection,
            Err(error) => return Ok(shown::connect_failed(&error)),
        };
        self.connection = Some(connection.clone());
        if self.way.is_some()
            && let Some(failed) = through::why_nothing_is_there(&connection).await
        {
            // As after a connection that has failed, nothing is left to be closed.
            self.close().await;
            self.connection = None;
            return Ok(failed);
        }
        Ok(json!({ "ok": true, "version": connection.peer().protocol_version }))
    }

    async fn parallel(&self, step: &Value) -> Value {
        let Some(connection) = &self.connection else {
            return json!({ "ok": false });
        };
        let mut calls = JoinSet::new();
        for (at, one) in step["calls"].as_array().into_iter().flatten().enumerate() {
            let (connection, one) = (connection.clone(), one.clone());
            calls.spawn(async move { (at, shown::call(connection, one).await) });
        }
        let mut results = calls.join_all().await;
        results.sort_by_key(|(at, _)| *at);
        json!({ "ok": true, "results": results.into_iter().map(|(_, result)| result).collect::<Vec<_>>() })
    }

    async fn close(&mut self) -> Value {
        let begun = Instant::now();
        let mut closed = json!({ "ok": true });
        if let Some(connection) = &self.connection {
            let report = connection.close().await;
            closed["exit"] = json!(report.exit);
            closed["forced"] = json!(report.forced);
        }
        if let Some(gateway) = self.gateway.take()
            && let Err(error) = through::end(gateway).await
        {
            closed["ok"] = false.into();
            closed["error"] = error.to_string().into();
        }
        closed["t"] = seconds(begun.elapsed());
        closed
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

/// Whether the server runs in a process group that none of those has who had it started: not this program, and
/// not a gateway in between.
fn own_group(case: &Value) -> Result<bool, Failure> {
    let log = std::fs::read_to_string(case["log"].as_str().ok_or("the case has no `log`")?)?;
    let mut events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let started = events
        .rfind(|event| event["event"] == "start")
        .ok_or("the server has not started")?;
    let group = started["pgid"].as_i64();
    let mut process = started["pid"].as_i64().ok_or("no pid")?;
    let ours = i64::from(std::process::id());
    while process > 1 {
        let words = std::fs::read_to_string(format!("/proc/{process}/cmdline"))?;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
        let mut rest = rest.split_whitespace().skip(1).map(str::parse::<i64>);
        let (parent, its) = (
            rest.next().ok_or("no parent")??,
            rest.next().ok_or("no group")??,
        );
        // A server's supervisor is the head of its group.
        let host = words.starts_with("outrigger\0serve") || words.contains("/outrigger\0serve");
        if (host || process == ours) && Some(its) == group {
            return Ok(false);
        }
        process = if process == ours { 0 } else { parent };
    }
    Ok(true)
}

fn duration(value: &Value) -> Option<Duration> {
    value
        .as_f64()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn seconds(duration: Duration) -> Value {
    json!((duration.as_secs_f64() * 100.0).round() / 100.0)
}

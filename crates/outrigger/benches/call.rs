//! What governing a call costs: the same call of the echo server over the bare connection, and
//! through the host with its schemas, policy, and a journal that is durable before it sends.
//!
//! Prints times and ratios; nothing is judged here. The journal is written once into memory, where
//! the system has a file system there, and once on the disk of the first argument that is a folder,
//! else the one for temporary files. Both ways the calls are made one by one, 8 at once and 64 at
//! once, and compared with as many at once over the bare connection.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark: it reports to a person and stops at the first trouble"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use outrigger_connect::{
    CallOptions, Connector, Deadlines, InProcessSpec, Limits, Protocol, ServePipe, ServerName,
    ServerSpec, TransportSpec,
};
use outrigger_host::approve::NobodyThere;
use outrigger_host::config::Surroundings;
use outrigger_host::hooks::Hooks;
use outrigger_host::outcome::CallOutcome;
use outrigger_host::pins::Pins;
use outrigger_host::policy::Policy;
use outrigger_host::toolset::Toolset;
use outrigger_host::{Builtin, CallContext, Host, Parts, ProposedCall};
use outrigger_journal::{Event, Journal, Run, RunOptions};
use outrigger_servers::{BuiltIn, ServeOptions, serve};
use serde_json::value::RawValue;
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;

const CALLS: u32 = 1_024;
const AT_ONCE: [u32; 3] = [1, 8, 64];
const ARGUMENTS: &str = r#"{"text":"The quick brown fox jumps over the lazy dog."}"#;

struct Echo;

impl ServePipe for Echo {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (reader, writer) = tokio::io::split(pipe);
            serve(
                BuiltIn::Echo,
                ServeOptions::new(Path::new("/")),
                reader,
                writer,
            )
            .await
            .ok();
        })
    }
}

/// Microseconds that half of the calls stayed within.
fn median(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[took.len() / 2].as_secs_f64() * 1e6
}

/// Microseconds a call takes of the whole, with so many under way at once.
async fn each<F: Future>(at_once: u32, call: impl Fn() -> F) -> f64 {
    let clock = Instant::now();
    for _ in 0..CALLS / at_once {
        join_all((0..at_once).map(|_| call())).await;
    }
    clock.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}

/// Over the bare connection, for each number at once.
async fn bare() -> [f64; 3] {
    let spec = ServerSpec {
        name: ServerName::new("echo").unwrap(),
        transport: TransportSpec::InProcess(InProcessSpec(Arc::new(Echo))),
        protocol: Protocol::Auto,
        versions: None,
        deadlines: Deadlines::default(),
        limits: limits(),
    };
    let connector = Connector::new("0", None);
    let connection = Box::pin(connector.connect(&spec, &CancellationToken::new()))
        .await
        .unwrap();
    let arguments = RawValue::from_string(ARGUMENTS.to_owned()).unwrap();
    let mut took = [0.0; 3];
    for (at_once, took) in AT_ONCE.into_iter().zip(&mut took) {
        let call = async || {
            let options = CallOptions::default();
            let answer = connection.call_tool("echo", &arguments, options).await;
            answer.unwrap();
        };
        *took = Box::pin(each(at_once, call)).await;
    }
    connection.close().await;
    took
}

/// Of the server, so that as many are under way as are meant to be.
fn limits() -> Limits {
    Limits {
        concurrent_calls: 64,
        ..Limits::default()
    }
}

/// A host with nothing but the echo server, recording into a folder.
struct Governed {
    host: Host,
    journal: Journal,
    run: Run,
}

impl Governed {
    async fn start(folder: &Path) -> Self {
        let started = Event::RunStarted {
            command: "bench".to_owned(),
            question: None,
            model: None,
            workspace: String::new(),
            version: String::new(),
            principal: None,
        };
        let journal = Journal::open(&folder.join("journal.db")).unwrap();
        let run = journal.begin(started, RunOptions::default()).await.unwrap();
        let surroundings = Surroundings {
            workspace: folder.to_owned(),
            ..Surroundings::default()
        };
        let mut config = outrigger_host::config::load(&surroundings);
        config.defaults.limits = limits();
        let builtin = Builtin {
            name: ServerName::new("echo").unwrap(),
            description: String::new(),
            pipe: Arc::new(Echo),
            on_demand: false,
        };
        let parts = Parts {
            connector: Connector::new("0", None),
            run: run.clone(),
            builtins: vec![builtin],
            approver: Arc::new(NobodyThere),
            questions: outrigger_host::questions::Questions::default(),
            policy: Policy::new(&config.policy, &[]).unwrap(),
            pins: Arc::new(Pins::none()),
            shared: None,
            upkeep: None,
            leases: None,
            hooks: Arc::new(Hooks::none()),
            artifacts: None,
            traces: None,
        };
        let host = Host::start(&config, parts);
        assert!(host.settled(Duration::from_secs(10)).await.is_empty());
        Self { host, journal, run }
    }

    async fn call(&self, toolset: &Toolset) {
        let proposed = ProposedCall {
            tool: "mcp__echo__echo".to_owned(),
            arguments: ARGUMENTS.to_owned(),
            turn: None,
        };
        let report = self
            .host
            .call(toolset, proposed, CallContext::default())
            .await;
        assert!(
            matches!(report.outcome, CallOutcome::Completed(_)),
            "{:?}",
            report.outcome
        );
    }

    /// Microseconds a call takes for each number at once, and one durable event alone.
    async fn measure(self) -> ([f64; 3], f64) {
        let toolset = self.host.toolset();
        let mut took = [0.0; 3];
        for (at_once, took) in AT_ONCE.into_iter().zip(&mut took) {
            *took = Box::pin(each(at_once, || self.call(&toolset))).await;
        }
        let mut events = Vec::new();
        for _ in 0..CALLS {
            let event = Event::ServerEnded {
                server: "bench".to_owned(),
                reason: String::new(),
            };
            let clock = Instant::now();
            self.run.record_durable(event).await.unwrap();
            events.push(clock.elapsed());
        }
        self.host.close().await;
        self.journal.close().await.unwrap();
        (took, median(events))
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let bare = Box::pin(bare()).await;
    for (at_once, bare) in AT_ONCE.into_iter().zip(bare) {
        println!("bare connection, {at_once} at once: {bare:.0} µs a call");
    }
    let given = std::env::args()
        .skip(1)
        .map(PathBuf::from)
        .find(|path| path.is_dir());
    let disk = given.unwrap_or_else(std::env::temp_dir);
    for (label, folder) in [("memory", PathBuf::from("/dev/shm")), ("disk", disk)] {
        if !folder.is_dir() {
            continue;
        }
        let folder = tempfile::tempdir_in(folder).unwrap();
        let governed = Box::pin(Governed::start(folder.path())).await;
        let (governed, event) = Box::pin(governed.measure()).await;
        println!("governed, journal in {label}; one durable event: {event:.0} µs");
        for ((at_once, governed), bare) in AT_ONCE.into_iter().zip(governed).zip(bare) {
            println!(
                "  {at_once} at once: {governed:.0} µs a call, {:.1} × bare",
                governed / bare
            );
        }
    }
}

//! What the gate costs a call, beside the bare call: deciding alone, by the size of the policy, and
//! the whole way through schema, policy and journal.
//!
//! The server answers at once over a pipe in this process, so that the bare call is as short as a call
//! can be. Prints medians and ratios; nothing is judged here. The journal is written into memory,
//! where the system has a file system there: what a disk adds is the disk's.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark: it reports to a person and stops at the first trouble"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use outrigger_connect::{
    CallOptions, Connector, Deadlines, InProcessSpec, Limits, Protocol, ServePipe, ServerName,
    ServerSpec, TransportSpec,
};
use outrigger_host::approve::NobodyThere;
use outrigger_host::config::{Config, Surroundings, load_instead};
use outrigger_host::hooks::Hooks;
use outrigger_host::outcome::CallOutcome;
use outrigger_host::pins::Pins;
use outrigger_host::policy::{Call, Origins, Policy, Principal, Subject};
use outrigger_host::questions::Questions;
use outrigger_host::{Builtin, CallContext, Host, Parts, ProposedCall};
use outrigger_journal::{Event, Journal, RunOptions};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio_util::sync::CancellationToken;

const CALLS: usize = 2_000;
const ARGUMENTS: &str = r#"{"amount":40,"to":["ada@example.com","bob@example.com"]}"#;

/// A legacy server with one tool.
struct Pay;

impl ServePipe for Pay {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (read, mut write) = tokio::io::split(pipe);
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Some(answer) = answer(&serde_json::from_str(&line).unwrap()) else {
                    continue;
                };
                let line = format!("{answer}\n");
                if write.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
    }
}

fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "pay", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{
            "name": "refund",
            "inputSchema": { "type": "object", "required": ["amount"], "properties": {
                "amount": { "type": "number" },
                "to": { "type": "array", "items": { "type": "string" } },
            } },
        }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "done" }] }),
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// Microseconds that half of the calls stayed within.
fn median(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[took.len() / 2].as_secs_f64() * 1e6
}

async fn bare() -> f64 {
    let spec = ServerSpec {
        name: ServerName::new("pay").unwrap(),
        transport: TransportSpec::InProcess(InProcessSpec(Arc::new(Pay))),
        protocol: Protocol::Legacy,
        versions: None,
        deadlines: Deadlines::default(),
        limits: Limits::default(),
    };
    let connector = Connector::new("0", None);
    let connection = Box::pin(connector.connect(&spec, &CancellationToken::new()))
        .await
        .unwrap();
    let arguments = RawValue::from_string(ARGUMENTS.to_owned()).unwrap();
    let mut took = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let clock = Instant::now();
        connection
            .call_tool("refund", &arguments, CallOptions::default())
            .await
            .unwrap();
        took.push(clock.elapsed());
    }
    connection.close().await;
    median(took)
}

/// A policy that allows the call: `rules` that are about other tools, and `conditions` about this one
/// of which all but one are false.
fn configured(folder: &Path, rules: usize, conditions: usize) -> Config {
    let mut text = String::from(
        "[[policy.rule]]\nserver = 'pay'\nwhen = 'args.amount <= 50'\ndecision = 'allow'\n",
    );
    for at in 0..rules {
        writeln!(
            text,
            "[[policy.rule]]\ntool = 'mcp__s{at}__*'\ndecision = 'deny'"
        )
        .unwrap();
    }
    for at in 0..conditions {
        writeln!(text, "[[policy.rule]]\nserver = 'pay'\nwhen = \"args.to.exists(to, to == '{at}@example.com')\"\ndecision = 'deny'").unwrap();
    }
    let file = folder.join("policy.toml");
    std::fs::write(&file, text).unwrap();
    let around = Surroundings {
        workspace: folder.to_owned(),
        ..Surroundings::default()
    };
    let config = load_instead(&around, &file);
    assert_eq!(config.fatal().count(), 0);
    config
}

fn started() -> Event {
    Event::RunStarted {
        command: "bench".to_owned(),
        question: None,
        model: None,
        workspace: String::new(),
        version: String::new(),
        principal: None,
    }
}

/// Microseconds of one decision, and of one whole call.
async fn governed(folder: &Path, config: &Config) -> [f64; 2] {
    let journal = Journal::open(&folder.join("journal.db")).unwrap();
    let begun = journal.begin(started(), RunOptions::default()).await;
    let run = begun.unwrap();
    let parts = Parts {
        connector: Connector::new("0", None),
        run,
        builtins: vec![Builtin {
            name: ServerName::new("pay").unwrap(),
            description: String::new(),
            on_demand: false,
            pipe: Arc::new(Pay),
        }],
        approver: Arc::new(NobodyThere),
        questions: Questions::default(),
        policy: Policy::new(&config.policy, &[]).unwrap(),
        pins: Arc::new(Pins::none()),
        shared: None,
        upkeep: None,
        leases: None,
        hooks: Arc::new(Hooks::none()),
        artifacts: None,
        traces: None,
    };
    let host = Host::start(config, parts);
    assert!(host.settled(Duration::from_secs(10)).await.is_empty());
    let toolset = host.toolset();
    let tool = toolset.get("mcp__pay__refund").unwrap();
    let origins: Origins = ["pay", "crm"].into_iter().collect();
    let (mut decided, mut called) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
    for _ in 0..CALLS {
        let clock = Instant::now();
        let verdict = host.policy().decide(&Call {
            subject: Subject::from(&**tool),
            arguments: ARGUMENTS,
            principal: Principal::Model,
            origins: &origins,
            args_from: &origins,
        });
        decided.push(clock.elapsed());
        assert_eq!(verdict.decision.as_str(), "allow");
    }
    for _ in 0..CALLS {
        let proposed = ProposedCall {
            tool: tool.name.to_string(),
            arguments: ARGUMENTS.to_owned(),
            turn: None,
        };
        let clock = Instant::now();
        let report = Box::pin(host.call(&toolset, proposed, CallContext::default())).await;
        called.push(clock.elapsed());
        assert!(matches!(report.outcome, CallOutcome::Completed(_)));
    }
    host.close().await;
    journal.close().await.unwrap();
    [median(decided), median(called)]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let bare = Box::pin(bare()).await;
    println!("bare call: {bare:.1} µs");
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    for (rules, conditions) in [(0, 0), (100, 0), (1_000, 0), (100, 10), (100, 50)] {
        let folder = tempfile::tempdir_in(&folder).unwrap();
        let config = configured(folder.path(), rules, conditions);
        let [decided, called] = Box::pin(governed(folder.path(), &config)).await;
        println!(
            "{rules} rules about others, {} conditions about it: decided in {decided:.1} µs ({:.2} × bare); \
             schema, policy and journal: {called:.0} µs a call ({:.1} × bare)",
            conditions + 1,
            decided / bare,
            called / bare
        );
    }
}

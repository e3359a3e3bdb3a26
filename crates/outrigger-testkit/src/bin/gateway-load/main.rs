//! Many clients before one gateway for a while, with servers behind it that are killed, hang and flood.
//!
//! `gateway-load OUTRIGGER SECONDS [CLIENTS [SEED]]`: prints what was measured, and fails when a call was lost or made
//! twice, when memory grew, when something panicked or when a process was left. Each call has a text of its own, so
//! the count of every server, the ledger of the gateway and what each client was told are held against one another.
//! As `gateway-load __server KIND FILE` it is one of the servers.
//! Leaves out: how fast it is; that is for benchmarks.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program starts programs and says what it found"
)]

mod accidents;
mod account;
mod clients;
mod server;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::PoisonError;
use std::time::Duration;

use outrigger_testkit::gateway::{Listening, Place};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use clients::Load;
use server::Kind;

type Failure = Box<dyn Error + Send + Sync>;

/// How long the gateway may take to end. Servers that hang take 5 s of it.
const END: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["__server", kind, file] => server::run(kind, Path::new(file)),
        [program, seconds, ref more @ ..] if more.len() < 3 => {
            load(Path::new(program), seconds, more)
        }
        _ => Err("usage: gateway-load OUTRIGGER SECONDS [CLIENTS [SEED]]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway-load: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn load(program: &Path, seconds: &str, more: &[&str]) -> Result<(), Failure> {
    let time = Duration::from_secs(seconds.parse()?);
    let clients = more.first().map_or(Ok(64), |count| count.parse())?;
    let seed = more.get(1).map_or(Ok(1), |seed| seed.parse())?;
    let folder = tempfile::Builder::new().prefix("gateway-load-").tempdir()?;
    let place = Place::new(folder.path(), &configuration(folder.path())?)?;
    let program = std::path::absolute(program)?;
    let gateway = Listening::start(&place, &program, &[]).await?;
    let pid = gateway.pid().ok_or("the gateway has ended")?;
    let over = CancellationToken::new();
    let (accidents, memory) = (
        tokio::spawn(accidents::kill(
            folder.path().to_owned(),
            seed,
            over.clone(),
        )),
        tokio::spawn(accidents::watch_memory(pid, over.clone())),
    );
    let load = Load {
        url: gateway.url.parse()?,
        time,
        clients,
        seed,
    };
    let told = load.run().await?;
    over.cancel();
    let (kills, memory) = (accidents.await??, memory.await?);
    let faults = gateway.faults();
    let status = gateway.end(END).await?;
    let left = place.processes()?;
    println!("{clients} clients, {seconds} s, {kills} servers killed");
    let account = account::of(&place, &program, folder.path(), &told).await;
    println!("memory: {memory}");
    let mut bad = account?;
    bad.extend(memory.grew());
    if !status.success() {
        bad.push(format!("the gateway ended with {status}"));
    }
    bad.extend(left.iter().map(|line| format!("left running: {line}")));
    bad.append(&mut faults.lock().unwrap_or_else(PoisonError::into_inner));
    if bad.is_empty() {
        println!("no call was lost or made twice; nothing is left running");
        return Ok(());
    }
    bad.truncate(20);
    Err(bad.join("\n").into())
}

/// Four servers that may be killed, one that hangs and one that floods.
fn configuration(folder: &Path) -> Result<Value, Failure> {
    let own: PathBuf = std::env::current_exe()?;
    let servers = server::ALL.map(|(name, kind)| {
        let words = json!(["__server", kind.word(), folder.join(name)]);
        let mut entry = json!({ "command": own, "args": words });
        if kind == Kind::Hangs {
            // A call of it that nobody cancels ends by itself too.
            entry["timeouts"] = json!({ "call": 3 });
        }
        (name.to_owned(), entry)
    });
    Ok(json!({
        "servers": serde_json::Map::from_iter(servers),
        "policy": { "default": "allow" },
    }))
}

//! What a connection of ours costs beside the official SDK's, to the same servers: connect and list,
//! one call, over stdio and over Streamable HTTP; many servers at once; memory of an idle one.
//!
//! The two take turns, so that whatever else the machine does falls on both. Prints medians and
//! ratios; nothing is judged here.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark: it starts programs, reports to a person and stops at the first trouble"
)]

mod http_server;
mod ours;
mod sdk;

use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::join_all;
use outrigger_connect::Connection;

const CONNECTS: usize = 40;
const CALLS: usize = 1_000;
const TOGETHER: usize = 12;
const IDLE: usize = 10;
const OUTRIGGER: &str = env!("CARGO_BIN_EXE_outrigger");

/// Microseconds that half of them stayed within.
fn median(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[took.len() / 2].as_secs_f64() * 1e6
}

fn row(label: &str, ours: Vec<Duration>, sdk: Vec<Duration>) {
    let (ours, sdk) = (median(ours), median(sdk));
    println!(
        "{label:<34} {ours:>8.0} µs {sdk:>8.0} µs   {:.2} × the SDK",
        ours / sdk
    );
}

async fn stdio() {
    let (mut ours, mut sdk) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTS {
        let clock = Instant::now();
        let connection = Box::pin(ours::stdio(&["server", "echo"], true)).await;
        assert_eq!(connection.list_tools().await.unwrap().tools.len(), 1);
        ours.push(clock.elapsed());
        connection.close().await;

        let clock = Instant::now();
        let (service, mut child) = sdk::stdio().await;
        assert_eq!(service.list_all_tools().await.unwrap().len(), 1);
        sdk.push(clock.elapsed());
        service.cancel().await.unwrap();
        child.wait().await.unwrap();
    }
    row("stdio: start, connect, list", ours, sdk);

    let connection = Box::pin(ours::stdio(&["server", "echo"], true)).await;
    let (service, mut child) = sdk::stdio().await;
    let (mut ours, mut sdk) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        ours.push(ours::call(&connection).await);
        sdk.push(sdk::call(&service).await);
    }
    row("stdio: one call", ours, sdk);
    connection.close().await;
    service.cancel().await.unwrap();
    child.wait().await.unwrap();
}

async fn http() {
    let server = http_server::start().await;
    let (mut ours, mut sdk) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTS {
        let clock = Instant::now();
        let connection = Box::pin(ours::http(&server.url)).await;
        assert_eq!(connection.list_tools().await.unwrap().tools.len(), 1);
        ours.push(clock.elapsed());
        connection.close().await;

        let clock = Instant::now();
        let service = sdk::http(&server.url).await;
        assert_eq!(service.list_all_tools().await.unwrap().len(), 1);
        sdk.push(clock.elapsed());
        service.cancel().await.unwrap();
    }
    row("HTTP: connect, list", ours, sdk);

    let connection = Box::pin(ours::http(&server.url)).await;
    let service = sdk::http(&server.url).await;
    let (mut ours, mut sdk) = (Vec::new(), Vec::new());
    let mut sockets = [0; 2];
    for _ in 0..CALLS {
        let before = server.accepted();
        ours.push(ours::call(&connection).await);
        let between = server.accepted();
        sdk.push(sdk::call(&service).await);
        sockets[0] += between - before;
        sockets[1] += server.accepted() - between;
    }
    row("HTTP: one call", ours, sdk);
    println!(
        "{:<34} {:>8}    {:>8}",
        "HTTP: sockets for 1,000 calls", sockets[0], sockets[1]
    );
    connection.close().await;
    service.cancel().await.unwrap();
}

/// Eleven fast servers and one that takes a second, all at once, beside the slow one alone.
async fn together() {
    let slow = ["-c", r#"sleep 1; exec "$0" server echo"#, OUTRIGGER];
    let clock = Instant::now();
    let connection = Box::pin(ours::program("sh", &slow, true)).await;
    connection.list_tools().await.unwrap();
    let alone = clock.elapsed();
    connection.close().await;

    let clock = Instant::now();
    let connections = join_all((0..TOGETHER).map(|n| async move {
        let connection = if n == 0 {
            Box::pin(ours::program("sh", &slow, true)).await
        } else {
            Box::pin(ours::stdio(&["server", "echo"], true)).await
        };
        connection.list_tools().await.unwrap();
        connection
    }))
    .await;
    let all = clock.elapsed();
    join_all(connections.iter().map(Connection::close)).await;
    println!(
        "{TOGETHER} servers at once, one slow: {:.2} × the slow one alone ({:.2} s)",
        all.as_secs_f64() / alone.as_secs_f64(),
        alone.as_secs_f64()
    );
}

/// Resident memory of processes, in KiB.
fn resident(pids: &[u32]) -> u64 {
    let list: Vec<_> = pids.iter().map(u32::to_string).collect();
    let told = Command::new("ps")
        .args(["-o", "rss=", "-p", &list.join(",")])
        .output()
        .unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    text.split_whitespace()
        .map(|word| word.parse::<u64>().unwrap())
        .sum()
}

/// What ten idle servers cost this process, each way, and what a supervisor is.
async fn memory() {
    let own = std::process::id();
    let mut held = Vec::new();
    let begin = resident(&[own]);
    for _ in 0..IDLE {
        let connection = Box::pin(ours::stdio(&["server", "echo"], true)).await;
        connection.list_tools().await.unwrap();
        held.push(connection);
    }
    let ours = resident(&[own]).saturating_sub(begin);
    let supervisors = ours::children(own);
    println!(
        "memory of an idle server: {} KiB here, and {} KiB resident in its supervisor",
        ours / IDLE as u64,
        resident(&supervisors) / supervisors.len().max(1) as u64
    );
    join_all(held.iter().map(Connection::close)).await;
    let mut held = Vec::new();
    let begin = resident(&[own]);
    for _ in 0..IDLE {
        let (service, child) = sdk::stdio().await;
        service.list_all_tools().await.unwrap();
        held.push((service, child));
    }
    let sdk = resident(&[own]).saturating_sub(begin);
    println!(
        "  the same with the SDK, afterwards: {} KiB here",
        sdk / IDLE as u64
    );
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    println!("{:<34} {:>11} {:>11}", "", "ours", "SDK");
    memory().await;
    stdio().await;
    http().await;
    together().await;
}

//! What a durable event costs, what waiting together saves, and how many events a second are stored.
//!
//! Prints times and their ratios; nothing is judged here. Run it on the disk that matters: the first
//! argument that is a folder, else the one for temporary files.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark: it reports to a person and stops at the first trouble"
)]

use std::path::PathBuf;
use std::time::Instant;

use outrigger_journal::{Digest, Event, Journal, RunOptions};
use tokio::task::JoinSet;

const EVENTS: u32 = 2_048;
const QUEUED: u32 = 100_000;

fn note(number: u32) -> Event {
    Event::ServerEnded {
        server: "bench".to_owned(),
        reason: number.to_string(),
    }
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

/// Microseconds per durable event with this many recorders, and events per commit.
async fn durable(folder: &std::path::Path, recorders: u32) -> (f64, f64) {
    let journal = Journal::open(&folder.join(format!("{recorders}.db"))).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let (before, clock) = (journal.commits(), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..recorders {
        let run = run.clone();
        tasks.spawn(async move {
            for number in 0..EVENTS / recorders {
                run.record_durable(note(number)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let took = clock.elapsed().as_secs_f64() * 1e6 / f64::from(EVENTS);
    let commits = u32::try_from(journal.commits() - before).unwrap();
    journal.close().await.unwrap();
    (took, f64::from(EVENTS) / f64::from(commits))
}

/// Microseconds until `record` returns, and events a second until all are on disk.
async fn queued(folder: &std::path::Path) -> (f64, f64) {
    let journal = Journal::open(&folder.join("queued.db")).unwrap();
    let run = journal
        .begin(started(), RunOptions::default())
        .await
        .unwrap();
    let clock = Instant::now();
    for number in 0..QUEUED {
        run.record(note(number));
    }
    let returned = clock.elapsed().as_secs_f64() * 1e6 / f64::from(QUEUED);
    journal.close().await.unwrap();
    (returned, f64::from(QUEUED) / clock.elapsed().as_secs_f64())
}

/// Microseconds that hashing one line takes, of the length that most have, and a large one.
fn hashing() -> [f64; 2] {
    [200, 100_000].map(|bytes| {
        let text = "x".repeat(bytes);
        let clock = Instant::now();
        for _ in 0..EVENTS {
            std::hint::black_box(Digest::of(std::hint::black_box(text.as_bytes())));
        }
        clock.elapsed().as_secs_f64() * 1e6 / f64::from(EVENTS)
    })
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let given = std::env::args()
        .skip(1)
        .map(PathBuf::from)
        .find(|path| path.is_dir());
    let folder = match given {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let (returned, rate) = queued(folder.path()).await;
    println!(
        "not durable: {returned:.1} µs each until `record` returns, {rate:.0} a second stored"
    );
    let [small, large] = hashing();
    println!("hashing a line of 200 bytes: {small:.2} µs, of 100 kB: {large:.0} µs");
    let (alone, _) = durable(folder.path(), 1).await;
    println!("durable, 1 at once: {alone:.1} µs each");
    for recorders in [8, 64] {
        let (each, grouped) = durable(folder.path(), recorders).await;
        let ratio = each / alone;
        println!(
            "durable, {recorders} at once: {each:.1} µs each, {ratio:.2} of one alone; {grouped:.1} per commit"
        );
    }
}

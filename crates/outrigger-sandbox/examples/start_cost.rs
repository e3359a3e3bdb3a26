//! What a supervisor costs at the start of a server: the time from `spawn` to the first line that
//! comes back, and to the end of an orderly close, with and without one.
//!
//! `cargo run --release --example start_cost -p outrigger-sandbox -- SUPERVISOR [ROUNDS]`, where
//! SUPERVISOR is the built `outrigger-supervise`.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use outrigger_sandbox::{Launch, Patience};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let supervisor = args.next().ok_or("give the path of outrigger-supervise")?;
    let rounds: usize = match args.next() {
        Some(rounds) => rounds.to_str().ok_or("not a number")?.parse()?,
        None => 200,
    };
    let direct = Launch::new("/bin/cat", [""; 0]);
    let mut supervised = direct.clone();
    supervised.supervisor = Some(vec![supervisor]);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    // By turns, so that a busy moment of the machine hits both.
    for _ in 0..rounds {
        without.push(once(direct.clone()).await?);
        with.push(once(supervised.clone()).await?);
    }
    let (without, with) = (median(without), median(with));
    writeln!(
        std::io::stdout(),
        "median of {rounds}: first answer {:?} without, {:?} with ({:.2} times); closed {:?} without, {:?} with ({:.2} times)",
        without.0,
        with.0,
        with.0.as_secs_f64() / without.0.as_secs_f64(),
        without.1,
        with.1,
        with.1.as_secs_f64() / without.1.as_secs_f64(),
    )?;
    Ok(())
}

async fn once(launch: Launch) -> Result<(Duration, Duration), Box<dyn Error>> {
    let started = Instant::now();
    let mut child = launch.spawn()?;
    let mut stdin = child.take_stdin().ok_or("no stdin")?;
    let stdout = child.take_stdout().ok_or("no stdout")?;
    stdin.write_all(b"hello\n").await?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    let answered = started.elapsed();
    drop(stdin);
    child.close(Patience::default()).await;
    Ok((answered, started.elapsed()))
}

fn median(mut times: Vec<(Duration, Duration)>) -> (Duration, Duration) {
    let middle = times.len() / 2;
    times.sort_unstable_by_key(|times| times.0);
    let answered = times[middle].0;
    times.sort_unstable_by_key(|times| times.1);
    (answered, times[middle].1)
}

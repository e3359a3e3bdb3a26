//! A host to be killed, for the tests of this crate only.
//!
//! `outrigger-sandbox-host SUPERVISOR MARKER SCRIPT` starts `sh -c SCRIPT` under the supervisor,
//! with `MARKER` in its environment. Every line on stdin goes to the server and the server's lines
//! go to stdout, as do the words `ready` after the start and `interrupted` after Ctrl-C.

use std::error::Error;
use std::path::PathBuf;

use outrigger_sandbox::Launch;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("three arguments are needed");
    let supervisor = next()?;
    let marker = next()?;
    let mut launch = Launch::new("/bin/sh", ["-c".to_owned(), next()?]);
    launch.env.insert("MARKER".to_owned(), marker);
    launch
        .env
        .insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    launch.cwd = PathBuf::from("/");
    launch.supervisor = Some(vec![supervisor.into()]);
    let mut child = launch.spawn()?;
    let mut server_in = child.take_stdin().ok_or("no stdin")?;
    let mut server_out = BufReader::new(child.take_stdout().ok_or("no stdout")?).lines();

    // Installed before `ready` is said, so that no interrupt comes too early.
    let mut interrupts = interrupts()?;
    let mut stdout = tokio::io::stdout();
    stdout.write_all(b"ready\n").await?;
    stdout.flush().await?;
    let mut stdin = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let line = tokio::select! {
            line = stdin.next_line() => {
                let Some(line) = line? else { break };
                server_in.write_all(format!("{line}\n").as_bytes()).await?;
                continue;
            }
            line = server_out.next_line() => match line? {
                Some(line) => line,
                None => break,
            },
            _ = interrupts.recv() => "interrupted".to_owned(),
        };
        stdout.write_all(format!("{line}\n").as_bytes()).await?;
        stdout.flush().await?;
    }
    Ok(())
}

#[cfg(unix)]
fn interrupts() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn interrupts() -> std::io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}

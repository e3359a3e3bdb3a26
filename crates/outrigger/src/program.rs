//! Runs a short program to its end: what it is given, what it says.
//!
//! Promises: no shell; nothing it started is left behind, also when the caller stops waiting, which
//! is how a deadline ends it; what it may say is bounded. Leaves out: servers, which live longer.

use std::time::Duration;

use outrigger_sandbox::{ExitReport, Launch, Patience};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// The most that a program may say on its standard output.
const MOST: u64 = 4 << 20;
/// How long the end of a program is held back for its last words, which a program that it left
/// behind could otherwise keep open for ever.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How much of its last line on standard error is told.
const TOLD_CHARS: usize = 200;

/// How a program ended.
pub(crate) struct Ended {
    pub(crate) report: ExitReport,
    pub(crate) out: Vec<u8>,
    /// The last lines it said on standard error.
    pub(crate) err: Vec<String>,
}

impl Ended {
    /// `exit status 1 (no such entry)`: how it ended, and its last word on standard error.
    pub(crate) fn told(&self) -> String {
        let last = self.err.iter().rev().find(|line| !line.trim().is_empty());
        let said = last.map(|line| {
            let line: String = line.trim().chars().take(TOLD_CHARS).collect();
            format!(" ({line})")
        });
        format!("{}{}", self.report, said.unwrap_or_default())
    }
}

/// Starts `launch`, gives it `input`, and waits for its end. The error says why it did not start,
/// or that it said too much.
pub(crate) async fn run(launch: Launch, input: &[u8]) -> Result<Ended, String> {
    let mut child = launch.spawn().map_err(|error| error.to_string())?;
    let (stdin, stdout) = (child.take_stdin(), child.take_stdout());
    let (mut exited, mut over) = (child.exited(), child.exited());
    let mut out = Vec::new();
    {
        let talk = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A program need not read what it is given.
                    stdin.write_all(input).await.ok();
                    stdin.shutdown().await.ok();
                }
            };
            let read = async {
                if let Some(stdout) = stdout {
                    stdout.take(MOST + 1).read_to_end(&mut out).await.ok();
                }
            };
            tokio::join!(write, read);
        };
        tokio::pin!(talk);
        let ended = async {
            over.wait_for(Option::is_some).await.ok();
        };
        tokio::pin!(ended);
        tokio::select! {
            () = &mut talk => {}
            () = &mut ended => {
                timeout(LAST_WORDS, talk).await.ok();
            }
        }
    }
    if out.len() as u64 > MOST {
        return Err(format!("it said more than {} MiB", MOST >> 20));
    }
    exited.wait_for(Option::is_some).await.ok();
    let report = child.exited().borrow().clone();
    let err = child.stderr().tail(20);
    child.close(Patience::NONE).await;
    match report {
        Some(report) => Ok(Ended { report, out, err }),
        None => Err("how it ended is not known".to_owned()),
    }
}

//! Runs the odd configuration files of the shared cases through the real program.
//!
//! `config-cases CASES OUTRIGGER`: each line of `CASES/shared/configs/expect.jsonl` is played in a
//! folder and a home of its own, and what `doctor`, `tools` and `call` say is held against it. One
//! line a case, and a last one that counts. The folder is trusted, unless the case is about that.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is how a test program speaks"
)]

mod expect;
mod judge;
mod program;
mod stage;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use expect::Case;
use program::WebServer;
use stage::Stage;

type Failure = Box<dyn Error>;

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(cases), Some(binary)) = (words.next(), words.next()) else {
        eprintln!("usage: config-cases CASES OUTRIGGER");
        return ExitCode::from(2);
    };
    match play_all(&cases, &binary) {
        Ok(counts) => {
            println!("{} passed, {} failed", counts.passed, counts.failed);
            if counts.failed == 0 && counts.passed > 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("config-cases: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn play_all(kit: &Path, binary: &Path) -> Result<Counts, Failure> {
    let (kit, binary) = (kit.canonicalize()?, binary.canonicalize()?);
    let lines = std::fs::read_to_string(kit.join("shared/configs/expect.jsonl"))?;
    let web = WebServer::start(&kit).await?;
    let mut counts = Counts::default();
    for line in lines.lines() {
        let case: Case =
            serde_json::from_str(line).map_err(|error| format!("`{line}`: {error}"))?;
        let mut stage = Stage::set(&kit, &binary, &case, web.port())?;
        let faults = judge::judge(&mut stage, &case).await?;
        if faults.is_empty() {
            println!("ok    {}", case.id);
            counts.passed += 1;
        } else {
            println!("FAIL  {:<26} {}", case.id, faults.join("; "));
            counts.failed += 1;
        }
    }
    Ok(counts)
}

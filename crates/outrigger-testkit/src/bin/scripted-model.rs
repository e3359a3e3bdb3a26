//! `scripted-model SCRIPT.json [RECORD.jsonl]`: a model provider for tests of the command line.
//!
//! Prints its base URL as one line, serves until standard input closes, and then writes what it was
//! asked to `RECORD.jsonl`, one request a line.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use outrigger_testkit::provider_server::{ProviderServer, Script};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "scripted-model: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: scripted-model SCRIPT.json [RECORD.jsonl]");
    let path = arguments.next().ok_or_else(usage)?;
    let record = arguments.next();
    let text =
        fs::read_to_string(&path).map_err(|error| io::Error::other(format!("{path}: {error}")))?;
    let script: Script = serde_json::from_str(&text)
        .map_err(|error| io::Error::other(format!("{path}: {error}")))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let server = runtime.block_on(ProviderServer::start(script))?;
    writeln!(io::stdout(), "{}", server.base_url())?;
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    if let Some(record) = record {
        let mut lines = String::new();
        for request in server.requests() {
            lines.push_str(&serde_json::to_string(&request)?);
            lines.push('\n');
        }
        fs::write(&record, lines)?;
    }
    Ok(())
}

//! What becomes of real servers' schemas in the words of each provider family, and whether calls come
//! back from there as what they stand for.
//!
//! `schema-eval FOLDER`: reads every `*.json` of the folder, a raw `tools/list` result each, and prints
//! one JSON line for each family. Ends with a failure when more tools are set aside than may be, or when
//! the law of compiled schemas ([`outrigger_testkit::schema_law`]) does not hold for one.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is how a test program speaks"
)]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outrigger_schemas::{Compiled, Effect, Family, compile};
use outrigger_testkit::instances::Dice;
use outrigger_testkit::schema_law::{Law, Tally};
use serde_json::{Value, json};

/// Values that are tried for each tool and family, in each direction.
const VALUES: usize = 3;

type Failure = Box<dyn Error>;

struct Tool {
    /// `server/tool`.
    name: String,
    schema: Value,
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: schema-eval FOLDER");
        return ExitCode::from(2);
    };
    let judged = read(Path::new(&folder)).map(|tools| {
        let told = Family::ALL.map(|family| eval(family, &tools));
        // None may be set aside, or come back as something else: these servers are in use.
        told == [0; Family::ALL.len()] && !tools.is_empty()
    });
    match judged {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("schema-eval: `{}`: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn read(folder: &Path) -> Result<Vec<Tool>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let mut tools = Vec::new();
    for file in files {
        let server = file.file_stem().unwrap_or_default().to_string_lossy();
        let list: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        for tool in list["tools"].as_array().into_iter().flatten() {
            tools.push(Tool {
                name: format!("{server}/{}", tool["name"].as_str().unwrap_or_default()),
                schema: tool["inputSchema"].clone(),
            });
        }
    }
    Ok(tools)
}

/// Prints what becomes of the tools; how many are set aside or break the law.
fn eval(family: Family, tools: &[Tool]) -> usize {
    let (mut compiled, mut changed, mut looser, mut narrower) = (0, 0, 0, 0);
    let (mut aside, mut faults, mut tally) = (Vec::new(), Vec::new(), Tally::default());
    let mut took = Duration::ZERO;
    for (seed, tool) in (1_u64..).zip(tools) {
        let clock = Instant::now();
        let outcome = compile(family, &tool.schema);
        took += clock.elapsed();
        let made = match outcome {
            Ok(made) => made,
            Err(reason) => {
                aside.push(json!({"tool": tool.name, "reason": reason.to_string()}));
                continue;
            }
        };
        compiled += 1;
        changed += usize::from(!made.changes.is_empty());
        looser += usize::from(has(&made, Effect::Looser));
        narrower += usize::from(has(&made, Effect::Narrower));
        let law = Law::new(family, &tool.schema);
        let held = law.and_then(|law| {
            law.map_or(Ok(()), |law| {
                law.hold(&mut Dice::new(seed), VALUES, &mut tally)
            })
        });
        if let Err(fault) = held {
            eprintln!("{}: {fault}", tool.name);
            faults.push(tool.name.clone());
        }
    }
    let line = json!({
        "family": family.name(),
        "tools": tools.len(),
        "compiled": compiled,
        "changed": changed,
        "looser": looser,
        "narrower": narrower,
        "quarantined": aside,
        "law": {
            "values_back": tally.back,
            "fit_the_original": tally.back_fits,
            "values_forth": tally.forth,
            "fit_the_compiled": tally.forth_fits,
            "faults": faults,
        },
        "microseconds_per_tool": took.as_micros() / (tools.len() as u128).max(1),
    });
    println!("{line}");
    aside.len() + faults.len()
}

fn has(compiled: &Compiled, effect: Effect) -> bool {
    compiled
        .changes
        .iter()
        .any(|change| change.effect == effect)
}

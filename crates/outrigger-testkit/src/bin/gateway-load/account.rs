//! What servers, ledger and clients have, held against one another.
//!
//! Rules: no server has a call twice; the ledger has every call that a client made, with exactly one end; *completed* is
//! what a server has once, *not sent* and *rejected* what none has; a client was told what the ledger says, unless it
//! gave up.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use outrigger_testkit::gateway::Place;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::Failure;
use crate::clients::{AllTold, Told};
use crate::server::ALL;

/// A call in the ledger.
#[derive(Debug, Default)]
struct Entry {
    text: String,
    ends: Vec<String>,
}

/// What does not fit. Prints the sums.
pub(crate) async fn of(
    place: &Place,
    program: &Path,
    folder: &Path,
    told: &AllTold,
) -> Result<Vec<String>, Failure> {
    let mut bad = Vec::new();
    let counted = counted(folder, &mut bad)?;
    let ledger = ledger(place, program).await?;
    let mut seen = HashMap::new();
    let mut ends = BTreeMap::<&str, usize>::new();
    for (number, Entry { text, ends: its }) in &ledger {
        let [end] = &its[..] else {
            bad.push(format!("call {number} ({text}) has {} ends", its.len()));
            continue;
        };
        *ends.entry(end).or_default() += 1;
        let there = counted.get(text).copied().unwrap_or(0);
        let fits = match end.as_str() {
            "completed" => there == 1,
            "not_sent" | "rejected" => there == 0,
            _ => there <= 1,
        };
        if !fits {
            bad.push(format!(
                "{text}: {end} in the ledger, {there} times at its server"
            ));
        }
        if let Some(other) = seen.insert(text.as_str(), end.as_str()) {
            bad.push(format!("{text}: in the ledger twice, {other} and {end}"));
        }
    }
    let mut tellings = BTreeMap::<Told, usize>::new();
    for (text, told) in told {
        *tellings.entry(*told).or_default() += 1;
        let end = seen.get(text.as_str()).copied();
        let fits = match told {
            Told::Answered => end == Some("completed"),
            Told::NotSent => matches!(end, Some("not_sent" | "rejected")),
            Told::Unknown => end == Some("unknown"),
            Told::GaveUp => end.is_some(),
            Told::Busy => end.is_none(),
        };
        if !fits {
            bad.push(format!(
                "{text}: the client was told {told:?}, the ledger has {end:?}"
            ));
        }
    }
    let strangers = counted
        .keys()
        .filter(|text| !seen.contains_key(text.as_str()));
    bad.extend(strangers.map(|text| format!("{text}: at its server, and not in the ledger")));
    let count: usize = counted.values().sum();
    println!("clients: {} calls, told {tellings:?}", told.len());
    println!(
        "ledger: {} calls, {ends:?}; servers: {count} calls",
        ledger.len()
    );
    Ok(bad)
}

/// How often each call came to its server.
fn counted(folder: &Path, bad: &mut Vec<String>) -> Result<HashMap<String, usize>, Failure> {
    let mut counted = HashMap::new();
    for (name, _) in ALL {
        let calls = fs::read_to_string(folder.join(name).with_extension("calls"))?;
        for text in calls.lines() {
            let count: &mut usize = counted.entry(text.to_owned()).or_default();
            *count += 1;
            if *count > 1 {
                bad.push(format!("{text}: came to its server {count} times"));
            }
        }
    }
    Ok(counted)
}

/// The calls of the one run, by number.
async fn ledger(place: &Place, program: &Path) -> Result<BTreeMap<u64, Entry>, Failure> {
    let listed = place
        .command(program, &["runs", "list", "--json"])
        .stdout(Stdio::piped())
        .output()
        .await?;
    let runs: Value = serde_json::from_slice(&listed.stdout)?;
    let run = runs[0]["id"].as_str().ok_or("there is no run")?;
    let mut shown = place
        .command(program, &["runs", "show", run, "--json"])
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = shown.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(lines).lines();
    let mut calls = BTreeMap::<u64, Entry>::new();
    while let Some(line) = lines.next_line().await? {
        let line: Value = serde_json::from_str(&line)?;
        let event = &line["event"];
        let Some(number) = event["call"].as_u64() else {
            continue;
        };
        let entry = calls.entry(number).or_default();
        match event["type"].as_str() {
            Some("call_proposed") => {
                let arguments: Value =
                    serde_json::from_str(event["arguments"].as_str().unwrap_or("{}"))?;
                arguments["text"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut entry.text);
            }
            Some("call_ended") => {
                let outcome = event["outcome"].as_str().unwrap_or_default();
                entry.ends.push(outcome.to_owned());
            }
            _ => {}
        }
    }
    shown.wait().await?;
    Ok(calls)
}

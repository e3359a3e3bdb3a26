//! Reads real servers' tool lists with the host's own catalog reading, and tells what it costs.
//!
//! `corpus-check PATH…`: a PATH is a folder of raw `tools/list` results, one server a file, or a
//! `tools.jsonl` with one tool a line that names its `server`. Fails when a definition that real
//! servers ship is set aside, or when two tools of one PATH would share a name or bear one that a
//! provider refuses. Times and sizes are printed, and judged by nobody.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is how a test program speaks"
)]

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_connect::{ServerName, ToolListing};
use outrigger_host::catalog::{Catalog, ServerCatalog, Standing};
use outrigger_host::review;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The share of definitions that may be set aside. These servers are in use, and their own authors'
/// hosts take all of their tools, so each one that is set aside is a fault of our reading.
const MAY_BE_SET_ASIDE: f64 = 0.0;
/// What the narrowest provider takes as a tool's name.
const NAME_BYTES: usize = 64;

type Failure = Box<dyn Error>;

/// A server's definitions, as they came over the wire.
struct Corpus {
    server: String,
    tools: Vec<Box<RawValue>>,
}

/// A `tools/list` result.
#[derive(Deserialize)]
struct Listed {
    tools: Vec<Box<RawValue>>,
}

/// The one member of a line that is not part of the definition.
#[derive(Deserialize)]
struct Owner {
    server: String,
}

/// What came of all of them.
#[derive(Default)]
struct Totals {
    catalogs: usize,
    tools: usize,
    set_aside: usize,
    tokens: u64,
    took: Duration,
    bad_names: Vec<String>,
    names: HashSet<String>,
}

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        eprintln!("usage: corpus-check PATH…");
        return ExitCode::from(2);
    }
    match check(&paths) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("corpus-check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(paths: &[PathBuf]) -> Result<bool, Failure> {
    let (mut totals, mut kept, mut bytes) = (Totals::default(), Vec::new(), 0);
    for path in paths {
        let corpora = read(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
        totals.names.clear();
        let before = resident();
        for corpus in corpora {
            kept.push(totals.add(corpus)?);
        }
        bytes += resident().saturating_sub(before);
    }
    totals.print(bytes, &kept);
    print_flags(kept);
    Ok(totals.sound())
}

/// What a person would be shown for review if all of these servers were connected at once. Judged by
/// nobody: to be read when the rules of `review` change.
fn print_flags(kept: Vec<(ServerName, ServerCatalog)>) {
    let mut catalog = Catalog::default();
    for (name, server) in kept {
        catalog.servers.insert(name, Arc::new(server));
    }
    let names = catalog.servers.keys().cloned().collect();
    let mut count = 0;
    for (server, flags) in review::flags(&catalog, &names) {
        for flag in flags {
            let tool = flag.tool.unwrap_or_default();
            println!("flagged: {server}: {tool}: {}", flag.reason);
            count += 1;
        }
    }
    println!("{count} flags for review");
}

fn read(path: &Path) -> Result<Vec<Corpus>, Failure> {
    if path.is_dir() {
        read_folder(path)
    } else {
        read_lines(path)
    }
}

fn read_folder(folder: &Path) -> Result<Vec<Corpus>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let read = |file: &PathBuf| {
        let listed: Listed = serde_json::from_str(&fs::read_to_string(file)?)
            .map_err(|error| format!("`{}`: {error}", file.display()))?;
        let server = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok(Corpus {
            server,
            tools: listed.tools,
        })
    };
    let corpora: Vec<_> = files.iter().map(read).collect::<Result<_, Failure>>()?;
    if corpora.is_empty() {
        Err("it has no `*.json`".into())
    } else {
        Ok(corpora)
    }
}

fn read_lines(file: &Path) -> Result<Vec<Corpus>, Failure> {
    let mut servers: BTreeMap<String, Vec<Box<RawValue>>> = BTreeMap::new();
    for line in fs::read_to_string(file)?.lines() {
        let owner: Owner = serde_json::from_str(line)?;
        servers
            .entry(owner.server)
            .or_default()
            .push(RawValue::from_string(line.to_owned())?);
    }
    Ok(servers
        .into_iter()
        .map(|(server, tools)| Corpus { server, tools })
        .collect())
}

impl Totals {
    fn add(&mut self, corpus: Corpus) -> Result<(ServerName, ServerCatalog), Failure> {
        let name = ServerName::new(&corpus.server)?;
        let listed = corpus.tools.len();
        let listing = ToolListing {
            tools: corpus.tools,
            pages: 1,
            problems: Vec::new(),
            took: Duration::ZERO,
        };
        let clock = Instant::now();
        let catalog = ServerCatalog::read(&name, Standing::default(), listing);
        let took = clock.elapsed();

        let (usable, aside, tokens) = (
            catalog.tools.len(),
            catalog.set_aside.len(),
            catalog.tokens(),
        );
        println!(
            "{:<36} {listed:>4} tools {usable:>4} usable {aside:>3} set aside ~{tokens:>7} tokens {:>7.1} ms",
            corpus.server,
            took.as_secs_f64() * 1e3
        );
        for tool in &catalog.set_aside {
            println!("    set aside: {}: {}", tool.tool, tool.reason);
        }
        for tool in &catalog.tools {
            let name = tool.name.to_string();
            if !fits(&name) || self.names.contains(&name) {
                self.bad_names
                    .push(format!("{name} ({} of {})", tool.raw_name, corpus.server));
            }
            self.names.insert(name);
        }
        self.catalogs += 1;
        self.tools += listed;
        self.set_aside += aside;
        self.tokens += tokens;
        self.took += took;
        Ok((name, catalog))
    }

    fn share(&self) -> f64 {
        ratio(self.set_aside, self.tools)
    }

    fn sound(&self) -> bool {
        self.share() <= MAY_BE_SET_ASIDE && self.bad_names.is_empty() && self.tools > 0
    }

    fn print(&self, bytes: usize, kept: &[(ServerName, ServerCatalog)]) {
        let thousands = ratio(self.tools, 1000);
        println!(
            "{} catalogs, {} tools, {} set aside ({:.2} %, at most {:.2} %), ~{} tokens",
            self.catalogs,
            self.tools,
            self.set_aside,
            self.share() * 100.0,
            MAY_BE_SET_ASIDE * 100.0,
            self.tokens
        );
        println!(
            "{:.0} ms and {:.1} MiB per 1,000 tools, {} catalogs held",
            self.took.as_secs_f64() * 1e3 / thousands,
            ratio(bytes, 1 << 20) / thousands,
            kept.len()
        );
        for name in &self.bad_names {
            println!("not a name of its own that every provider takes: {name}");
        }
    }
}

fn fits(name: &str) -> bool {
    name.len() <= NAME_BYTES
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and bytes of a corpus are far below 2^52"
)]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// Resident bytes of this process, where the system tells them (Linux, `/proc/self/statm` in pages).
fn resident() -> usize {
    const PAGE: usize = 4096;
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * PAGE
}

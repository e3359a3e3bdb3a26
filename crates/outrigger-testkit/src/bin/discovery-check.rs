//! What tools that are found instead of shown save, and whether a model gets at them.
//!
//! `discovery-check tokens LISTS CONTEXT` prints, for three sets of the real servers whose
//! `tools/list` results are in the folder LISTS, the declaration tokens of a first request with all
//! tools and with the default settings, for a model that reads CONTEXT tokens. Fails when the eight
//! largest servers do not shrink to a tenth.
//!
//! `discovery-check find LISTS MORE.jsonl PROGRAM SERVERS` has a scripted model ask PROGRAM for things
//! that only installed servers of the folder SERVERS can do, amid all those tools: it finds each by a
//! search in words of its own, and calls it. Fails when a call does not reach its server.
//!
//! `discovery-check replay FILE` is a server that lists what a file holds.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test program: it speaks, and starts the program that it tests"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{Connector, InProcessSpec, TransportSpec};
use outrigger_host::approve::NobodyThere;
use outrigger_host::config::{self, EntryState, Surroundings};
use outrigger_host::hooks::Hooks;
use outrigger_host::pins::Pins;
use outrigger_host::policy::Policy;
use outrigger_host::questions::Questions;
use outrigger_host::{Host, Parts, tokens};
use outrigger_journal::{Run, RunOptions};
use outrigger_testkit::provider_server::{ProviderServer, RecordedRequest, Turn};
use outrigger_testkit::replay::Replay;
use serde_json::{Value, json};

type Failure = Box<dyn Error>;

/// Servers in a set that is not all of them.
const SOME: usize = 8;
/// What has to be saved of the large set.
const SAVED: f64 = 0.9;
/// The least tools that have to be there when one is looked for.
const MANY: usize = 2_000;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let chore = words.first().and_then(|word| word.to_str());
    let done = match (chore, &words[1.min(words.len())..]) {
        (Some("replay"), [file]) => replay(file),
        (Some("tokens"), [lists, context]) => table(lists, context).await,
        (Some("find"), [lists, more, program, servers]) => {
            find(lists, more, program, servers).await
        }
        _ => {
            eprintln!("usage: discovery-check tokens|find|replay …");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("discovery-check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn replay(file: &Path) -> Result<(), Failure> {
    Ok(Replay::read(file)?.serve_stdio()?)
}

/// The lists of a folder, by server.
fn lists(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut lists = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            lists.insert(name.into_owned(), path.clone());
        }
    }
    Ok(lists)
}

async fn table(folder: &Path, context: &Path) -> Result<(), Failure> {
    let context: u64 = context.to_string_lossy().parse()?;
    let lists = lists(folder)?;
    let mut sizes = Vec::new();
    for (name, file) in &lists {
        let one = BTreeMap::from([(name.clone(), file.clone())]);
        sizes.push((cost(&one, context).await?.before, name.clone()));
    }
    sizes.sort_unstable();
    let set = |names: &[(u64, String)]| {
        let names = names.iter().map(|(_, name)| name.clone());
        names
            .map(|name| (name.clone(), lists[&name].clone()))
            .collect()
    };
    println!("| set | servers | tools | all declared | as sent | saved |");
    println!("|---|---|---|---|---|---|");
    let large: BTreeMap<_, _> = set(&sizes[sizes.len().saturating_sub(SOME)..]);
    for (what, servers) in [
        ("small", set(&sizes[..SOME.min(sizes.len())])),
        ("large", large),
        ("all", lists.clone()),
    ] {
        let cost = cost(&servers, context).await?;
        println!(
            "| {what} | {} | {} | {} | {} | {:.1} % |",
            servers.len(),
            cost.tools,
            cost.before,
            cost.after,
            cost.saved() * 100.0
        );
        if what == "large" && cost.saved() < SAVED {
            return Err(format!("the large set saves less than {SAVED}").into());
        }
    }
    Ok(())
}

/// Estimated tokens before the conversation.
struct Cost {
    tools: usize,
    /// Every tool declared.
    before: u64,
    /// What is declared, and the index of the rest.
    after: u64,
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "tokens are far below 2^52")]
    fn saved(&self) -> f64 {
        1.0 - self.after as f64 / self.before as f64
    }
}

async fn cost(servers: &BTreeMap<String, PathBuf>, context: u64) -> Result<Cost, Failure> {
    let folder = tempfile::tempdir()?;
    let mut text = String::from("[builtin]\ntime = false\nworkspace = false\n");
    for name in servers.keys() {
        let _ = writeln!(text, "[servers.{name}]\ncommand = 'x'");
    }
    fs::write(folder.path().join("outrigger.toml"), text)?;
    let mut config = config::load(&Surroundings {
        workspace: folder.path().join("workspace"),
        user_dir: Some(folder.path().to_owned()),
        ..Surroundings::default()
    });
    for (name, entry) in &mut config.servers {
        if let EntryState::Ready(settings) = &mut entry.state {
            let replay = Replay::read(&servers[name.as_str()])?;
            settings.spec.transport = TransportSpec::InProcess(InProcessSpec(Arc::new(replay)));
        }
    }
    let parts = Parts {
        connector: Connector::new("0.0.0", None),
        run: Run::unrecorded(RunOptions::default()),
        builtins: Vec::new(),
        approver: Arc::new(NobodyThere),
        questions: Questions::default(),
        policy: Policy::new(&config.policy, &[])?,
        hooks: Arc::new(Hooks::none()),
        pins: Arc::new(Pins::none()),
        shared: None,
        upkeep: None,
        leases: None,
        artifacts: None,
        traces: None,
    };
    let host = Host::start(&config, parts);
    let late = host.settled(Duration::from_mins(2)).await;
    if !late.is_empty() {
        return Err(format!("these servers did not list: {late:?}").into());
    }
    let toolset = host.toolset();
    let exposure = toolset.exposure(context);
    let declared: u64 = exposure.tools.iter().map(|tool| tool.tokens).sum();
    let cost = Cost {
        tools: toolset.tools().len(),
        before: toolset.tokens(),
        after: declared + exposure.index.as_deref().map_or(0, tokens::estimate),
    };
    host.close().await;
    Ok(cost)
}

/// What is asked for, what calls it with, the server that can do it, and what it then says.
struct Task {
    query: &'static str,
    server: &'static str,
    arguments: Value,
    says: &'static str,
}

async fn find(
    lists_folder: &Path,
    more: &Path,
    program: &Path,
    servers: &Path,
) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let root = fs::canonicalize(folder.path())?;
    for name in ["project", "home", "config/outrigger", "managed", "lists"] {
        fs::create_dir_all(root.join(name))?;
    }
    let note = root.join("project/note.txt");
    fs::write(&note, "the ferry leaves at nine\n")?;
    let mut entries = String::new();
    let mut tools = 0;
    let mut files = lists(lists_folder)?;
    files.extend(grouped(more, &root.join("lists"))?);
    let own = std::env::current_exe()?;
    for (name, file) in &files {
        let listed: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
        tools += listed["tools"].as_array().map_or(0, Vec::len);
        let _ = writeln!(
            entries,
            "[servers.'{name}']\ncommand = '{}'\nargs = ['replay', '{}']",
            own.display(),
            file.display()
        );
    }
    if tools < MANY {
        return Err(format!("{tools} tools are listed, and {MANY} are wanted").into());
    }
    let modules = servers.join("node/node_modules");
    // Where the machine has no Node.js, it is installed beside Python.
    let installed = servers.join("python/bin/node");
    let javascript = if installed.is_file() {
        installed
    } else {
        PathBuf::from("node")
    };
    let _ = write!(
        entries,
        "[servers.real-clock]\ncommand = '{}'\n\
         [servers.real-files]\ncommand = '{}'\nargs = ['{}', '{}']\n",
        servers.join("python/bin/mcp-server-time").display(),
        javascript.display(),
        modules
            .join("@modelcontextprotocol/server-filesystem/dist/index.js")
            .display(),
        root.join("project").display()
    );
    for task in tasks(&note) {
        pursue(&root, program, &entries, task, tools).await?;
    }
    Ok(())
}

/// What only installed servers can do.
fn tasks(note: &Path) -> [Task; 2] {
    [
        Task {
            query: "current time in a given time zone",
            server: "real-clock",
            arguments: json!({"timezone": "Asia/Tokyo"}),
            says: "Asia/Tokyo",
        },
        Task {
            query: "read the whole contents of a text file",
            server: "real-files",
            arguments: json!({"path": note}),
            says: "the ferry leaves at nine",
        },
    ]
}

/// The tools of a `tools.jsonl` as one file for each server, those with the most tools.
fn grouped(lines: &Path, folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut servers: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in fs::read_to_string(lines)?.lines() {
        let tool: Value = serde_json::from_str(line)?;
        let server = tool["server"].as_str().unwrap_or_default().to_owned();
        servers.entry(server).or_default().push(tool);
    }
    let mut servers: Vec<_> = servers.into_iter().collect();
    servers.sort_by_key(|(_, tools)| std::cmp::Reverse(tools.len()));
    let mut files = BTreeMap::new();
    for (name, tools) in servers.into_iter().take(SOME) {
        let file = folder.join(format!("{name}.json"));
        fs::write(&file, json!({"tools": tools}).to_string())?;
        files.insert(format!("{name}-2"), file);
    }
    Ok(files)
}

/// Has the program answer one question with a model that searches, takes the server's tool among the
/// first five found, and calls it.
async fn pursue(
    root: &Path,
    program: &Path,
    entries: &str,
    task: Task,
    tools: usize,
) -> Result<(), Failure> {
    let wanted = format!("mcp__{}__", task.server);
    let (query, arguments) = (task.query, task.arguments.clone());
    let respond = move |request: &RecordedRequest| match &request.results()[..] {
        [] => Turn::calls([("search_tools", json!({"query": query}))]),
        [found, ..] if found.contains("`call_tool` calls one of them") => {
            let hit = found
                .lines()
                .skip(1)
                .take(5)
                .filter_map(|line| line.split_once('(').map(|(name, _)| name))
                .find(|name| name.starts_with(&wanted));
            match hit {
                Some(name) => {
                    Turn::calls([("call_tool", json!({"name": name, "arguments": arguments}))])
                }
                None => Turn::text(format!("not among the first five: {found}")),
            }
        }
        [result, ..] => Turn::text(format!("It says: {result}")),
    };
    let model = ProviderServer::answering(respond).await?;
    let provider = format!(
        "[model]\ndefault = 'mine:one'\n[model.providers.mine]\nkind = 'anthropic'\nbase_url = '{}'\n",
        model.base_url()
    );
    let file = root.join("config/outrigger/outrigger.toml");
    fs::write(file, format!("{provider}{entries}"))?;
    let program = program.to_owned();
    let (place, allow) = (root.to_owned(), format!("mcp__{}__*", task.server));
    let ran = tokio::task::spawn_blocking(move || ask(&program, &place, &allow)).await??;
    let declared = model
        .requests()
        .first()
        .map_or(0, |request| request.tools().len());
    let answer: Value = serde_json::from_str(&ran).map_err(|error| format!("{error}: {ran}"))?;
    let told = answer["answer"].as_str().unwrap_or_default();
    let last = answer["calls"].as_array().and_then(|calls| calls.last());
    let target = last
        .and_then(|call| call["tool"].as_str())
        .unwrap_or_default();
    println!(
        "{} tools, {declared} declared: `{}` found and called `{target}`",
        tools, task.query
    );
    if told.contains(task.says) && target.starts_with(&format!("mcp__{}__", task.server)) {
        Ok(())
    } else {
        Err(format!("the call did not reach `{}`: {answer}", task.server).into())
    }
}

/// The program's JSON for a question, in a place of its own.
fn ask(program: &Path, root: &Path, allow: &str) -> Result<String, std::io::Error> {
    let mut command = Command::new(program);
    command
        .args(["ask", "Do it.", "--json", "--allow", allow])
        .current_dir(root.join("project"))
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .stdin(Stdio::null());
    for (name, folder) in [
        ("HOME", "home"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_CACHE_HOME", "cache"),
        ("OUTRIGGER_MANAGED_DIR", "managed"),
    ] {
        command.env(name, root.join(folder));
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! `outrigger serve` as other programs meet it, in a folder and with a configuration of its own.
//!
//! Promises: nothing of the machine's own configuration is read or written; a gateway that listens is ended with its
//! owner.
#![allow(
    clippy::disallowed_methods,
    reason = "what is tested gets the environment of the test, and is started by it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// Where a gateway has its configuration, its state and its cache.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder of all of it, which is also where programs run.
    pub folder: PathBuf,
    /// The environment of programs that run in it.
    pub env: BTreeMap<String, String>,
}

/// A gateway that listens.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    /// Its address.
    pub url: String,
    /// What it says that no program may have to say.
    faults: Arc<Mutex<Vec<String>>>,
}

impl Place {
    /// A place with this configuration (`outrigger.json`).
    pub fn new(folder: &Path, configuration: &Value) -> io::Result<Self> {
        let config = folder.join("config/outrigger");
        fs::create_dir_all(&config)?;
        fs::write(config.join("outrigger.json"), configuration.to_string())?;
        let mut env: BTreeMap<String, String> = std::env::vars().collect();
        for (name, under) in [
            ("HOME", ""),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
            ("OUTRIGGER_MANAGED_DIR", "managed"),
        ] {
            env.insert(name.to_owned(), folder.join(under).display().to_string());
        }
        Ok(Self {
            folder: folder.to_owned(),
            env,
        })
    }

    /// A program that is to run in it; what it says on standard error is piped.
    pub fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(&self.folder)
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Processes that run in it, by their command lines. Linux.
    pub fn processes(&self) -> io::Result<Vec<String>> {
        let mark = format!("HOME={}", self.env["HOME"]);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            // One that is gone by now, or somebody else's, is none of ours.
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            if variables.any(|variable| variable == mark.as_bytes()) {
                let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
                found.push(line.replace('\0', " "));
            }
        }
        Ok(found)
    }
}

impl Listening {
    /// Starts `program serve --http 127.0.0.1:0 WORDS`.
    pub async fn start(place: &Place, program: &Path, words: &[&str]) -> io::Result<Self> {
        let words = [&["serve", "--http", "127.0.0.1:0"], words].concat();
        let mut child = place.command(program, &words).spawn()?;
        let mut talk = talk(&mut child)?;
        let url = find(&mut talk, "serving on ").await?;
        let faults = Arc::<Mutex<Vec<String>>>::default();
        let found = Arc::clone(&faults);
        tokio::spawn(async move {
            while let Ok(Some(line)) = talk.next_line().await {
                if line.contains(" panicked at ") {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push(line);
                }
            }
        });
        Ok(Self { child, url, faults })
    }

    /// Where it panicked, a line each. A task that does so leaves the rest of the program as it was, so nothing
    /// else need show it.
    pub fn faults(&self) -> Arc<Mutex<Vec<String>>> {
        Arc::clone(&self.faults)
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it as service managers do, within `patience`.
    pub async fn end(mut self, patience: Duration) -> io::Result<ExitStatus> {
        let gone = || io::Error::other("the gateway has ended by itself");
        let pid = self.pid().ok_or_else(gone)?.to_string();
        Command::new("kill").args(["-TERM", &pid]).status().await?;
        let ended = tokio::time::timeout(patience, self.child.wait()).await;
        ended.map_err(|_| io::Error::other("the gateway did not end"))?
    }
}

/// What a program says on standard error, line by line.
pub fn talk(child: &mut Child) -> io::Result<Lines<BufReader<ChildStderr>>> {
    let stderr = child.stderr.take();
    let stderr = stderr.ok_or_else(|| io::Error::other("standard error is not piped"))?;
    Ok(BufReader::new(stderr).lines())
}

/// What follows `start` on the first line that begins so.
pub async fn find(lines: &mut Lines<BufReader<ChildStderr>>, start: &str) -> io::Result<String> {
    let mut before = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if let Some(rest) = line.strip_prefix(start) {
            return Ok(rest.to_owned());
        }
        before.push(line);
    }
    let said = before.join("; ");
    Err(io::Error::other(format!(
        "the program ended and said: {said}"
    )))
}

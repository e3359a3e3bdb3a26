//! A place of its own for each test: workspace, home, configuration and state folders, all temporary,
//! and the program run in it with an environment that has nothing of the machine's but `PATH`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A program that takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The folders.
pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

/// What the program said and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("outrigger-")
            .tempdir()
            .unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["project", "home", "config/outrigger", "managed"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        Self {
            _folder: folder,
            root,
        }
    }

    /// With these servers in `project/.mcp.json`.
    pub(crate) fn with_servers(servers: &Value) -> Self {
        let place = Self::new();
        place.servers(servers);
        place
    }

    pub(crate) fn servers(&self, servers: &Value) {
        // On lines of their own: a position in it must not depend on how long a path here is.
        self.write(
            "project/.mcp.json",
            format!("{:#}", json!({ "mcpServers": servers })),
        );
    }

    /// Adds to the person's own configuration.
    pub(crate) fn user(&self, toml: &str) {
        let file = self.root.join("config/outrigger/outrigger.toml");
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, format!("{before}{toml}\n")).unwrap();
    }

    pub(crate) fn write(&self, file: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("state/outrigger/journal.db")
    }

    /// The program with these words, ready to be run here. The project is trusted.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.wary(words);
        command.arg("--trust-project");
        command
    }

    /// The same of somebody who has not said that the project is trusted.
    pub(crate) fn wary(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        command.args(words).current_dir(self.project()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap());
        for (name, folder) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
            ("OUTRIGGER_MANAGED_DIR", "managed"),
        ] {
            command.env(name, self.root.join(folder));
        }
        // No model of this machine may answer.
        command.env("TZ", "UTC").env("OLLAMA_HOST", "127.0.0.1:1");
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        self.run_with(words, |_| {})
    }

    /// Runs the program after `change`; nobody is at its standard input.
    pub(crate) fn run_with(&self, words: &[&str], change: impl FnOnce(&mut Command)) -> Ran {
        let mut command = self.command(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        change(&mut command);
        Ran::of(command.spawn().unwrap())
    }

    /// The same of somebody who has not said that the project is trusted.
    pub(crate) fn run_wary(&self, words: &[&str]) -> Ran {
        let mut command = self.wary(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ran::of(command.spawn().unwrap())
    }

    /// The one JSON document that the program prints when all is well.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(words);
        assert_eq!(ran.code, 0, "{words:?}: {ran:#?}");
        ran.json()
    }

    /// The newest run as `runs show` prints it.
    #[track_caller]
    pub(crate) fn last_run(&self) -> String {
        let runs = self.json(&["runs", "list", "--json"]);
        let shown = self.run(&["runs", "show", runs[0]["id"].as_str().unwrap()]);
        assert_eq!(shown.code, 0, "{shown:#?}");
        shown.out
    }

    /// The events of the newest run, one a line.
    #[track_caller]
    pub(crate) fn events(&self) -> String {
        let runs = self.json(&["runs", "list", "--json"]);
        self.run(&["runs", "show", runs[0]["id"].as_str().unwrap(), "--json"])
            .out
    }

    /// Processes that belong to this place: every server has its `HOME`, and so do its children.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = format!("HOME={}", self.root.join("home").display());
        let entries = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let ours = entries.filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == mark.as_bytes())
        });
        ours.map(|process| {
            fs::read_to_string(process.join("cmdline"))
                .unwrap_or_default()
                .replace('\0', " ")
        })
        .collect()
    }

    #[track_caller]
    pub(crate) fn assert_nothing_runs(&self) {
        assert_eq!(self.processes(), Vec::<String>::new(), "left running");
    }

    /// Text without what differs from run to run: folders, times, ports, names of runs.
    pub(crate) fn tidy(&self, text: &str) -> String {
        let text = text.replace(&self.root.display().to_string(), "");
        let mut tidy = String::new();
        for line in text.lines() {
            tidy.push_str(&scrubbed(line));
            tidy.push('\n');
        }
        tidy.trim_end().to_owned()
    }
}

/// A line with times and names of runs taken out.
fn scrubbed(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut out = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).copied().unwrap_or_default();
        let unit = ["ms", "s", "ms)", "s)"].contains(&next.trim_end_matches([',', '.', ':', ';']));
        let bare = word.trim_start_matches('(');
        let number = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_digit() || c == '.');
        out.push(
            if unit && number && at > 0 && ["in", "in ("].contains(&words[at - 1]) {
                "N".to_owned()
            } else if is_run(word) {
                "RUN".to_owned()
            } else {
                without_port(word)
            },
        );
    }
    out.join(" ")
}

/// `http://127.0.0.1:PORT/v1`; ports below 1024 are no accident.
fn without_port(word: &str) -> String {
    let Some((before, rest)) = word.split_once("http://127.0.0.1:") else {
        return word.to_owned();
    };
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let port = if digits > 3 { "PORT" } else { &rest[..digits] };
    format!("{before}http://127.0.0.1:{port}{}", &rest[digits..])
}

/// For example `20261130-103302-1a2b`.
fn is_run(word: &str) -> bool {
    let parts: Vec<&str> = word.trim_end_matches(['`', '.', ')']).split('-').collect();
    let digits = |text: &str, count: usize| {
        text.len() == count && text.chars().all(|c| c.is_ascii_hexdigit())
    };
    matches!(parts[..], [day, time, end] if digits(day, 8) && digits(time, 6) && digits(end, 4))
}

impl Ran {
    /// Waits for the end. Whoever hangs is ended, and the test fails.
    pub(crate) fn of(child: Child) -> Self {
        let pid = child.id().to_string();
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(child.wait_with_output()));
        let Ok(output) = receive.recv_timeout(PATIENCE) else {
            Command::new("kill").args(["-KILL", &pid]).status().unwrap();
            panic!("the program did not end: {:?}", receive.recv());
        };
        Self::from(output.unwrap())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Waits until `done`, which something else brings about.
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "it never happened: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A file of this crate's `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
        .display()
        .to_string()
}

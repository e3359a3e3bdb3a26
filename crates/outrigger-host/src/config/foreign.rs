//! Server lists of other hosts, read for being taken over: each host's own file, its own words for
//! keys, its own way of writing variables, in our words.
//!
//! Promises: reading changes nothing and starts nothing; every key of a server that is not taken over is
//! named with its reason; what other hosts may call without asking is never taken for a permission; a
//! file that cannot be read costs that file. Leaves out: writing ([`super::import`] and the command line),
//! and what the hosts keep outside of these files (servers of extensions, of accounts, of managed
//! machines).

mod check;
mod places;
mod server;
mod settings;
mod words;

use std::path::Path;
use std::sync::Arc;

use super::ConfigProblem;
use super::node::{Entry, Node, Value};
use super::origin::Layer;
use super::parse::{self, Format};
use super::problem::Severity;
use super::report::join;
use super::source::Source;
use crate::policy::BadGlob;

pub use check::differs_only_at;
pub use places::{File, Places, Platform};
pub(crate) use server::{is_ourselves, leads_here};
pub use settings::{Address, Settings, Text, Timeouts};

/// A file of another host may have this many bytes: some keep their history in it.
const MAX_BYTES: u64 = 32 << 20;
/// A list may have this many servers.
const MAX_SERVERS: usize = 1000;

/// A program that has a server list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Claude Code: `~/.claude.json`.
    Claude,
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Codex: `config.toml`.
    Codex,
    /// VS Code: `mcp.json`.
    VsCode,
    /// Cursor: `mcp.json`.
    Cursor,
    /// Gemini CLI: `settings.json`.
    Gemini,
    /// opencode: `opencode.json`, `opencode.jsonc`.
    Opencode,
    /// Zed: `settings.json`.
    Zed,
}

impl Host {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Claude,
        Self::ClaudeDesktop,
        Self::Codex,
        Self::VsCode,
        Self::Cursor,
        Self::Gemini,
        Self::Opencode,
        Self::Zed,
    ];

    /// The name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Codex => "codex",
            Self::VsCode => "vscode",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Zed => "zed",
        }
    }

    /// The name that people have for it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::VsCode => "VS Code",
            Self::Cursor => "Cursor",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
            Self::Zed => "Zed",
        }
    }

    /// The host with a name of the command line.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// How its files are written.
    pub fn format(self) -> Format {
        match self {
            Self::Codex => Format::Toml,
            _ => Format::Json,
        }
    }
}

/// Something in a file that is not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its key, from the top of the file.
    pub key: String,
    /// Why not, or what became of it.
    pub why: String,
}

/// A server as another host's file has it.
#[derive(Debug, Clone)]
pub struct ForeignServer {
    /// Whose file it is.
    pub host: Host,
    /// The file.
    pub file: Arc<Path>,
    /// Where its entry begins, from 1.
    pub line: u32,
    /// The key of its entry, from the top of the file.
    pub key: String,
    /// Its name there.
    pub name: String,
    /// In our words, or why it cannot be had.
    pub settings: Result<Settings, String>,
    /// What of it is not taken over as it stands.
    pub left: Vec<Left>,
}

/// What one file has.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Its servers, in its order.
    pub servers: Vec<ForeignServer>,
    /// What is outside of the servers that are taken.
    pub left: Vec<Left>,
}

/// Reads a file of another host; `None` when there is none. `workspace` is the folder whose sections
/// are taken from a file that has sections for folders.
pub fn read(
    host: Host,
    file: &Path,
    workspace: &Path,
) -> Result<Option<Found>, Box<ConfigProblem>> {
    let Some(source) = Source::read_within(Layer::User, file, MAX_BYTES)? else {
        return Ok(None);
    };
    let Some(root) = tree(host, &source)? else {
        return Ok(Some(Found::default()));
    };
    let mut reading = Reading {
        host,
        source: &source,
        inputs: words::inputs(&root),
        found: Found::default(),
    };
    reading.root(&root, workspace);
    Ok(Some(reading.found))
}

/// Values in a host's file that look like secrets, for whoever shows lines of it. What cannot be read
/// has none.
pub fn secrets(host: Host, file: &Path, text: &str) -> Vec<String> {
    let source = Source::new(Layer::User, file.into(), text.to_owned());
    let mut secrets = super::secret::Secrets::default();
    if let Ok(Some(root)) = tree(host, &source) {
        hide(&root, &mut secrets);
    }
    secrets.values()
}

fn hide(node: &Node, secrets: &mut super::secret::Secrets) {
    let text = |key: &str, text: &str, secrets: &mut super::secret::Secrets| {
        let shaped = super::secret::is_secret_shape(text);
        if shaped || super::secret::is_secret_name(key) {
            secrets.add(text);
        }
        for part in super::lower::address::hidden_parts(text) {
            secrets.add(&part);
        }
    };
    match &node.value {
        Value::List(items) => {
            let mut previous: Option<&str> = None;
            for item in items {
                if let Value::Text(arg) = &item.value {
                    if let Some(hidden) = super::secret::secret_of_arg(previous, arg) {
                        secrets.add(hidden);
                    }
                    text("", arg, secrets);
                    previous = Some(arg);
                }
                hide(item, secrets);
            }
        }
        Value::Table(entries) => {
            for entry in entries {
                if let Value::Text(value) = &entry.node.value {
                    text(&entry.key, value, secrets);
                }
                hide(&entry.node, secrets);
            }
        }
        _ => {}
    }
}

fn tree(host: Host, source: &Source) -> Result<Option<Node>, Box<ConfigProblem>> {
    match parse::parse(source, host.format()) {
        // Of a key that stands twice the last counts, as for the hosts themselves.
        Ok((node, _)) => Ok(node.filter(|node| node.value != Value::Null)),
        Err(error) => {
            let message = format!("broken {}: {}", host.format(), error.message);
            let mut problem = source.problem(Severity::Error, error.at, message);
            problem.hints.extend(error.hint.map(ToOwned::to_owned));
            Err(Box::new(problem))
        }
    }
}

/// Tells whether a name matches one of these globs; without any, all do.
pub fn named_like(globs: &[String]) -> Result<impl Fn(&str) -> bool, BadGlob> {
    let globs = globs.iter().map(|text| crate::policy::glob(text));
    let globs = globs.collect::<Result<Vec<_>, _>>()?;
    Ok(move |name: &str| globs.is_empty() || globs.iter().any(|glob| glob.is_match(name)))
}

/// The path to the table of servers in a file of this host, whose text is given; where it has none yet,
/// to where one is to be.
pub fn table_in(host: Host, file: &Path, text: &str) -> &'static [&'static str] {
    let source = Source::new(Layer::User, file.into(), text.to_owned());
    match (host, tree(host, &source)) {
        (Host::Opencode, Ok(Some(root))) => opencode(&root),
        (Host::Opencode, _) => &["mcp"],
        (Host::Codex, _) => &["mcp_servers"],
        (Host::VsCode, _) => &["servers"],
        (Host::Zed, _) => &["context_servers"],
        (Host::Claude | Host::ClaudeDesktop | Host::Cursor | Host::Gemini, _) => &["mcpServers"],
    }
}

/// Since version 2 the servers of opencode have a table of their own in `mcp`.
fn opencode(root: &Node) -> &'static [&'static str] {
    let is_server = |entry: &Entry| {
        matches!(entry.key.as_str(), "type" | "command" | "url")
            && matches!(entry.node.value, Value::Text(_) | Value::List(_))
    };
    let servers = inside(root, &["mcp", "servers"]).and_then(Node::table);
    match servers {
        Some(servers) if !servers.iter().any(is_server) => &["mcp", "servers"],
        _ => &["mcp"],
    }
}

/// The reading of one file.
struct Reading<'a> {
    host: Host,
    source: &'a Source,
    inputs: Vec<words::Input>,
    found: Found,
}

impl Reading<'_> {
    fn root(&mut self, root: &Node, workspace: &Path) {
        if root.table().is_none() {
            return self.leave(
                String::new(),
                format!("the file holds {} where a table is wanted", root.found()),
            );
        }
        match self.host {
            Host::Claude => {
                self.table(root, &["mcpServers"]);
                self.folders(root, workspace);
            }
            Host::ClaudeDesktop | Host::Cursor => self.table(root, &["mcpServers"]),
            Host::Gemini => {
                self.table(root, &["mcpServers"]);
                self.switched(root);
            }
            Host::Codex => self.table(root, &["mcp_servers"]),
            Host::VsCode => {
                self.table(root, &["servers"]);
                self.table(root, &["mcp", "servers"]);
            }
            Host::Opencode => {
                self.table(root, opencode(root));
            }
            Host::Zed => self.table(root, &["context_servers"]),
        }
    }

    /// The servers of one table.
    fn table(&mut self, root: &Node, path: &[&str]) {
        let Some(node) = inside(root, path) else {
            return;
        };
        let key = path
            .iter()
            .fold(String::new(), |key, part| join(&key, part));
        self.servers(node, &key);
    }

    fn servers(&mut self, node: &Node, key: &str) {
        let Some(entries) = node.table() else {
            if node.value != Value::Null {
                self.leave(
                    key.to_owned(),
                    format!("a table of servers is wanted, found {}", node.found()),
                );
            }
            return;
        };
        for entry in entries.iter().take(MAX_SERVERS) {
            let path = join(key, &entry.key);
            let server = server::read(self.host, &self.inputs, self.source, &path, entry);
            self.found.servers.push(server);
        }
        if let Some(more) = entries
            .len()
            .checked_sub(MAX_SERVERS)
            .filter(|&more| more > 0)
        {
            self.leave(
                key.to_owned(),
                format!("{more} servers beyond {MAX_SERVERS} are not read"),
            );
        }
    }

    /// Claude Code's sections for folders: the one of the workspace is taken, others are named.
    fn folders(&mut self, root: &Node, workspace: &Path) {
        for section in inside(root, &["projects"])
            .and_then(Node::table)
            .unwrap_or_default()
        {
            let Some(servers) = inside(&section.node, &["mcpServers"]) else {
                continue;
            };
            let key = join(&join("projects", &section.key), "mcpServers");
            if is_folder(Path::new(&section.key), workspace) {
                self.servers(servers, &key);
                continue;
            }
            let names: Vec<_> = servers
                .table()
                .unwrap_or_default()
                .iter()
                .map(|entry| entry.key.as_str())
                .collect();
            if !names.is_empty() {
                let why = format!(
                    "{} of another folder; `--workspace` with that folder takes them",
                    names.join(", ")
                );
                self.leave(key, why);
            }
        }
    }

    /// Gemini CLI's lists of servers that may be used, and that may not.
    fn switched(&mut self, root: &Node) {
        let list = |key: &str| {
            let node = inside(root, &["mcp", key])?;
            let Value::List(items) = &node.value else {
                return None;
            };
            let text = |item: &Node| match &item.value {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            };
            Some(items.iter().filter_map(text).collect::<Vec<_>>())
        };
        let (allowed, excluded) = (list("allowed"), list("excluded").unwrap_or_default());
        for server in &mut self.found.servers {
            let off = excluded.contains(&server.name)
                || allowed
                    .as_ref()
                    .is_some_and(|allowed| !allowed.contains(&server.name));
            if let (true, Ok(settings)) = (off, &mut server.settings) {
                settings.enabled = false;
            }
        }
    }

    fn leave(&mut self, key: String, why: String) {
        self.found.left.push(Left { key, why });
    }
}

/// Whether a folder as it was noted is this one, whose links are followed.
fn is_folder(noted: &Path, folder: &Path) -> bool {
    noted == folder || std::fs::canonicalize(noted).is_ok_and(|noted| noted == folder)
}

/// What stands at a path of keys. A key may also be written with its dots (`"mcp.servers"`), as VS Code
/// writes settings.
fn inside<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    let entries = node.table()?;
    let whole = path.join(".");
    if let Some(entry) = entries.iter().find(|entry| entry.key == whole) {
        return Some(&entry.node);
    }
    let (first, rest) = path.split_first()?;
    let entry = entries.iter().find(|entry| entry.key == *first)?;
    if rest.is_empty() {
        Some(&entry.node)
    } else {
        inside(&entry.node, rest)
    }
}

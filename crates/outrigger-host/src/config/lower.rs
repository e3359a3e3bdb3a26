//! From one file's tree to what it configures. All formats share this; what differs is the
//! *dialect*: in our own tables an unknown key is an error (a typo in `disabled_tools` must not
//! open a door), in tables of other hosts it is a warning (their files are full of keys of their
//! own, and the server works without them).

pub(crate) mod address;
pub(crate) mod artifacts;
mod bounds;
pub(crate) mod gateway;
pub(crate) mod hook;
pub(crate) mod model;
mod oauth;
mod options;
pub(crate) mod policy;
mod repeating;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod transport;

use super::node::{Entry, Node, Pos, Value};
use super::parse::Format;
use super::problem::Severity;
use super::report::{Report, nearest};
use super::source::Source;

/// Whose words a table is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Ours.
    Native,
    /// Another host's.
    Foreign,
}

impl Dialect {
    /// How bad an unknown key is.
    pub(crate) fn unknown(self) -> Severity {
        match self {
            Self::Native => Severity::Error,
            Self::Foreign => Severity::Warning,
        }
    }
}

/// One server as written.
pub(crate) struct RawServer {
    pub(crate) name: String,
    pub(crate) at: Pos,
    pub(crate) dialect: Dialect,
    /// The path of its table (`servers.fs`), for messages.
    pub(crate) path: String,
    pub(crate) node: Node,
}

/// The tables of one file.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) servers: Vec<RawServer>,
    pub(crate) policy: Option<Node>,
    pub(crate) model: Option<Node>,
    pub(crate) limits: Option<Node>,
    pub(crate) timeouts: Option<Node>,
    pub(crate) tls: Option<Node>,
    pub(crate) builtin: Option<Node>,
    pub(crate) hooks: Option<Node>,
    pub(crate) secrets: Option<Node>,
    pub(crate) artifacts: Option<Node>,
    pub(crate) discovery: Option<Node>,
    pub(crate) results: Option<Node>,
    pub(crate) gateway: Option<Node>,
}

const NATIVE_TABLES: &[&str] = &[
    "servers",
    "policy",
    "model",
    "limits",
    "timeouts",
    "tls",
    "builtin",
    "hooks",
    "secrets",
    "artifacts",
    "discovery",
    "results",
    "gateway",
];
const SERVER_TABLES: &[&str] = &["mcpServers", "mcp_servers", "servers"];
/// What VS Code puts beside `servers`, and what editors put into any JSON file.
const IGNORED: &[&str] = &["inputs", "$schema"];

/// Takes a file apart.
pub(crate) fn split(
    report: &mut Report<'_>,
    node: Option<Node>,
    format: Format,
    dialect: Dialect,
) -> Tables {
    let mut tables = Tables::default();
    let entries = match node {
        Some(Node {
            value: Value::Table(entries),
            ..
        }) => entries,
        // An empty TOML or YAML file is a file with nothing in it; empty JSON is not JSON.
        None
        | Some(Node {
            value: Value::Null, ..
        }) if format != Format::Json => return tables,
        None => {
            report
                .warn(Pos::START, "", "the file is empty")
                .hint("an empty configuration in JSON is `{}`");
            return tables;
        }
        Some(node) => {
            let message = format!(
                "the file must hold a table, found {}; nothing in it is used",
                node.found()
            );
            report.warn(node.at, "", message);
            return tables;
        }
    };
    let known = |key: &str| NATIVE_TABLES.contains(&key) || SERVER_TABLES.contains(&key);
    if !entries.iter().any(|entry| known(&entry.key))
        && let Some(bare) = entries.iter().find(|entry| is_server_like(&entry.node))
    {
        let message = format!(
            "the server `{}` stands outside of any table",
            bare.key.escape_debug()
        );
        report
            .error(bare.at, &bare.key, message)
            .hint("put the servers into a table: `{\"mcpServers\": {…}}`");
        return tables;
    }
    for entry in entries {
        top_level(report, &mut tables, entry, dialect);
    }
    tables
}

fn top_level(report: &mut Report<'_>, tables: &mut Tables, entry: Entry, dialect: Dialect) {
    let own = dialect == Dialect::Native;
    match entry.key.as_str() {
        "servers" => servers(report, tables, entry, dialect),
        "mcpServers" | "mcp_servers" => servers(report, tables, entry, Dialect::Foreign),
        "policy" if own => tables.policy = Some(entry.node),
        "model" if own => tables.model = Some(entry.node),
        "limits" if own => tables.limits = Some(entry.node),
        "timeouts" if own => tables.timeouts = Some(entry.node),
        "tls" if own => tables.tls = Some(entry.node),
        "builtin" if own => tables.builtin = Some(entry.node),
        "hooks" if own => tables.hooks = Some(entry.node),
        "secrets" if own => tables.secrets = Some(entry.node),
        "artifacts" if own => tables.artifacts = Some(entry.node),
        "discovery" if own => tables.discovery = Some(entry.node),
        "results" if own => tables.results = Some(entry.node),
        "gateway" if own => tables.gateway = Some(entry.node),
        key if IGNORED.contains(&key) || key.starts_with(['_', '$', '/']) => {}
        _ if own => report.unknown(Severity::Error, &entry, "", NATIVE_TABLES),
        key => {
            let message = format!("`{}` is not a key that is used here", key.escape_debug());
            let warning = report.warn(entry.at, key, message);
            if let Some(near) = nearest(key, SERVER_TABLES) {
                warning.hint(format!("did you mean `{near}`?"));
            }
        }
    }
}

fn servers(report: &mut Report<'_>, tables: &mut Tables, entry: Entry, dialect: Dialect) {
    let Entry { key, node, .. } = entry;
    match node.value {
        Value::Table(entries) => {
            for entry in entries {
                let path = super::report::join(&key, &entry.key);
                let Entry {
                    key: name,
                    at,
                    node,
                } = entry;
                tables.servers.push(RawServer {
                    name,
                    at,
                    dialect,
                    path,
                    node,
                });
            }
        }
        Value::Null => {
            report.warn(node.at, &key, format!("`{key}` is empty"));
        }
        _ => report.mismatch(&key, &node, "a table of servers"),
    }
}

/// Whose file it is. Ours are told by their name, by a table that nobody else has, and TOML files
/// by not having the table that other hosts have in TOML.
pub(crate) fn dialect(source: &Source, format: Format, node: Option<&Node>) -> Dialect {
    let entries = node.and_then(Node::table).unwrap_or_default();
    let has = |keys: &[&str]| {
        entries
            .iter()
            .any(|entry| keys.contains(&entry.key.as_str()))
    };
    let own_name = source
        .path
        .file_stem()
        .is_some_and(|stem| stem == "outrigger");
    let own_toml = format == Format::Toml && !has(&["mcp_servers", "mcpServers"]);
    if own_name
        || own_toml
        || has(&[
            "policy",
            "limits",
            "timeouts",
            "tls",
            "builtin",
            "discovery",
        ])
    {
        Dialect::Native
    } else {
        Dialect::Foreign
    }
}

fn is_server_like(node: &Node) -> bool {
    let key = |entry: &Entry| matches!(entry.key.as_str(), "command" | "url");
    node.table().is_some_and(|entries| entries.iter().any(key))
}

//! From one file's tree to what it configures. All formats share this; what differs is the
//! *dialect*: in our own tables an unknown key is an error (a typo in `disabled_tools` must not
//! open a door), in tables of other hosts it is a warning (their files are full of keys of their
//! own, and the server works without them).

mod address;
pub(crate) mod model;
mod options;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod transport;

use super::node::{Entry, Node, Pos, Value};
use super::parse::Format;
use super::problem::Severity;
use super::report::Report;
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
    pub(crate) builtin: Option<Node>,
}

const NATIVE_TABLES: &[&str] = &["servers", "policy", "model", "limits", "builtin"];
const SERVER_TABLES: &[&str] = &["mcpServers", "mcp_servers", "servers"];
/// What VS Code puts beside `servers`, and what editors put into any JSON file.
const IGNORED: &[&str] = &["inputs", "$schema"];

/// Takes a file apart.
pub(crate) fn split(report: &mut Report<'_>, node: Option<Node>, format: Format) -> Tables {
    let mut tables = Tables::default();
    let native = is_native(report.source, format, node.as_ref());
    let dialect = if native {
        Dialect::Native
    } else {
        Dialect::Foreign
    };
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
    let looks_bare = entries.iter().any(|entry| is_server_like(&entry.node));
    let mut known = false;
    for entry in entries {
        known |= NATIVE_TABLES.contains(&entry.key.as_str())
            || SERVER_TABLES.contains(&entry.key.as_str());
        top_level(report, &mut tables, entry, dialect);
    }
    if !known && looks_bare {
        report
            .error(
                Pos::START,
                "",
                "the servers of this file stand at its top level",
            )
            .hint("put them into a table: `{\"mcpServers\": {…}}`");
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
        "builtin" if own => tables.builtin = Some(entry.node),
        key if IGNORED.contains(&key) || key.starts_with(['_', '$', '/']) => {}
        _ if own => report.unknown(Severity::Error, &entry, "", NATIVE_TABLES),
        _ => report.unknown(Severity::Warning, &entry, "", SERVER_TABLES),
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

/// Our own file: by its name, by its format, or by a table that nobody else has.
fn is_native(source: &Source, format: Format, node: Option<&Node>) -> bool {
    let own_name = source
        .path
        .file_stem()
        .is_some_and(|stem| stem == "outrigger");
    let own_table = node.and_then(Node::table).is_some_and(|entries| {
        entries
            .iter()
            .any(|entry| matches!(entry.key.as_str(), "policy" | "limits" | "builtin"))
    });
    own_name || own_table || format == Format::Toml
}

fn is_server_like(node: &Node) -> bool {
    let key = |entry: &Entry| matches!(entry.key.as_str(), "command" | "url");
    node.table().is_some_and(|entries| entries.iter().any(key))
}

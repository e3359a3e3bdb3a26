//! One server's table: from its keys to [`ServerSettings`]. Every fault of an entry is reported,
//! not just the first; one error sets the server aside.

use serde_json::Value as Shown;

use super::options::Options;
use super::transport::{self, Draft};
use super::{Dialect, RawServer};
use crate::config::defaults::ServerDefaults;
use crate::config::expand::{self, Expanded};
use crate::config::foreign::{is_ourselves, leads_here};
use crate::config::gap::{Gap, Slot};
use crate::config::literal::{self, Literal};
use crate::config::node::{Entry, Node, Pos, Value};
use crate::config::parse::Format;
use crate::config::problem::{ConfigProblem, Severity};
use crate::config::reference::LITERAL;
use crate::config::report::{Report, join, nearest};
use crate::config::secret::Secrets;
use crate::config::server::{EntryState, ServerSettings, WrittenKey};
use crate::config::sharing::Sharing;
use crate::config::source::Source;
use crate::config::surroundings::Surroundings;
use crate::config::value;
use outrigger_connect::{ServerName, ServerSpec, TransportSpec};

/// What lowering a server gives.
pub(crate) struct Lowered {
    pub(crate) state: EntryState,
    /// Warnings of an entry that is used all the same.
    pub(crate) warnings: Vec<ConfigProblem>,
    pub(crate) secrets: Secrets,
    pub(crate) literals: Vec<Literal>,
}

/// Our keys, for suggestions.
const KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "ca_file",
    "oauth",
    "type",
    "enabled",
    "description",
    "read_only",
    "instructions",
    "protocol",
    "versions",
    "framing",
    "timeouts",
    "limits",
    "allowed_tools",
    "disabled_tools",
    "always",
    "start",
    "sharing",
    "single",
    "answers",
    "idempotent",
    "retries",
    "tools",
];

/// What other hosts call our keys.
const ALIASES: &[(&str, &str)] = &[
    ("transport", "type"),
    ("environment", "env"),
    ("http_headers", "headers"),
    ("readOnly", "read_only"),
    ("enabled_tools", "allowed_tools"),
    ("enabledTools", "allowed_tools"),
    ("allowedTools", "allowed_tools"),
    ("includeTools", "allowed_tools"),
    ("disabledTools", "disabled_tools"),
    ("excludeTools", "disabled_tools"),
];

/// Lowers an entry whose name is good.
pub(crate) fn lower(
    source: &Source,
    around: &Surroundings,
    (name, raw): (&ServerName, &RawServer),
    defaults: &ServerDefaults,
) -> Lowered {
    let mut lowering = Lowering::new(source, around, &raw.path);
    let state = lowering.entry(name, raw, defaults);
    let Lowering {
        report,
        secrets,
        literals,
        ..
    } = lowering;
    let (state, warnings) = match state {
        None => (EntryState::Broken(report.problems), Vec::new()),
        Some(state) => (state, report.problems),
    };
    Lowered {
        state,
        warnings,
        secrets,
        literals,
    }
}

/// The state of lowering one entry.
pub(crate) struct Lowering<'a> {
    pub(crate) report: Report<'a>,
    pub(crate) around: &'a Surroundings,
    pub(crate) path: &'a str,
    pub(crate) secrets: Secrets,
    pub(crate) written: Vec<WrittenKey>,
    /// Values with secrets still missing.
    pub(crate) gaps: Vec<Gap>,
    /// Secrets that stand in the file itself.
    pub(crate) literals: Vec<Literal>,
}

impl<'a> Lowering<'a> {
    /// Nothing lowered yet; `path` is the table's.
    pub(crate) fn new(source: &'a Source, around: &'a Surroundings, path: &'a str) -> Self {
        Self {
            report: Report::new(source),
            around,
            path,
            secrets: Secrets::default(),
            written: Vec::new(),
            gaps: Vec::new(),
            literals: Vec::new(),
        }
    }
}

impl Lowering<'_> {
    /// `None` when the entry is broken.
    fn entry(
        &mut self,
        name: &ServerName,
        raw: &RawServer,
        defaults: &ServerDefaults,
    ) -> Option<EntryState> {
        let entries = value::table(&mut self.report, self.path, &raw.node)?;
        if is_off(entries) {
            return Some(EntryState::Disabled);
        }
        let mut draft = Draft::new(raw.at);
        let mut rest = Options::new(defaults);
        for entry in entries {
            self.key(raw.dialect, entry, &mut draft, &mut rest);
        }
        draft.framing = rest.framing;
        if rest.single && rest.sharing == Some(Sharing::PerPrincipal) {
            self.more_than_one(entries);
        }
        let transport = transport::finish(self, draft, &defaults.ca_files);
        if self.report.has_errors() {
            return None;
        }
        let transport = transport?;
        let ourselves = match &transport {
            TransportSpec::Stdio(stdio) => {
                is_ourselves(&stdio.command, stdio.args.iter().map(String::as_str))
            }
            TransportSpec::Http(http) => leads_here(name.as_str(), http.url.as_str()),
            _ => false,
        };
        if ourselves && raw.dialect == Dialect::Foreign {
            // What `install` enters for other hosts into a file that is read here too.
            return Some(EntryState::Disabled);
        }
        let spec = ServerSpec {
            name: name.clone(),
            transport,
            protocol: rest.protocol,
            versions: rest.versions,
            deadlines: rest.deadlines,
            limits: rest.limits,
        };
        Some(EntryState::Ready(Box::new(ServerSettings {
            spec,
            read_only: rest.read_only,
            instructions: rest.instructions,
            description: rest.description,
            allowed_tools: rest.allowed_tools,
            disabled_tools: rest.disabled_tools,
            always: rest.always,
            start: rest.start,
            sharing: rest.sharing,
            single: rest.single,
            answers: rest.answers,
            repeating: rest.repeating,
            written: self.take_written(),
            gaps: std::mem::take(&mut self.gaps),
        })))
    }

    /// One for each principal, and one in all, is not both to be had.
    fn more_than_one(&mut self, entries: &[Entry]) {
        let Some(entry) = entries.iter().find(|entry| entry.key == "sharing") else {
            return;
        };
        let path = join(self.path, "sharing");
        let message = format!("`{path}` has one for each principal, and `single` one in all");
        self.report
            .error(entry.at, &path, message)
            .hint("leave out one of them; what is `single` is shared by all principals");
    }

    fn key(&mut self, dialect: Dialect, entry: &Entry, draft: &mut Draft, rest: &mut Options) {
        let alias = ALIASES
            .iter()
            .find(|(alias, _)| *alias == entry.key)
            .map(|&(_, key)| key);
        let key = match alias {
            Some(key) if dialect == Dialect::Foreign || entry.key == "transport" => key,
            _ => entry.key.as_str(),
        };
        let path = join(self.path, &entry.key);
        match key {
            "command" | "args" | "env" | "cwd" | "url" | "headers" | "ca_file" | "oauth"
            | "type" => {
                draft.key(self, key, &path, entry);
            }
            "enabled" | "disabled" => {
                value::truth(&mut self.report, &path, &entry.node);
            }
            // Words that other hosts use for something else.
            "idempotent" | "retries" | "single" | "tools" if dialect == Dialect::Foreign => {
                self.unknown(dialect, &path, entry);
            }
            _ if rest.key(self, key, &path, entry) => self.note(key, entry.at, shown(&entry.node)),
            _ => self.unknown(dialect, &path, entry),
        }
    }

    /// Records a key as written, for display. Two spellings of one key: the later one counts.
    pub(crate) fn note(&mut self, key: &str, at: Pos, shown: Shown) {
        self.note_path(vec![key.to_owned()], at, shown);
    }

    /// Records a key of a table as written, for display.
    pub(crate) fn note_inner(&mut self, table: &str, entry: &Entry, shown: Shown) {
        self.note_path(vec![table.to_owned(), entry.key.clone()], entry.at, shown);
    }

    /// What was recorded, in the order of the file.
    pub(crate) fn take_written(&mut self) -> Vec<WrittenKey> {
        self.written
            .sort_by_key(|written| (written.origin.line, written.origin.column));
        std::mem::take(&mut self.written)
    }

    fn note_path(&mut self, path: Vec<String>, at: Pos, shown: Shown) {
        let origin = self.report.origin(at);
        self.written.retain(|written| written.path != path);
        self.written.push(WrittenKey {
            path,
            shown,
            origin,
        });
    }

    /// Replaces variables, and remembers what they held; `None` after an error. For values that
    /// hold no secret: a reference to one is an error.
    pub(crate) fn expand(&mut self, path: &str, node: &Node, text: &str) -> Option<Expanded> {
        let result = expand::expand(text, self.around);
        let expanded = self.expanded(path, node, result)?;
        if let Some((_, reference)) = expanded.missing.first() {
            let message =
                format!("`{path}` refers to `{reference}`, and a secret cannot stand here");
            self.report.error(node.at, path, message).hint(
                "everybody on this machine can read a command line; give it to the server in `env`",
            );
            return None;
        }
        Some(expanded)
    }

    /// The same for a value that may be a secret, or hold one. Where something is still missing it
    /// is noted as a gap of `slot`, which is to be left empty; whoever started the server with it
    /// would be stopped by that.
    pub(crate) fn expand_value(
        &mut self,
        path: &str,
        node: &Node,
        text: &str,
        slot: Slot,
    ) -> Option<Expanded> {
        let result = expand::expand_value(text, self.around);
        let expanded = self.expanded(path, node, result)?;
        if !expanded.missing.is_empty() {
            let mut problem = self
                .report
                .source
                .problem(Severity::Error, node.at, String::new());
            path.clone_into(&mut problem.key);
            self.gaps
                .push(Gap::new(slot, path, expanded.clone(), problem));
        }
        Some(expanded)
    }

    /// Warns of a secret that stands in the file itself, and notes where. `hidden` is the part of
    /// the value that is one.
    pub(crate) fn literal(&mut self, path: &str, node: &Node, value: &str, hidden: &str) {
        let message = format!("`{path}` looks like a secret that stands in the file itself");
        let hint = if self.report.source.layer.may_loosen() {
            "`outrigger secrets import` moves it out; or write a variable such as `${TOKEN}` yourself"
        } else {
            "write a variable such as `${TOKEN}`; `outrigger secrets import` moves it out once the folder is trusted"
        };
        let problem = self.report.warn(node.at, path, message);
        problem.hint(hint).excerpt = None;
        self.note_literal(path, node, value, hidden);
    }

    /// Notes it, for those who move it out.
    pub(crate) fn note_literal(&mut self, path: &str, node: &Node, value: &str, hidden: &str) {
        let source = self.report.source;
        self.literals.push(Literal {
            file: source.path.clone(),
            layer: source.layer,
            format: Format::of(&source.path, &source.text),
            line: node.at.line,
            column: node.at.column,
            key: path.to_owned(),
            value: value.to_owned(),
            secret: hidden.to_owned(),
        });
    }

    /// Warns of the value of `name` when it looks like a secret and was written out.
    pub(crate) fn check_literal(&mut self, path: &str, entry: &Entry, written: &str) {
        let plain = !written.contains("${") && !written.starts_with(LITERAL);
        if let Some(hidden) = literal::secret_part(&entry.key, written).filter(|_| plain) {
            self.secrets.add(hidden);
            self.literal(path, &entry.node, written, hidden);
        }
    }

    fn expanded(
        &mut self,
        path: &str,
        node: &Node,
        result: Result<Expanded, expand::ExpandError>,
    ) -> Option<Expanded> {
        let expanded = self.sound(path, node, result)?;
        for (variable, held) in &expanded.used {
            if held.is_empty() {
                let message = format!("`{path}` uses `${{{variable}}}`, which is set and empty");
                self.report.warn(node.at, path, message);
            }
            if !super::super::environment::is_inherited(variable) {
                self.secrets.add_variable(variable, held);
            }
        }
        if expanded.text.contains('\0') {
            self.report.error(
                node.at,
                path,
                format!("`{path}` holds a NUL byte, which no program can be given"),
            );
            return None;
        }
        Some(expanded)
    }

    /// A leading `~` becomes the home folder.
    pub(crate) fn tilde(&mut self, path: &str, node: &Node, text: String) -> Option<String> {
        let result = expand::tilde(text, self.around.home.as_deref());
        self.sound(path, node, result)
    }

    fn sound<T>(
        &mut self,
        path: &str,
        node: &Node,
        result: Result<T, expand::ExpandError>,
    ) -> Option<T> {
        result
            .map_err(|error| {
                self.report
                    .error(node.at, path, format!("`{path}` {error}"))
                    .hint(error.hint());
            })
            .ok()
    }

    fn unknown(&mut self, dialect: Dialect, path: &str, entry: &Entry) {
        let key = entry.key.as_str();
        let alias = ALIASES
            .iter()
            .find(|(alias, _)| *alias == key)
            .map(|&(_, key)| key);
        let report = &mut self.report;
        if dialect == Dialect::Native {
            match alias {
                Some(own) => {
                    let message = format!("unknown key `{key}` in `{}`", self.path);
                    report
                        .error(entry.at, path, message)
                        .hint(format!("did you mean `{own}`?"));
                }
                None => report.unknown(dialect.unknown(), entry, self.path, KEYS),
            }
            return;
        }
        match key {
            "autoApprove" | "alwaysAllow" | "autoAllow" | "trust" => {
                report
                    .warn(entry.at, path, format!("`{path}` grants nothing here"))
                    .hint("what may run without asking is said in `[policy]` of `outrigger.toml`");
            }
            "timeout" => {
                report
                    .warn(
                        entry.at,
                        path,
                        format!(
                            "`{path}` is not used: some hosts mean seconds by it, some milliseconds"
                        ),
                    )
                    .hint("write `\"timeouts\": {\"call\": \"60s\"}`");
            }
            "envFile" => {
                report
                    .error(entry.at, path, format!("`{path}` is not read, and without its variables the server would not work as meant"))
                    .hint("put the variables into `env`");
            }
            _ if key.starts_with(['_', '$', '/']) => {}
            _ => {
                let warning = report.warn(
                    entry.at,
                    path,
                    format!("`{path}` is not a key that is used here"),
                );
                if let Some(near) = nearest(key, KEYS) {
                    warning.hint(format!("did you mean `{near}`?"));
                }
            }
        }
    }
}

fn is_off(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| match entry.key.as_str() {
        "enabled" => matches!(entry.node.value, Value::Bool(false)),
        "disabled" => matches!(entry.node.value, Value::Bool(true)),
        _ => false,
    })
}

/// A value as it stands in the file. Only for keys that hold no secret.
pub(super) fn shown(node: &Node) -> Shown {
    match &node.value {
        Value::Null => Shown::Null,
        Value::Bool(value) => Shown::Bool(*value),
        Value::Number(digits) => digits
            .parse::<serde_json::Number>()
            .map_or_else(|_| Shown::from(digits.as_str()), Shown::Number),
        Value::Text(text) => Shown::from(text.as_str()),
        Value::List(items) => Shown::Array(items.iter().map(shown).collect()),
        Value::Table(entries) => Shown::Object(
            entries
                .iter()
                .map(|entry| (entry.key.clone(), shown(&entry.node)))
                .collect(),
        ),
    }
}

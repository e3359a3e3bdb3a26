//! The keys of a server that say how to treat it, whatever its transport.

use outrigger_connect::{Deadlines, Framing, Limits, PROTOCOL_VERSIONS, Protocol};

use super::server::Lowering;
use super::{bounds, repeating};
use crate::config::defaults::ServerDefaults;
use crate::config::node::{Entry, Node, Value};
use crate::config::repeating::Repeating;
use crate::config::report::Report;
use crate::config::server::ServerStart;
use crate::config::sharing::Sharing;
use crate::config::value;
use crate::questions::Answers;

/// What was read of them.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) read_only: bool,
    pub(crate) instructions: bool,
    pub(crate) description: Option<String>,
    pub(crate) protocol: Protocol,
    /// `None`: all that are known.
    pub(crate) versions: Option<Vec<String>>,
    pub(crate) framing: Framing,
    pub(crate) deadlines: Deadlines,
    pub(crate) limits: Limits,
    pub(crate) allowed_tools: Option<Vec<String>>,
    pub(crate) disabled_tools: Vec<String>,
    /// Globs over raw tool names: these are shown to a model whatever else is there.
    pub(crate) always: Vec<String>,
    pub(crate) start: ServerStart,
    /// `None`: by what it is.
    pub(crate) sharing: Option<Sharing>,
    pub(crate) single: bool,
    pub(crate) answers: Answers,
    pub(crate) repeating: Repeating,
}

impl Options {
    /// What holds where the entry says nothing.
    pub(crate) fn new(defaults: &ServerDefaults) -> Self {
        Self {
            deadlines: defaults.deadlines,
            limits: defaults.limits,
            ..Self::default()
        }
    }

    /// Reads a key; `false` when it is none of these.
    pub(crate) fn key(
        &mut self,
        low: &mut Lowering<'_>,
        key: &str,
        path: &str,
        entry: &Entry,
    ) -> bool {
        let (report, node) = (&mut low.report, &entry.node);
        match key {
            "description" => self.description = value::text(report, path, node),
            "read_only" => self.read_only = value::truth(report, path, node).unwrap_or(false),
            "instructions" => self.instructions = value::truth(report, path, node).unwrap_or(false),
            "protocol" => {
                let words = [
                    ("auto", Protocol::Auto),
                    ("modern", Protocol::Modern),
                    ("legacy", Protocol::Legacy),
                ];
                self.protocol = value::word(report, path, node, &words).unwrap_or_default();
            }
            "versions" => self.versions = versions(report, path, node),
            "framing" => {
                let words = [
                    ("auto", Framing::Auto),
                    ("newline", Framing::Newline),
                    ("content-length", Framing::ContentLength),
                ];
                self.framing = value::word(report, path, node, &words).unwrap_or_default();
            }
            "timeouts" => {
                bounds::timeouts(report, path, node, &mut self.deadlines);
            }
            "limits" => bounds::limits(report, path, node, &mut self.limits),
            "allowed_tools" => self.allowed_tools = globs(report, path, node),
            "disabled_tools" => self.disabled_tools = globs(report, path, node).unwrap_or_default(),
            "start" => {
                let words = [("eager", ServerStart::Eager), ("lazy", ServerStart::Lazy)];
                self.start = value::word(report, path, node, &words).unwrap_or_default();
            }
            "sharing" => {
                let words = [
                    ("shared", Sharing::Shared),
                    ("per-principal", Sharing::PerPrincipal),
                ];
                self.sharing = value::word(report, path, node, &words);
            }
            "single" => self.single = value::truth(report, path, node).unwrap_or(false),
            "always" => self.always = always(report, path, node).unwrap_or_default(),
            "answers" => self.answers = answers(report, path, node).unwrap_or_default(),
            "idempotent" => {
                self.repeating.idempotent = value::truth(report, path, node).unwrap_or(false);
            }
            "retries" => {
                self.repeating.retries = repeating::retries(report, path, node).unwrap_or(0);
            }
            "tools" => self.repeating.tools = repeating::tools(report, path, node),
            _ => return false,
        }
        true
    }
}

fn versions(report: &mut Report<'_>, path: &str, node: &Node) -> Option<Vec<String>> {
    let known = || {
        let known = PROTOCOL_VERSIONS.map(|version| format!("`{version}`"));
        format!("known versions: {}", known.join(", "))
    };
    let items = value::list(report, path, node)?;
    if items.is_empty() {
        let message = format!("`{path}` allows no version at all");
        report.error(node.at, path, message).hint(known());
    }
    let mut versions = Vec::new();
    for (item, version) in items {
        if !PROTOCOL_VERSIONS.contains(&version.as_str()) {
            let shown: String = version.chars().take(40).collect();
            let message = format!(
                "`{path}` has `{}`, which is no protocol version that is known here",
                shown.escape_debug()
            );
            report.error(item.at, path, message).hint(known());
        }
        versions.push(version);
    }
    Some(versions)
}

/// Which questions of the server are answered; an empty list: none.
fn answers(report: &mut Report<'_>, path: &str, node: &Node) -> Option<Answers> {
    let mut answers = Answers {
        elicitation: false,
        sampling: false,
        roots: false,
    };
    for (item, text) in value::list(report, path, node)? {
        let slot = match text.as_str() {
            "elicitation" => &mut answers.elicitation,
            "sampling" => &mut answers.sampling,
            "roots" => &mut answers.roots,
            _ => {
                let message = format!("`{path}` has `{text}`, which no server can ask for here");
                report
                    .error(item.at, path, message)
                    .hint("it takes `elicitation`, `sampling` and `roots`");
                continue;
            }
        };
        *slot = true;
    }
    Some(answers)
}

/// `true`: all tools; a list: those whose names match.
fn always(report: &mut Report<'_>, path: &str, node: &Node) -> Option<Vec<String>> {
    match &node.value {
        Value::Bool(true) => Some(vec!["*".to_owned()]),
        Value::Bool(false) => Some(Vec::new()),
        Value::List(_) => globs(report, path, node),
        _ => {
            report.mismatch(path, node, "true, false or a list of globs over tool names");
            None
        }
    }
}

fn globs(report: &mut Report<'_>, path: &str, node: &Node) -> Option<Vec<String>> {
    let items = value::list(report, path, node)?;
    let mut globs = Vec::new();
    for (item, text) in items {
        if let Err(error) = globset::Glob::new(&text) {
            report.error(
                item.at,
                path,
                format!("`{path}` has a broken glob: {}", error.kind()),
            );
        }
        globs.push(text);
    }
    Some(globs)
}

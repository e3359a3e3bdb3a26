//! The keys of a server that say how to treat it, whatever its transport.

use outrigger_connect::{Deadlines, Framing, Limits, Protocol};

use super::server::Lowering;
use crate::config::node::{Entry, Node};
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::value;
use crate::questions::Answers;

/// What was read of them.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) read_only: bool,
    pub(crate) description: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) framing: Framing,
    pub(crate) deadlines: Deadlines,
    pub(crate) limits: Limits,
    pub(crate) allowed_tools: Option<Vec<String>>,
    pub(crate) disabled_tools: Vec<String>,
    pub(crate) answers: Answers,
}

impl Options {
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
            "protocol" => {
                let words = [
                    ("auto", Protocol::Auto),
                    ("modern", Protocol::Modern),
                    ("legacy", Protocol::Legacy),
                ];
                self.protocol = value::word(report, path, node, &words).unwrap_or_default();
            }
            "framing" => {
                let words = [
                    ("auto", Framing::Auto),
                    ("newline", Framing::Newline),
                    ("content-length", Framing::ContentLength),
                ];
                self.framing = value::word(report, path, node, &words).unwrap_or_default();
            }
            "timeouts" => timeouts(report, path, node, &mut self.deadlines),
            "limits" => limits(report, path, node, &mut self.limits),
            "allowed_tools" => self.allowed_tools = globs(report, path, node),
            "disabled_tools" => self.disabled_tools = globs(report, path, node).unwrap_or_default(),
            "answers" => self.answers = answers(report, path, node).unwrap_or_default(),
            _ => return false,
        }
        true
    }
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

fn timeouts(report: &mut Report<'_>, path: &str, node: &Node, deadlines: &mut Deadlines) {
    let Some(entries) = value::table(report, path, node) else {
        return;
    };
    let mut hard_at = None;
    for entry in entries {
        let slot = match entry.key.as_str() {
            "start" => &mut deadlines.start,
            "probe" => &mut deadlines.probe,
            "list" => &mut deadlines.list,
            "call" => &mut deadlines.call,
            "call_hard" => {
                hard_at = Some(entry.node.at);
                &mut deadlines.call_hard
            }
            "close" => &mut deadlines.close,
            _ => {
                let known = ["start", "probe", "list", "call", "call_hard", "close"];
                report.unknown(Severity::Error, entry, path, &known);
                continue;
            }
        };
        if let Some(duration) = value::duration(report, &join(path, &entry.key), &entry.node) {
            *slot = duration;
        }
    }
    if deadlines.call_hard < deadlines.call {
        match hard_at {
            Some(at) => {
                report.error(
                    at,
                    path,
                    format!("`{path}.call_hard` is shorter than `{path}.call`"),
                );
            }
            None => deadlines.call_hard = deadlines.call,
        }
    }
}

fn limits(report: &mut Report<'_>, path: &str, node: &Node, limits: &mut Limits) {
    let Some(entries) = value::table(report, path, node) else {
        return;
    };
    for entry in entries {
        let inner = join(path, &entry.key);
        let node = &entry.node;
        let (slot, read) = match entry.key.as_str() {
            "frame_bytes" => (&mut limits.frame_bytes, value::size(report, &inner, node)),
            "depth" => (&mut limits.depth, value::count(report, &inner, node)),
            "tools" => (&mut limits.tools, value::count(report, &inner, node)),
            "pages" => (&mut limits.pages, value::count(report, &inner, node)),
            "concurrent_calls" => (
                &mut limits.concurrent_calls,
                value::count(report, &inner, node),
            ),
            _ => {
                let known = ["frame_bytes", "depth", "tools", "pages", "concurrent_calls"];
                report.unknown(Severity::Error, entry, path, &known);
                continue;
            }
        };
        *slot = read.unwrap_or(*slot);
    }
}

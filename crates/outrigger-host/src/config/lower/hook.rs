//! `[[hooks.before_call]]` and its siblings. Anything wrong in them is an error of the file: the hook
//! may have been there to say no. Hooks of a project that is not trusted are read, and not run.

use std::time::Duration;

use outrigger_connect::TransportSpec;

use super::model::Aside;
use super::server::Lowering;
use super::transport::{self, Draft};
use crate::config::hook::{HookEvent, HookSettings};
use crate::config::node::{Node, Value};
use crate::config::problem::{ConfigProblem, Severity};
use crate::config::report::{Report, join};
use crate::config::source::Source;
use crate::config::surroundings::Surroundings;
use crate::config::value;

const KEYS: &[&str] = &[
    "command", "args", "env", "cwd", "url", "headers", "tool", "server", "timeout",
];

/// Adds the hooks of one file.
pub(crate) fn lower(
    report: &mut Report<'_>,
    around: &Surroundings,
    node: &Node,
    hooks: &mut Vec<HookSettings>,
    found: &mut Aside,
) {
    let Some(entries) = value::table(report, "hooks", node) else {
        return;
    };
    for entry in entries {
        let event = HookEvent::ALL
            .into_iter()
            .find(|event| event.as_str() == entry.key);
        let Some(event) = event else {
            let known = HookEvent::ALL.map(HookEvent::as_str);
            report.unknown(Severity::Error, entry, "hooks", &known);
            continue;
        };
        let path = join("hooks", &entry.key);
        let Value::List(items) = &entry.node.value else {
            report.mismatch(&path, &entry.node, "a list of tables");
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let (hook, problems) = one(report.source, around, &path, (event, item), found);
            report.problems.extend(problems);
            hooks.extend(hook);
        }
    }
}

fn one(
    source: &Source,
    around: &Surroundings,
    path: &str,
    (event, node): (HookEvent, &Node),
    found: &mut Aside,
) -> (Option<HookSettings>, Vec<ConfigProblem>) {
    let mut low = Lowering::new(source, around, path);
    let hook = read(&mut low, event, node).filter(|_| !low.report.has_errors());
    found.secrets.extend(low.secrets);
    found.literals.extend(low.literals);
    (hook, low.report.problems)
}

fn read(low: &mut Lowering<'_>, event: HookEvent, node: &Node) -> Option<HookSettings> {
    let mut draft = Draft::new(node.at);
    let (mut tool, mut server, mut timeout) = (None, None, HookSettings::TIMEOUT);
    for entry in value::table(&mut low.report, low.path, node)? {
        let path = join(low.path, &entry.key);
        match entry.key.as_str() {
            key @ ("command" | "args" | "env" | "cwd" | "url" | "headers") => {
                draft.key(low, key, &path, entry);
            }
            "tool" | "server" if is_of_session(event) => {
                let message = format!("`{path}` has no meaning: a {event} hook is about no call");
                low.report.error(entry.at, &path, message);
            }
            "tool" => tool = glob(low, &path, &entry.node),
            "server" => server = glob(low, &path, &entry.node),
            "timeout" => timeout = time(low, &path, &entry.node),
            _ => low.report.unknown(Severity::Error, entry, low.path, KEYS),
        }
        if matches!(entry.key.as_str(), "tool" | "server" | "timeout")
            && let Value::Text(shown) = &entry.node.value
        {
            low.note(&entry.key, entry.at, shown.as_str().into());
        }
    }
    let reach = transport::finish(low, draft, &[])?;
    if let TransportSpec::WebSocket(_) = reach {
        let message = format!("`{}.url` must begin with `http://` or `https://`", low.path);
        low.report.error(node.at, low.path, message);
        return None;
    }
    Some(HookSettings {
        event,
        reach,
        tool,
        server,
        timeout,
        origin: low.report.origin(node.at),
        written: low.take_written(),
        gaps: std::mem::take(&mut low.gaps),
    })
}

fn is_of_session(event: HookEvent) -> bool {
    matches!(event, HookEvent::SessionStart | HookEvent::SessionEnd)
}

fn time(low: &mut Lowering<'_>, path: &str, node: &Node) -> Duration {
    value::duration(&mut low.report, path, node).unwrap_or(HookSettings::TIMEOUT)
}

fn glob(low: &mut Lowering<'_>, path: &str, node: &Node) -> Option<String> {
    let text = value::text(&mut low.report, path, node)?;
    if let Err(error) = crate::policy::glob(&text) {
        let message = format!("`{path}` is not a usable glob: {}", error.reason);
        low.report.error(node.at, path, message);
    }
    Some(text)
}
